package exprlang

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a shortcut is sure of, the machine says too.
func FuzzShortcut(f *testing.F) {
	inputs := []string{
		`{"a":"x","b":"y","c":3,"d":{"e":true,"f":null}}`, `{"a":1,"b":1.0,"c":-0,"d":{"e":0}}`, `{"a":"\u0078","b":"x","a":null}`, `null`, ``, `"x"`, ` 3 `, `007`,
		`{"a":123456789012345678901,"b":9223372036854775807,"c":-5,"d":[]}`, `{"a":"é","b":"` + strings.Repeat("z", 5000) + `"}`, `{"a":1e0}`, `{"a"`, `{"a":false,"b":[1]}`,
	}
	for i, src := range []string{
		`input.a != input.b`, `input.a == "x" && !(input.c > 2)`, `input.a < input.b or input.c <= 3`, `input.d.e`, `input.d?.f == nil`, `not input.d.e and input.a >= "a"`,
		`input == 3`, `input.a == true || input.b == false`, `nil == input.z`, `input.a == 1`, `input == nil`, `steps.a.state == "completed"`, `steps == nil`, `input.d == nil`,
		`1 < 2 && "a" > "b"`, `input.a`, `input.c > input.a`, `input["a"] == input.d["e"]`, `input.a == -5`, `(input.a == input.b) == true`, `input.a == "é"`, `input.d[0] == 1`,
	} {
		for j := range inputs {
			if i == 0 || j%5 == i%5 {
				f.Add(src, []byte(inputs[j]))
			}
		}
	}
	f.Fuzz(func(t *testing.T, src string, input []byte) {
		c, err := CompileCondition(src, "input", "steps")
		if err != nil || c.expression.short == nil {
			return
		}
		scope := func() *Scope {
			s := NewScope(map[string]json.RawMessage{"input": input})
			s.Set("steps", Object(oneStep{}))
			return s
		}
		yes, sure := c.expression.short.decide(scope())
		if !sure {
			return
		}
		e := *c.expression
		e.short = nil
		slow := Condition{expression: &e, offset: c.offset}
		want, err := slow.Eval(scope())
		if err != nil || want != yes {
			t.Fatalf("%s of %s: %v, and by the machine %v, %v", src, input, yes, want, err)
		}
	})
}

type oneStep struct{}

func (oneStep) Member(s *Scope, name string) *Node {
	switch name {
	case "a":
		return s.Object(oneStep{})
	case "state":
		return s.Text("completed")
	}
	return nil
}

func (oneStep) Names() []string { return []string{"a"} }

func TestMostConditionsNeedNoMachine(t *testing.T) {
	t.Parallel()
	s := NewScope(map[string]json.RawMessage{"input": json.RawMessage(`{"a":"x","n":3,"yes":true,"none":null}`)})
	for src, want := range map[string]bool{
		`input.a == "x"`: true, `input.a != input.b`: true, `input.n > 3`: false, `input.n >= 3 && input.yes`: true, `not input.yes or input.none == nil`: true, `input.a < "y"`: true,
		`${ input.yes }`: true,
	} {
		c, err := CompileCondition(src, "input")
		require.NoError(t, err)
		yes, sure := c.expression.short.decide(s)
		require.True(t, sure, src)
		require.Equal(t, want, yes, src)
	}
}

// The largest condition that shortcuts decide is within the budget of the machine, so that they never decide what the
// machine would refuse.
func TestShortcutsAreWithinTheBudget(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("z", maxShortcutBytes-2)
	s := NewScope(map[string]json.RawMessage{"a": json.RawMessage(fmt.Sprintf("%q", text))})
	src := strings.TrimSuffix(strings.Repeat(`a==a&&`, maxNodes/8), "&&") // as many nodes as compile
	c, err := CompileCondition(src, "a")
	require.NoError(t, err)
	yes, sure := c.expression.short.decide(s)
	require.True(t, sure && yes)
	v, err := c.expression.value(s)
	require.NoError(t, err)
	require.Equal(t, true, v)
	require.Greater(t, s.left, evaluationBudget/2)
}

// FuzzSplit compares the members and elements that are found without decoding with those of encoding/json.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":{"c":[1, 2]},"a":3}`, ` [ 1 , "x" , null ] `, `{"\u0061":1,"é":2,"a":3}`, `{} x`, `{"a":}`, `[1,]`, `{"\ud800":1,"` + "\xff" + `":2}`, `{"a" : nul}`,
		strings.Repeat("[", 500) + strings.Repeat("]", 500), `[`, `{"a":"\q"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kind := first(raw)
		if kind != '{' && kind != '[' {
			return
		}
		s := Borrow()
		defer s.Return()
		got, sure := s.split(raw)
		want, err := splitAny(raw, kind)
		if !sure {
			require.Empty(t, s.fields)
			require.True(t, err != nil || strings.Count(string(raw), "[")+strings.Count(string(raw), "{") > 100, "valid, and not sure: %q", raw)
			return
		}
		require.NoError(t, err)
		if kind == '[' {
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, string(want[i].raw), string(got[i].raw))
			}
			return
		}
		last, object := map[string]string{}, Node{raw: raw, kind: kind, fields: got}
		for _, m := range want {
			require.Equal(t, string(m.raw), string(object.member(s, string(m.name)).raw))
			last[string(m.name)] = ""
		}
		for _, m := range got {
			require.Contains(t, last, string(m.name))
		}
	})
}
