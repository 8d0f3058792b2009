//go:build unix

package execagent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent/execagent"
)

// Each mistake is reported with its place, all of them at once, and none shows the value of a variable.
func TestMistakesInABinding(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	env := environment(map[string]string{"SECRET": "hunter22hunter22"})
	for text, want := range map[string]string{
		"agent: a\n":                                                                               `a.yaml:1:1: key "exec" is missing`,
		"exec: {command: [/bin/sh]}\n":                                                             `a.yaml:1:1: key "agent" is missing`,
		"agent: a\nexec: {}\n":                                                                     `a.yaml:2:7: key "command" is missing`,
		"agent: a\nexec: {command: /bin/sh -c true}\n":                                             "command is a list of the program and its arguments",
		"agent: a\nexec: {command: []}\n":                                                          "command is a list of the program and its arguments",
		"agent: a\nexec: {command: [convert]}\n":                                                   `the program "convert" is not a path, and env does not name PATH: write the whole path, or add PATH to env`,
		"agent: a\nexec: {env: [PATH], command: [no-such-thing]}\n":                                `the program "no-such-thing" is in no directory of the PATH of env`,
		"agent: a\nexec: {command: [/no/such]}\n":                                                  `the program "/no/such" does not exist`,
		"agent: a\nexec: {command: [/tmp]}\n":                                                      `the program "/tmp" is a directory`,
		"agent: a\nexec: {command: [" + plain + "]}\n":                                             "may not be executed: set its permission (chmod +x)",
		"agent: a\nexec: {command: [/bin/sh, \"${ output.x }\"]}\n":                                "a.yaml:2:31: unknown name output",
		"agent: a\nexec: {command: [/bin/sh], env: [NOPE]}\n":                                      "a.yaml:2:34: the environment has no variable NOPE: set it (export NOPE=...) or remove it here",
		"agent: a\nexec: {command: [/bin/sh], env: [SAGALOG_TASK]}\n":                              "the environment has no variable SAGALOG_TASK",
		"agent: a\nexec: {command: [/bin/sh], env: {SAGALOG_TASK: x}}\n":                           "SAGALOG_TASK is set by the agent",
		"agent: a\nexec: {command: [/bin/sh], env: {A: 1, A: 2}}\n":                                "A is set twice",
		"agent: a\nexec: {command: [/bin/sh], env: {\"A=B\": \"${ env.SECRET }\"}}\n":              `"A=B" is not the name of an environment variable`,
		"agent: a\nexec: {command: [/bin/sh], dir: here}\n":                                        `"here" is not an absolute path`,
		"agent: a\nexec: {command: [/bin/sh], stdin: yaml}\n":                                      `unknown value "yaml"`,
		"agent: a\nexec: {command: [/bin/sh], stdout: xml}\n":                                      `unknown value "xml"`,
		"agent: a\nexec: {command: [/bin/sh], grace: 2m}\n":                                        "grace is longer than 1m0s",
		"agent: a\nexec: {command: [/bin/sh], exit_codes: {retry: [300]}}\n":                       "must be an exit code from 1 to 255",
		"agent: a\nexec: {command: [/bin/sh], exit_codes: {retry: [1], permanent: [2]}}\n":         "give retry or permanent, not both",
		"agent: a\nexec: {command: [/bin/sh], exit_codes: {success: [1], retry: [1]}}\n":           "code 1 is in success and in another list",
		"agent: a\nexec: {command: [/bin/sh], concurency: 2}\n":                                    `unknown key "concurency", did you mean "concurrency"?`,
		"agent: a\nexec: {command: [/bin/sh]}\nundo: {exec: {command: [/bin/sh], stdout: text}}\n": "nothing reads the output of an undo",
		"agent: a\nexec: {command: [/bin/sh]}\nundo: {}\n":                                         `key "exec" is missing`,
		"agent: A b\nexec: {command: [/bin/sh]}\n":                                                 "a.yaml:1:8:",
	} {
		_, err := execagent.Parse("a.yaml", []byte(text), env)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "hunter22")
	}
	_, err := execagent.Parse("a.yaml", []byte("agent: a\nexec: {command: [/no/such], stdin: yaml, grace: 2m}\n"), env)
	for _, want := range []string{"a.yaml:2:18: the program", "a.yaml:2:36: unknown value", "a.yaml:2:49: grace is longer"} {
		require.ErrorContains(t, err, want)
	}
}
