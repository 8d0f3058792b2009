package httpagent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent/httpagent"
)

func TestEveryFaultOfABindingHasItsLineAndColumn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"unknown keys": {`agnet: package
http:
  base: http://127.0.0.1:1
  concurency: 3
  breaker: {failure: 0.5, window: 10}
do: {method: PSOT, path: items, boddy: 1}
`, []string{
			`f.yaml:1:1: unknown key "agnet", did you mean "agent"?`,
			`f.yaml:1:1: key "agent" is missing`,
			`f.yaml:4:3: unknown key "concurency", did you mean "concurrency"?`,
			`f.yaml:5:13: unknown key "failure", did you mean "failures"?`,
			`f.yaml:5:35: "10" is a duration without a unit: write 10s or 10ms`,
			`f.yaml:6:14: unknown method "PSOT", did you mean "POST"?`,
			`f.yaml:6:26: path must begin with a slash, such as /items/${ input.id }`,
			`f.yaml:6:33: unknown key "boddy", did you mean "body"?`,
		}},
		"values": {`agent: Package
http: {base: ftp://x, concurrency: 0, breaker: {failures: 7, window: -1s, calls: many, open: [1]}, timeout: 0s, retry: {tries: 101}}
do: {method: GET, path: /, headers: {Sagalog-Task: x, "a b": y}}
`, []string{
			`f.yaml:1:8: "Package" is not a valid name`, `f.yaml:2:36: must be a whole number from 1 to 10000`,
			`f.yaml:2:59: failures is a rate`, `f.yaml:2:70: must be longer than zero`, `f.yaml:2:82: must be a whole number`,
			`f.yaml:2:94: must be a duration`, `f.yaml:2:109: must be longer than zero`, `f.yaml:2:128: must be a whole number from 1 to 100`,
			`f.yaml:3:38: header Sagalog-Task is set by the agent`, `f.yaml:3:55: "a b" is not a header name`,
		}},
		"base": {"agent: a\nhttp: {base: ftp://x}\ndo: {method: GET, path: /}\n",
			[]string{"f.yaml:2:14: base is not an absolute http or https URL"}},
		"limit": {"agent: a\nhttp: {base: http://x, limit: none}\ndo: {method: GET, path: /}\n",
			[]string{"f.yaml:2:31: limit is adaptive, which is the default, or fixed"}},
		"proxies, names and what is gone": {`agent: a
http: {base: http://x, direct: 1, public: REGION}
do: {method: GET, path: /, gone: undone}
undo: {method: GET, path: /, gone: true}
`, []string{
			"f.yaml:2:32: direct is true if no proxy", "f.yaml:2:43: public is a list of environment variables",
			"f.yaml:3:34: gone belongs to undo", "f.yaml:4:36: gone belongs to undo, and its only value is undone",
		}},
		"query in the base": {"agent: a\nhttp: {base: \"http://x?a=1\"}\ndo: {method: GET, path: /}\n",
			[]string{"f.yaml:2:14: base cannot have a query"}},
		"expressions": {`agent: a
http: {base: "${ env.MISSING }"}
do:
  method: PUT
  path: "/x/${ inptu.id }"
  body:
    deep:
      - "a ${ output.id }"
      - "${ env }"
`, []string{
			"f.yaml:2:18: the environment has no variable MISSING",
			"f.yaml:5:", "inptu", "f.yaml:8:", "output", "f.yaml:9:", "name one variable",
		}},
		"missing parts": {"agent: a\nhttp: {}\nundo: {method: GET}\n", []string{
			`f.yaml:2:7: key "base" is missing`, `key "do" is missing`, `f.yaml:3:7: key "path" is missing`,
		}},
		"twice":      {"agent: a\nagent: b\n", []string{`f.yaml:2:1: key "agent" is set twice`}},
		"not YAML":   {"agent: [a\nhttp: b\n", []string{"f.yaml:2:"}},
		"a list":     {"- agent\n", []string{"f.yaml:1:1: must be a mapping with agent, do, http, operations, undo"}},
		"dead alias": {"agent: *x\n", []string{"f.yaml:1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := httpagent.Parse("f.yaml", []byte(c.text), func(string) (string, bool) { return "", false })
			require.Error(t, err)
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

func TestTheValueOfABadBaseIsNotShown(t *testing.T) {
	t.Parallel()
	_, err := httpagent.Parse("f.yaml", []byte("agent: a\nhttp: {base: \"${ env.U }\"}\ndo: {method: GET, path: /}\n"),
		func(string) (string, bool) { return "user:hunter22@host", true })
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter22")
}

func TestAnEmptyFileBindsNothing(t *testing.T) {
	t.Parallel()
	all, err := httpagent.Parse("f.yaml", []byte("# nothing\n---\n---\n"), nil)
	require.NoError(t, err)
	require.Empty(t, all)
}

// Nested aliases must not expand without bound.
func TestABodyOfManyAliasesIsRefused(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("agent: a\nhttp: {base: http://x}\ndo:\n  method: PUT\n  path: /\n  body:\n    a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n")
	for i := '1'; i <= '9'; i++ {
		p := string(i - 1)
		b.WriteString("    a" + string(i) + ": &a" + string(i) + " [" + strings.Repeat("*a"+p+", ", 8) + "*a" + p + "]\n")
	}
	_, err := httpagent.Parse("f.yaml", []byte(b.String()), nil)
	require.Error(t, err)
}

func FuzzParseBindings(f *testing.F) {
	f.Add([]byte(packageBinding))
	f.Add([]byte("agent: a\nhttp: {base: http://x}\ndo: {method: GET, path: \"/${ input }\", body: {a: &x [*x]}}"))
	f.Add([]byte("agent: a\nhttp: {base: http://x, tls: {ca: x, cert: \"${ env.C }\", key: /k}}\ndo: {method: GET, path: /, query: {a: [\"${ input }\"]}, success: [404], retry_on: [x, 202], output: {b: \"${ body }\"}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := httpagent.Parse("f.yaml", data, func(string) (string, bool) { return "http://h", true })
		if err != nil {
			require.Empty(t, all)
		}
		for _, b := range all {
			b.Close()
		}
	})
}
