package execagent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// unkind are scripts that do not end by themselves, each in another way. They touch the file $1 when they are under way.
var unkind = map[string]string{
	"it sleeps":                     `touch "$1"; sleep 600`,
	"it ignores SIGTERM":            `trap '' TERM; touch "$1"; while :; do sleep 1; done`,
	"it forks, and waits":           `sleep 600 & touch "$1"; wait`,
	"its child leaves the session":  `setsid sleep 600 & touch "$1"; sleep 600`,
	"it becomes a daemon":           `setsid sh -c 'sh -c "trap \"\" TERM; while :; do sleep 1; done" &' & touch "$1"; sleep 600`,
	"it starts processes endlessly": `touch "$1"; while :; do sleep 600 & sleep 0.05; done`,
	"it is stopped by a signal":     `touch "$1"; kill -STOP $$; sleep 600`,
}

// underWay waits until the file is there.
func underWay(t *testing.T, file string) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, time.Minute, 5*time.Millisecond, "the command did not begin")
}

// marked is a binding whose command has the name of the file as its argument and as a mark in its environment.
func marked(script, file string) string {
	return fmt.Sprintf("agent: a\nexec: {command: [/bin/sh, -c, %q, sh, %q], env: {PATH: \"${ env.PATH }\", MARK: %q}, stdin: none, grace: 300ms}\n", script, file, file)
}

// When the time of an attempt is over, nothing of its command runs any more when the report is there.
func TestNothingOfACommandOutlivesItsAttempt(t *testing.T) {
	t.Parallel()
	for name, script := range unkind {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "under-way")
			mark := "MARK=" + file
			h := bound(t, marked(script, file), nil)
			var w events.Work
			var r events.Report
			for within := 5 * time.Second; ; within *= 4 { // on a busy machine, the command may not begin in time, or the report comes too late
				w = h.Work("a", events.Do, nil)
				w.CompleteBy = events.At(time.Now().Add(within))
				h.Send(w)
				var reported bool
				if r, reported = h.Await(w); reported {
					require.False(t, alive(t, mark), "a process of the command is left after its report")
				}
				if _, err := os.Stat(file); err == nil && reported {
					break
				}
				gone(t, mark)
				_ = os.Remove(file)
				require.Less(t, within, 3*time.Minute)
			}
			require.Equal(t, "timeout", r.Error.Code)
			require.Equal(t, events.ClassRetryable, r.Error.Class)
			require.Equal(t, events.EffectInDoubt, r.Effect)
			require.LessOrEqual(t, r.FinishedAt, w.CompleteBy)
		})
	}
}

// A command that has ended leaves nothing behind, either.
func TestWhatACommandLeavesBehindIsEnded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "under-way")
	h := bound(t, fmt.Sprintf(`
agent: a
exec: {command: [/bin/sh, -c, 'setsid sh -c "trap \"\" TERM; touch $0; sleep 600" >/dev/null 2>&1 & while ! [ -e "$0" ]; do sleep 0.01; done; echo 1', %q], env: {PATH: "${ env.PATH }", MARK: %q}}
`, file, file), nil)
	r := h.Do("a", nil)
	require.Equal(t, events.ResultCompleted, r.Result, "%+v", r.Error)
	require.JSONEq(t, `1`, string(r.Output))
	require.False(t, alive(t, "MARK="+file))
}

// An agent that stops asks its commands to end.
func TestCommandsEndWithTheirAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, asked := filepath.Join(dir, "under-way"), filepath.Join(dir, "asked")
	h := bound(t, fmt.Sprintf(`
agent: a
exec: {command: [/bin/sh, -c, 'trap "touch %s; exit 1" TERM; touch "$0"; while :; do sleep 0.02; done', %q], env: {PATH: "${ env.PATH }", MARK: %q}}
`, asked, file, file), nil)
	h.Send(h.Work("a", events.Do, nil))
	underWay(t, file)
	require.NoError(t, h.Stop())
	require.False(t, alive(t, "MARK="+file))
	require.FileExists(t, asked)
}

// agentEnv makes this test binary an agent that runs the command of the file that it names.
const agentEnv = "EXECAGENT_TEST_BINDING"

func TestAsAnAgentThatIsKilled(t *testing.T) {
	if os.Getenv(agentEnv) == "" {
		t.Skip("TestCommandsDieWithTheirAgent runs this in a process that it kills")
	}
	text, err := os.ReadFile(os.Getenv(agentEnv))
	require.NoError(t, err)
	h := bound(t, string(text), nil)
	w := h.Work("a", events.Do, nil)
	w.CompleteBy = events.At(time.Now().Add(time.Hour))
	h.Send(w)
	_, _ = h.Await(w)
}

// An agent that is killed takes its commands along, whatever they do against it.
func TestCommandsDieWithTheirAgent(t *testing.T) {
	t.Parallel()
	for name, script := range unkind {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, binding := filepath.Join(dir, "under-way"), filepath.Join(dir, "a.yaml")
			require.NoError(t, os.WriteFile(binding, []byte(marked(script, file)), 0o600))
			c := exec.Command(os.Args[0], "-test.run", "^TestAsAnAgentThatIsKilled$", "-test.timeout", "10m")
			c.Env = append(os.Environ(), agentEnv+"="+binding)
			c.Stderr = os.Stderr
			require.NoError(t, c.Start())
			underWay(t, file)
			require.NoError(t, c.Process.Signal(syscall.SIGKILL))
			_ = c.Wait()
			gone(t, "MARK="+file)
		})
	}
}

// Somebody may kill the guard. The command dies with it, and nobody knows what it did.
func TestAnAttemptWhoseGuardIsKilledIsInDoubt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "under-way")
	h := bound(t, marked(`touch "$1"; sleep 600`, file), nil)
	w := h.Work("a", events.Do, nil)
	w.CompleteBy = events.At(time.Now().Add(time.Minute))
	h.Send(w)
	underWay(t, file)
	guards, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	killed := 0
	for _, g := range guards {
		line, _ := os.ReadFile(g)
		if pid := filepath.Base(filepath.Dir(g)); strings.HasPrefix(string(line), "sagalog-command-guard\x00") && strings.Contains(string(line), file) {
			number, err := strconv.Atoi(pid)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(number, syscall.SIGKILL))
			killed++
		}
	}
	require.Equal(t, 1, killed)
	r, ok := h.Await(w)
	require.True(t, ok)
	require.Equal(t, "lost", r.Error.Code)
	require.Equal(t, events.EffectInDoubt, r.Effect)
	gone(t, "MARK="+file)
}

// The owner tells an agent to stop an attempt whose task turned back.
func TestAStoppedAttemptEndsItsCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "under-way")
	h := bound(t, marked(`trap '' TERM; touch "$1"; while :; do sleep 0.1; done`, file), nil)
	w := h.Work("a", events.Do, nil)
	w.CompleteBy = events.At(time.Now().Add(time.Hour))
	h.Send(w)
	underWay(t, file)
	began := time.Now()
	stop, err := events.EncodeStop(events.Stop{Task: w.Task, Run: 1, Step: w.Step, Operation: w.Operation, Attempt: 1, Ticket: w.Ticket}, events.Subject{ID: "s", Source: "test", Time: events.At(time.Now())})
	require.NoError(t, err)
	h.Sources["a"].Add(stop)
	r, ok := h.Await(w)
	require.True(t, ok)
	require.Less(t, time.Since(began), 30*time.Second)
	require.Equal(t, events.EffectInDoubt, r.Effect)
	require.Contains(t, r.Error.Message, "no longer needed, did not end when it was asked to (SIGTERM), and was killed")
	require.False(t, alive(t, "MARK="+file))
}
