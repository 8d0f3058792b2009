package httpagent_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/events"
)

const secretToken = `s3"cr\\et/t<o>k+en`

// echo runs a binding whose service repeats what it got, as an output or as a refusal.
func echo(t *testing.T, code int, extra string, body func(token string) string) events.Report {
	t.Helper()
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body(r.Header.Get("X-Token"))))
	})
	env := map[string]string{"BASE": base, "TOKEN": secretToken, "NUMBER": "12345678"}
	all, err := httpagent.Parse("a.yaml", []byte(`
agent: a
http: {base: "${ env.BASE }", headers: {X-Token: "${ env.TOKEN }", X-Number: "${ env.NUMBER }"}`+extra+`}
do: {method: PUT, path: /x}
`), func(n string) (string, bool) { v, ok := env[n]; return v, ok })
	require.NoError(t, err)
	t.Cleanup(all[0].Close)
	r := agent.NewRegistry()
	all[0].Register(r)
	return agenttest.Start(t, r).Do("a", nil)
}

func TestSecretsAppearInNoFormInOutputsAndDetails(t *testing.T) {
	t.Parallel()
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, form := range map[string]func(string) string{
		"as it is":           func(s string) string { return s },
		"escaped":            func(s string) string { b, _ := json.Marshal(s); return string(b) },
		"in a query":         url.QueryEscape,
		"in a path":          url.PathEscape,
		"base64":             encode,
		"base64, user 1":     func(s string) string { return encode("u:" + s) },
		"base64, user 2":     func(s string) string { return encode("us:" + s + "!") },
		"base64, user 3":     func(s string) string { return encode("use:" + s + "!!") },
		"base64 of a URL":    func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
		"within other words": func(s string) string { return "got " + s + ", thanks" },
	} {
		for _, code := range []int{http.StatusOK, http.StatusConflict} {
			t.Run(name+" "+http.StatusText(code), func(t *testing.T) {
				t.Parallel()
				var sent string
				r := echo(t, code, "", func(token string) string {
					sent = form(token)
					b, _ := json.Marshal(map[string]any{"seen": sent, "n": 12345678, "kept": []any{true, nil, 1.5, "a\\b"}})
					return string(b)
				})
				got := r.Output
				if r.Error != nil {
					got = r.Error.Detail
				}
				var back struct {
					Seen, N string
					Kept    []any
				}
				require.NoError(t, json.Unmarshal(got, &back), string(got))
				require.Contains(t, back.Seen, "${ env.TOKEN }")
				require.NotContains(t, back.Seen, sent)
				require.Equal(t, "${ env.NUMBER }", back.N)
				require.Equal(t, []any{true, nil, 1.5, "a\\b"}, back.Kept)
			})
		}
	}
}

func TestValuesThatAreNotSecretAreKept(t *testing.T) {
	t.Parallel()
	body := func(token string) string {
		b, _ := json.Marshal(token)
		return string(b)
	}
	var got string
	require.NoError(t, json.Unmarshal(echo(t, http.StatusOK, ", public: [TOKEN]", body).Output, &got))
	require.Equal(t, secretToken, got)
	// The base is in the links that a service returns.
	h := bind(t, oneTry, serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"href":"http://` + r.Host + `/1"}`))
	}))
	require.True(t, strings.HasPrefix(string(h.Do("package", anInput).Output), `{"href":"http://127.0.0.1:`))
}
