package exprlang

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// paths that FuzzPath follows, and the same paths for encoding/json.
var fuzzedPaths = []struct {
	source string
	hops   []any
}{
	{"input", nil},
	{"input.a", []any{"a"}},
	{"input.a.b", []any{"a", "b"}},
	{"input[1]", []any{1}},
	{`input.a[0]["é"]`, []any{"a", 0, "é"}},
}

// FuzzPath compares templates that are plain paths, on any input, with a lookup by encoding/json: same bytes, same
// text, same errors.
func FuzzPath(f *testing.F) {
	for _, s := range []string{
		`{"a":{"b":1.10}}`, `{"a":1,"a":{"b":" x "}}`, `[1, {"a":"x\n<é"}]`, `{"a":[{"é":12345678901234567890}]}`, `{"\u0061":{"b":"\u0062"}}`, `{"a":null}`, `null`, ``, ` 7 `, `nope`,
		`{"a"`, `{"a":{"b":tru}}`, `{"a":[]}`, `"text"`, `{"a":"text"} x`, strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300),
	} {
		f.Add([]byte(s))
	}
	type compiled struct{ whole, text, list *Template }
	var all []compiled
	for _, p := range fuzzedPaths {
		one := func(template any) *Template {
			raw, err := json.Marshal(template)
			require.NoError(f, err)
			t, err := Compile(raw, "input")
			require.NoError(f, err)
			return t
		}
		src := "${ " + p.source + " }"
		all = append(all, compiled{one(src), one("<" + src + "|" + src + ">"), one([]string{src, src})})
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		for i, p := range fuzzedPaths {
			for _, scope := range []*Scope{Borrow(), {left: evaluationBudget}} {
				scope.Set("input", scope.Raw(input))
				raw, err := referencePath(input, p.source, p.hops)
				expect(t, all[i].whole, scope, func() (string, error) { return referenceBytes(raw, err) })
				expect(t, all[i].list, scope, func() (string, error) {
					b, err := referenceBytes(raw, err)
					return "[" + b + "," + b + "]", err
				})
				expect(t, all[i].text, scope, func() (string, error) {
					b, err := referenceText(raw, p.source, err)
					quoted, errQuote := encode("<" + b + "|" + b + ">")
					return string(quoted), errors.Join(err, errQuote)
				})
				if scope.result != nil {
					scope.Return()
				}
			}
		}
	})
}

func expect(t *testing.T, template *Template, s *Scope, reference func() (string, error)) {
	t.Helper()
	for range 2 { // the second time from the cache of the scope
		got, err := template.Eval(s)
		want, wantErr := reference()
		if wantErr != nil {
			require.EqualError(t, err, wantErr.Error())
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func referencePath(raw json.RawMessage, source string, hops []any) (json.RawMessage, error) {
	at := "input"
	for _, h := range hops {
		kind, what := first(raw), fmt.Sprintf("member %q", h)
		index, element := h.(int)
		if element {
			what = fmt.Sprintf("element %d", index)
		}
		fields, err := []field(nil), error(nil)
		switch {
		case kind == '{' || kind == '[':
			fields, err = splitAny(raw, kind)
		case kind != 'n' && !json.Valid(raw):
			err = errors.New("not JSON")
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("${ %s }: read %s: %w", source, at, err)
		case kind == 'n':
			return nil, fmt.Errorf("${ %s }: %s is null, so it has no %s", source, at, what)
		case element && kind == '[' && index >= len(fields):
			return nil, fmt.Errorf("${ %s }: %s has %d elements, so it has no %s", source, at, len(fields), what)
		case element != (kind == '['), !element && kind != '{':
			return nil, fmt.Errorf("${ %s }: %s is %s, so it has no %s", source, at, kindName(kind), what)
		case element:
			raw, at = fields[index].raw, fmt.Sprintf("%s[%d]", at, index)
			continue
		}
		raw = nil
		for _, f := range fields {
			if string(f.name) == h.(string) {
				raw = f.raw
			}
		}
		at += "." + h.(string)
	}
	if len(raw) == 0 {
		return null, nil
	}
	return raw, nil
}

func referenceBytes(raw json.RawMessage, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = json.Compact(&b, raw)
	return b.String(), err
}

func referenceText(raw json.RawMessage, source string, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case first(raw) == '"', first(raw) == 'n':
		v, err := decode(raw)
		if err != nil {
			return "", fmt.Errorf("${ %s }: %w", source, err)
		}
		text, _ := v.(string)
		return text, nil
	}
	compact, err := referenceBytes(raw, nil)
	if err != nil {
		return "", fmt.Errorf("${ %s }: %w", source, err)
	}
	return compact, nil
}
