package exprlang_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/exprlang"
)

func scope(t testing.TB) *exprlang.Scope {
	t.Helper()
	return exprlang.NewScope(map[string]json.RawMessage{
		"input": json.RawMessage(`{"id":"a/b","amount":1.10,"big":12345678901234567890,"n":3,"html":"<b>&","list":[3,1,2],
			"none":null,"nested":{"x":{"y":[10,20]}},"flag":true,"z":{"c":1,"a":2,"b":3}, "e": 1e400}`),
		"task": json.RawMessage(`{"id":"t1","run":1}`),
		"gone": nil,
	})
}

var vars = []string{"input", "task", "gone"}

func TestATemplateGivesJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, template, want string }{
		{"whole value keeps its type", `{"a":"${ input.n }","b":"${ input.flag }"}`, `{"a":3,"b":true}`},
		{"text inside a string", `"n=${ input.n } f=${input.flag} s=${ task.id } null=${ input.none }."`, `"n=3 f=true s=t1 null=."`},
		{"numbers keep their digits on a plain path", `["${input.amount}","${ input.big }","x${ input.amount }","${ input.e }"]`, `[1.10,12345678901234567890,"x1.10",1e400]`},
		{"objects are compact", `"${ input.nested }"`, `{"x":{"y":[10,20]}}`},
		{"objects inside text are compact JSON", `"v: ${ input.nested }"`, `"v: {\"x\":{\"y\":[10,20]}}"`},
		{"no HTML escape", `"${ input.html + \"<\" }"`, `"<b>&<"`},
		{"no HTML escape on a path", `"${ input.html }"`, `"<b>&"`},
		{"keys are sorted", `{"b":1,"a":"${ {z: 1, a: input.n} }"}`, `{"a":{"a":3,"z":1},"b":1}`},
		{"escape", `"$${ input.n } $5 ${ 1 + 1 }"`, `"${ input.n } $5 2"`},
		{"a missing member is null", `"${ input.nope }"`, `null`},
		{"an optional member of null is null", `"${ input.none?.x.y }"`, `null`},
		{"elements", `["${ input.nested.x.y[1] }","${ input.list[-1] }"]`, `[20,2]`},
		{"brackets", `"${ input[\"nested\"].x }"`, `{"y":[10,20]}`},
		{"dynamic members", `"${ input[\"li\" + \"st\"][0] }"`, `3`},
		{"braces inside the expression", `"${ {a: \"}\"}.a }"`, `"}"`},
		{"a whole absent variable", `"${ gone }"`, `null`},
		{"keys of a map are sorted", `["${ keys(input.z) }","${ values(input.z) }","${ toPairs(input.z) }"]`, `[["a","b","c"],[2,3,1],[["a",2],["b",3],["c",1]]]`},
		{"loops", `"${ map(filter(input.list, # > 1), # * 2) }"`, `[6,4]`},
		{"groups", `"${ groupBy(input.list, # > 1) }"`, `{"false":[1],"true":[3,2]}`},
		{"sum and sort", `["${ sum(input.list) }","${ sort(input.list) }","${ 1..3 }"]`, `[6,[1,2,3],[1,2,3]]`},
		{"text functions", `"${ upper(task.id) + join([\"a\", \"b\"], \"-\") + repeat(\"x\", 2) + replace(\"abc\", \"b\", \"--\") }"`, `"T1a-bxxa--c"`},
		{"JSON functions", `["${ toJSON(input.z) }","${ fromJSON(\"[1,2.5]\") }"]`, `["{\"a\":2,\"b\":3,\"c\":1}",[1,2.5]]`},
		{"division is of floats", `"${ 7 / 2 }"`, `3.5`},
		{"pipes and let", `"${ let n = input.n; n + 1 | string() }"`, `"4"`},
		{"condition", `"${ input.n > 2 ? \"many\" : \"few\" }"`, `"many"`},
		{"coalescing", `"${ input.nope ?? \"default\" }"`, `"default"`},
		{"constants as written", `{"n":1.50,"s":"<","l":[null,true]}`, `{"l":[null,true],"n":1.50,"s":"<"}`},
		{"duration", `"${ duration(\"90m\") }"`, `"1h30m"`},
		{"uniq", `"${ uniq([1,1,2]) }"`, `[1,2]`},
		{"flatten", `"${ flatten([[1],[2,[3]]]) }"`, `[1,2,3]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := exprlang.Compile(json.RawMessage(c.template), vars...)
			require.NoError(t, err)
			got, err := tmpl.Eval(scope(t))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestAnEvaluationFailsWithAReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, template, want string }{
		{"member of null", `"${ input.none.x }"`, `${ input.none.x }: input.none is null, so it has no member "x"`},
		{"member of null inside more", `"${ input.nope.x + 1 }"`, `${ input.nope.x + 1 }: input.nope is null, so it has no member "x"`},
		{"member of a scalar", `"${ input.n.x }"`, `input.n is a number, so it has no member "x"`},
		{"element beyond the end", `"${ input.list[7] }"`, `input.list has 3 elements, so it has no element 7`},
		{"arithmetic on an inexact number", `"${ input.big + 1 }"`, `long number`},
		{"division by zero gives no JSON", `"${ 1 / 0 }"`, `division by zero`},
		{"text that doubles", `"${ reduce(1..60, #acc + #acc, \"aaaaaaaaaaaaaaaa\") }"`, `larger than`},
		{"lists that double", `"${ reduce(1..60, concat(#acc, #acc), [1]) }"`, `too much`},
		{"nested loops", `"${ let a = 1..1000; all(a, all(a, all(a, true))) }"`, `too much`},
		{"long ranges", `"${ 1..100000000 }"`, `too much work`},
		{"repeats", `"${ repeat(repeat(\"a\", 1000000), 1000000) }"`, `larger than`},
		{"a shared list that explodes in the result", `"${ let a = 1..1000; let b = map(a, a); map(a, b) }"`, `larger than`},
		{"a panic of the machine", `"${ task.id * 2 }"`, `invalid operation`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tmpl, err := exprlang.Compile(json.RawMessage(c.template), vars...)
			require.NoError(t, err)
			_, err = tmpl.Eval(scope(t))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestACompileErrorHasItsPosition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		offset     int
		want       string
	}{
		{"unknown variable", `x ${ inpt.n }`, 5, `unknown name inpt`},
		{"unknown function", `${ foo(1) }`, 3, `unknown name foo`},
		{"syntax", `${ input.n + }`, 12, `unexpected token EOF`},
		{"empty", `${ }`, 2, `empty`},
		{"no closing brace", `ab ${ input.n`, 3, `no closing }`},
		{"clock", `${ now() }`, 3, `every replay`},
		{"time zones", `${ date("2026-01-01") }`, 3, `RFC 3339`},
		{"the environment", `${ $env }`, 3, `$env`},
		{"methods", `${ duration("1h").Hours() }`, 18, `only the functions`},
		{"hiding a variable", `${ let input = 1; input }`, 7, `cannot redeclare`},
		{"types", `é ${ "a" * 2 }`, 10, `invalid operation`},
		{"a flood of parentheses", `${` + strings.Repeat("(", 100_000) + `}`, 2, `longer than`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := exprlang.CompileString(c.text, nil, vars...)
			var faults exprlang.Errors
			require.True(t, errors.As(err, &faults), "%v", err)
			require.Contains(t, faults[0].Message, c.want)
			require.Equal(t, c.offset, faults[0].Offset, "%v", faults[0].Message)
		})
	}
}

func TestEveryFaultOfATemplateIsReported(t *testing.T) {
	t.Parallel()
	_, err := exprlang.Compile(json.RawMessage(`{"a":"${ b }","l":["x","${ c } ${ d }"],"${k}":1}`), vars...)
	var faults exprlang.Errors
	require.ErrorAs(t, err, &faults)
	require.EqualError(t, err, "/${k}: a key cannot contain an expression; /a: unknown name b; /l/1: unknown name c; /l/1: unknown name d")
}

func TestATextEscapesTheResultsOfExpressions(t *testing.T) {
	t.Parallel()
	text, err := exprlang.CompileString("/api/${ input.id }/x y", url.PathEscape, vars...)
	require.NoError(t, err)
	got, err := text.Eval(scope(t))
	require.NoError(t, err)
	require.Equal(t, "/api/a%2Fb/x y", got)
}

func TestAConditionIsTrueOrFalseOrAnError(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]any{
		"${ input.n == 3 }": true, "input.n > 3": false, "  ${ input.flag } ": true,
		"${ input.none }": "evaluates to null, not to true or false", "input.id": "evaluates to a string",
		"${ input.list }": "evaluates to a list",
	} {
		c, err := exprlang.CompileCondition(src, vars...)
		require.NoError(t, err, src)
		got, err := c.Eval(scope(t))
		if text, fails := want.(string); fails {
			require.ErrorContains(t, err, text)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, got, src)
	}
	_, err := exprlang.CompileCondition("a ${ true }", vars...)
	require.ErrorContains(t, err, "a single ${ ... }")
}

func TestReferencesNameWhatIsUsed(t *testing.T) {
	t.Parallel()
	text, err := exprlang.CompileString(`x ${ steps["third-party"].output.id + steps.a?.output[0] }, ${ steps[input.x] }`, nil, "steps", "input")
	require.NoError(t, err)
	require.Equal(t, []exprlang.Reference{
		{Path: []string{"steps", "third-party", "output", "id"}, Offset: 5},
		{Path: []string{"steps", "a", "output"}, Offset: 38},
		{Path: []string{"steps"}, Offset: 63},
		{Path: []string{"input", "x"}, Offset: 69},
	}, text.References())
}

func TestATemplateWithoutExpressionsIsConstant(t *testing.T) {
	t.Parallel()
	tmpl, err := exprlang.Compile(json.RawMessage(` {"b" : 1.0, "a":"$${x}"} `))
	require.NoError(t, err)
	c, ok := tmpl.Constant()
	require.True(t, ok)
	require.Equal(t, `{"a":"${x}","b":1.0}`, string(c))
}

type lazy struct{ asked []string }

func (l *lazy) Member(_ *exprlang.Scope, name string) *exprlang.Node {
	l.asked = append(l.asked, name)
	if name != "a" {
		return nil
	}
	return exprlang.Raw(json.RawMessage(`{"output":{"id":7}}`))
}
func (l *lazy) Names() []string { return []string{"a"} }

func TestMembersAreMadeOnDemandAndOnce(t *testing.T) {
	t.Parallel()
	l := &lazy{}
	s := exprlang.NewNodeScope(map[string]*exprlang.Node{"steps": exprlang.Object(l)})
	tmpl, err := exprlang.Compile(json.RawMessage(`["${ steps.a.output.id }","${ steps.a.output.id + 1 }","${ steps }"]`), "steps")
	require.NoError(t, err)
	require.Empty(t, l.asked)
	got, err := tmpl.Eval(s)
	require.NoError(t, err)
	require.Equal(t, `[7,8,{"a":{"output":{"id":7}}}]`, string(got))
	require.Equal(t, []string{"a"}, l.asked)
}

func TestACompiledTemplateIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	tmpl, err := exprlang.Compile(json.RawMessage(`["${ input.n + 1 }","${ map(input.list, # + 1) }","${ input.z }"]`), vars...)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				got, err := tmpl.Eval(scope(t))
				if err != nil || string(got) != `[4,[4,2,3],{"c":1,"a":2,"b":3}]` {
					t.Errorf("got %s, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
