//go:build unix

package execagent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/agent/execagent"
	"github.com/sagalog/sagalog/events"
)

// environment looks up variables in a map, and PATH in the environment of the test.
func environment(own map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if v, ok := own[name]; ok {
			return v, true
		}
		if name == "PATH" {
			return os.LookupEnv(name)
		}
		return "", false
	}
}

// bound runs the agents of a file.
func bound(t *testing.T, text string, env map[string]string) *agenttest.Harness {
	t.Helper()
	all, err := execagent.Parse("a.yaml", []byte(text), environment(env))
	require.NoError(t, err)
	r := agent.NewRegistry()
	for _, b := range all {
		b.Register(r)
	}
	return agenttest.Start(t, r)
}

// shell is a binding whose command is a script for the shell.
func shell(script, more string) string {
	quoted, _ := json.Marshal(script)
	return fmt.Sprintf("agent: a\nexec: {command: [/bin/sh, -c, %s, sh, \"${ input.arg ?? '' }\"], env: [PATH]%s}\n", quoted, more)
}

// run runs a script once, with an argument.
func run(t *testing.T, script, more, arg string) events.Report {
	t.Helper()
	return bound(t, shell(script, more), nil).Do("a", map[string]any{"arg": arg})
}

func TestACommandGetsItsInputAndGivesItsOutput(t *testing.T) {
	t.Parallel()
	r := run(t, `cat`, "", "x")
	require.Equal(t, events.ResultCompleted, r.Result)
	require.JSONEq(t, `{"arg":"x"}`, string(r.Output))

	r = run(t, `printf '%s\n' "$1" two`, ", stdout: lines", "one; rm -rf $HOME `date` ü")
	require.JSONEq(t, "[\"one; rm -rf $HOME `date` ü\",\"two\"]", string(r.Output), "no shell has read the argument")

	r = run(t, `echo "$1"`, ", stdout: text, stdin: none", "a text")
	require.JSONEq(t, `"a text"`, string(r.Output))

	r = run(t, `true`, "", "")
	require.Equal(t, events.ResultCompleted, r.Result)
	require.Contains(t, []string{"", "null"}, string(r.Output))
}

func TestACommandSeesItsAttemptAndOnlyNamedVariables(t *testing.T) {
	t.Parallel()
	h := bound(t, `
agent: a
exec: {command: [/usr/bin/env], env: {PATH: "${ env.PATH }", MODE: fast}, stdout: lines, dir: /tmp}
undo: {exec: {command: [/usr/bin/env], exit_codes: {success: [1]}}}
`, map[string]string{"HIDDEN": "not for commands"})
	w := h.Work("a", events.Do, map[string]any{"n": 1})
	w.Attempt, w.IdempotencyKey = 2, "key-1"
	h.Send(w)
	r, ok := h.Await(w)
	require.True(t, ok)
	var lines []string
	require.NoError(t, json.Unmarshal(r.Output, &lines))
	set := map[string]string{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, "=")
		set[name] = value
	}
	require.Equal(t, "fast", set["MODE"])
	require.Equal(t, w.Task, set["SAGALOG_TASK"])
	require.Equal(t, "2", set["SAGALOG_ATTEMPT"])
	require.Equal(t, "do", set["SAGALOG_OPERATION"])
	require.Equal(t, "key-1", set["SAGALOG_KEY"])
	require.Equal(t, w.CompleteBy.String(), set["SAGALOG_COMPLETE_BY"])
	require.NotContains(t, set, "HIDDEN")
	require.NotContains(t, set, "HOME", "the command inherits nothing")
	for name := range set {
		require.True(t, strings.HasPrefix(name, "SAGALOG_") || name == "PATH" || name == "MODE" || name == "TRACEPARENT", name)
	}
}

func TestExitCodesMeanWhatTheBindingSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   int
		more   string
		result events.Result
		class  events.Class
	}{
		{0, "", events.ResultCompleted, ""},
		{1, "", events.ResultFailed, events.ClassPermanent},
		{75, "", events.ResultFailed, events.ClassRetryable},
		{3, ", exit_codes: {success: [3]}", events.ResultCompleted, ""},
		{4, ", exit_codes: {retry: [4]}", events.ResultFailed, events.ClassRetryable},
		{75, ", exit_codes: {retry: [4]}", events.ResultFailed, events.ClassPermanent},
		{9, ", exit_codes: {permanent: [1]}", events.ResultFailed, events.ClassRetryable},
		{1, ", exit_codes: {permanent: [1]}", events.ResultFailed, events.ClassPermanent},
	} {
		r := run(t, fmt.Sprintf("echo starting >&2; echo 'no such file: x' >&2; exit %d", c.code), c.more, "")
		require.Equal(t, c.result, r.Result, "%+v: %+v", c, r.Error)
		if c.class == "" {
			continue
		}
		require.Equal(t, c.class, r.Error.Class, "%+v", c)
		require.Equal(t, events.EffectDoneUnknown, r.Effect, "it is over, and may have done something")
		require.Equal(t, fmt.Sprintf("exit_%d", c.code), r.Error.Code)
		require.Equal(t, fmt.Sprintf("/bin/sh exited with %d: starting; no such file: x", c.code), r.Error.Message)
		require.JSONEq(t, fmt.Sprintf(`{"exit_code":%d,"stderr":"starting\nno such file: x"}`, c.code), string(r.Error.Detail))
	}
}

func TestAnOutputOfTheWrongFormIsAFailure(t *testing.T) {
	t.Parallel()
	for script, more := range map[string]string{`echo hello`: "", `echo '{} {}'`: "", `printf '\377'`: ", stdout: text"} {
		r := run(t, script, more, "")
		require.Equal(t, "bad_output", r.Error.Code, script)
		require.Equal(t, events.ClassPermanent, r.Error.Class)
		require.Equal(t, events.EffectDoneUnknown, r.Effect)
	}
}

// A command that writes without end is ended, and keeps no memory.
func TestACommandThatWritesWithoutEndIsEnded(t *testing.T) {
	t.Parallel()
	r := run(t, `trap '' TERM; yes`, ", stdout: text, grace: 100ms", "")
	require.Equal(t, "output_limit", r.Error.Code)
	require.Equal(t, events.EffectInDoubt, r.Effect)
	require.Contains(t, r.Error.Message, "did not end when it was asked to (SIGTERM), and was killed")
	require.Less(t, len(r.Error.Message)+len(r.Error.Detail), 1000)
	r = run(t, `yes error >&2 & sleep 0.3; kill $!; exit 1`, "", "")
	require.Equal(t, "exit_1", r.Error.Code)
	require.Less(t, len(r.Error.Detail), 4096, "only the end of standard error is kept")
}

func TestASecretIsInNoMessageAndNoOutput(t *testing.T) {
	t.Parallel()
	const secret = `s3"cr\et token`
	text := `
agent: a
exec: {command: [/bin/sh, -c, 'printf "%s" "$TOKEN"; printf "using %s" "$TOKEN" >&2; exit $CODE'], env: {TOKEN: "${ env.TOKEN }", CODE: "${ env.CODE }"}, stdout: text}
`
	for code, want := range map[string]events.Result{"0": events.ResultCompleted, "1": events.ResultFailed} {
		h := bound(t, text, map[string]string{"TOKEN": secret, "CODE": code})
		r := h.Do("a", nil)
		require.Equal(t, want, r.Result)
		all, err := json.Marshal(r)
		require.NoError(t, err)
		require.NotContains(t, string(all), `cr\\et token`)
		require.Contains(t, string(all), "${ env.TOKEN }")
	}
}

func TestAnInputDoesNotBecomeAnOption(t *testing.T) {
	t.Parallel()
	h := bound(t, `
agent: a
exec: {command: [/bin/echo, "${ input.name }"], stdout: text}
---
agent: b
exec: {command: [/bin/echo, "--", "${ input.name }"], stdout: text}
`, nil)
	r := h.Do("a", map[string]any{"name": "-n"})
	require.Equal(t, "argument", r.Error.Code)
	require.Equal(t, events.EffectNone, r.Effect)
	require.Contains(t, r.Error.Message, `put "--" before it in command`)
	r = h.Do("b", map[string]any{"name": "-n"})
	require.JSONEq(t, `"-- -n"`, string(r.Output))
}

// An empty argument would be a file, a customer or a path that nobody named.
func TestAnArgumentIsNeverNull(t *testing.T) {
	t.Parallel()
	h := bound(t, `
agent: a
exec: {command: [/bin/echo, here, "${ input.dir }/${ input.name }"], stdout: text}
undo: {exec: {command: [/bin/echo, "${ output }"]}}
---
agent: b
exec: {command: [/bin/echo, "[${ input.name ?? '' }]", "${ input.empty }"], stdout: text}
`, nil)
	r := h.Do("a", map[string]any{"dir": "d"})
	require.Equal(t, "argument", r.Error.Code)
	require.Equal(t, events.ClassPermanent, r.Error.Class)
	require.Equal(t, events.EffectNone, r.Effect)
	require.Contains(t, r.Error.Message, "argument 2 of /bin/echo: input.name is null")
	require.Contains(t, r.Error.Message, "${ input.name ?? '' }")
	w := h.Work("a", events.Undo, map[string]any{"dir": "d", "name": "n"})
	h.Send(w)
	r, _ = h.Await(w)
	require.Contains(t, r.Error.Message, "argument 1 of /bin/echo: output is null")
	require.JSONEq(t, `"[] "`, string(h.Do("b", map[string]any{"empty": ""}).Output))
}

func TestAProgramThatIsGoneIsAPermanentFailure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "tool")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho 1\n"), 0o700))
	h := bound(t, "agent: a\nexec: {command: ["+program+"]}\n", nil)
	require.JSONEq(t, `1`, string(h.Do("a", nil).Output))
	require.NoError(t, os.WriteFile(program, []byte("#!/nowhere/interpreter\n"), 0o700))
	r := h.Do("a", nil)
	require.Equal(t, "start", r.Error.Code)
	require.Equal(t, events.ClassPermanent, r.Error.Class)
	require.NoError(t, os.Remove(program))
	r = h.Do("a", nil)
	require.Equal(t, "not_found", r.Error.Code)
	require.Equal(t, events.EffectNone, r.Effect)
}

func TestAnUndoGetsInputAndOutput(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "undone")
	h := bound(t, fmt.Sprintf(`
agent: a
exec: {command: [/bin/sh, -c, "true"], env: [PATH]}
undo: {exec: {command: [/bin/sh, -c, 'cat > "$0"; echo "$SAGALOG_OPERATION" >> "$0"', %s]}}
`, out), nil)
	require.Equal(t, events.ResultCompleted, h.Undo("a", map[string]any{"n": 1}, map[string]any{"file": "f"}).Result)
	b, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, `{"input":{"n":1},"output":{"file":"f"}}`+"undo\n", string(b))
}

// alive says whether a process runs whose environment has this text: it follows the children of a command wherever they go.
func alive(t *testing.T, mark string) bool {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range list {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), mark) {
			return true
		}
	}
	return false
}

// gone waits until no process of the mark is left.
func gone(t *testing.T, mark string) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(t, mark) }, time.Minute, 10*time.Millisecond, "a process of the command is left")
}
