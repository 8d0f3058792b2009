package exprlang

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzSplit compares the members and elements that Scope.split finds with those of encoding/json.
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
			require.True(t, err != nil || strings.Count(string(raw), "[")+strings.Count(string(raw), "{") > 100, "valid, but the scanner is not sure: %q", raw)
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
