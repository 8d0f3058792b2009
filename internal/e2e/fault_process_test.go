package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two processes use one data directory, in every combination of commands. The second is refused, and the message names
// the process that holds the directory.
func TestTwoProcessesOnOneDirectory(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := newRig(t)
	one := r.node("n1")
	one.start()
	alone := newEngine(t, filepath.Join(r.work), "--demo", "none")
	alone.data = filepath.Join(r.work, "dev")
	alone.start()
	held := func(by *engine) string { return "process " + strconv.Itoa(by.cmd.Process.Pid) }

	other := r.node("n2")
	other.data = one.data
	require.Contains(t, other.refused(), held(one), "serve on serve")
	other.data = alone.data
	require.Contains(t, other.refused(), "is a data directory of `sagalog dev`", "serve on dev")
	second := newEngine(t, filepath.Join(r.work, "n2"), "--demo", "none")
	second.data = alone.data
	require.Contains(t, second.refused(), held(alone), "dev on dev")
	second.data = one.data
	require.Contains(t, second.refused(), "is a data directory of `sagalog serve`", "dev on serve")
	for of, args := range map[*engine][]string{one: {"--brokers", r.addr}, alone: nil} {
		code, _, said := output(t, program("sagalog"), append([]string{"state", "hash", "--data", of.data}, args...)...)
		require.Equal(t, 1, code)
		require.Contains(t, said, held(of), "state on a running engine")
	}
	r.deliver(one, "a-", 5) // the first processes are not disturbed
	one.stop()
	alone.stop()
	alone.start() // the lock ends with the process that holds it
	alone.stop()
}

// The processes are frozen in turn while deliveries run: the agents past the complete-by time of their steps, the
// broker for a moment and for longer than a session, and the owner until another node takes over.
func TestFrozenProcessesGoOn(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := newRig(t, "--refuse", "drone=0.1")
	one, two := r.node("n1", "--roles", "owner,api,projector"), r.node("n2", "--roles", "owner,api,projector")
	for i, e := range r.nodes { // here the agents are separate processes
		e.args = without(e.args, "--agents")
		require.NotNil(t, e, i)
	}
	one.start()
	two.start()
	files := filepath.Join(r.files, "agents")
	agents := start(t, command{name: "agents", dir: r.work, program: program("sagalog"), env: r.fleet.env(),
		args: []string{"serve", "--brokers", r.addr, "--namespace", topics.Namespace, "--roles", "agent", "--agents", files, "--node", "a1", "--data", filepath.Join(r.work, "a1")}})
	l := startLoad(t, one, "p-", 600, 15)
	l.name = "p"
	eventually(t, patience, "the load has begun, so that the frozen agents are at work", func() bool {
		status, _, err := one.try("GET", taskPath("p-5"), nil)
		return err == nil && status == 200
	})
	for _, f := range []struct {
		what   string
		who    *process
		frozen time.Duration
	}{
		{"the agents, past complete-by times of 5 s", agents, 7 * time.Second},
		{"the broker, for a moment", r.broker.process, time.Second},
		{"the broker, past sessions of 10 s", r.broker.process, 12 * time.Second},
		{"an owner", two.process, 8 * time.Second},
	} {
		after(t, time.Second)
		f.who.freeze()
		after(t, f.frozen)
		f.who.thaw()
		begun := time.Now()
		id := "probe-" + strconv.FormatInt(begun.UnixNano(), 10)
		eventually(t, patience, "a submission is accepted again", func() bool {
			status, _, err := one.try("PUT", taskPath(id), delivery(id, 1))
			return err == nil && (status == 202 || status == 200)
		})
		taken := time.Since(begun)
		one.settled(id)
		t.Logf("%s: frozen for %s; a submission is acknowledged %s after, and its delivery ended after %s", f.what, f.frozen,
			taken.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	}
	l.acknowledged(t, patience)
	one.ready()
	two.ready()
	one.quiet(5 * patience)
	s := l.agree(t, one, r.fleet.dir)
	require.Positive(t, s.Log.Timeouts, "no attempt of the frozen agents timed out")
	require.True(t, agents.running(), tail(agents.err, 5))
	r.sameState(two)
	r.sameState(one)
}

// without removes a flag and its value.
func without(args []string, flag string) (left []string) {
	for i := 0; i < len(args); i++ {
		if args[i] == flag {
			i++
			continue
		}
		left = append(left, args[i])
	}
	return left
}

// Directories are replaced by older copies. An older state with a newer log is folded further. A newer state with an
// older log is rebuilt, and the engine reports that. If both are older, the engine is in its earlier state and knows
// nothing of later tasks.
func TestOlderCopies(t *testing.T) {
	skipUnlessSized(t)
	t.Parallel()
	r := newRig(t)
	one := r.node("n1")
	one.start()
	old := r.deliver(one, "a-", 20)
	one.stop()
	state, log := filepath.Join(one.data, "state"), filepath.Join(r.work, "broker")
	save := func(name string) {
		r.broker.end()
		require.NoError(t, os.CopyFS(filepath.Join(r.work, name, "state"), os.DirFS(state)))
		require.NoError(t, os.CopyFS(filepath.Join(r.work, name, "log"), os.DirFS(log)))
		r.broker.launch()
		r.broker.ready()
	}
	restore := func(to string, from ...string) {
		require.NoError(t, os.RemoveAll(to))
		require.NoError(t, os.CopyFS(to, os.DirFS(filepath.Join(append([]string{r.work}, from...)...))))
	}
	save("older")
	one.start()
	recent := r.deliver(one, "b-", 20)
	one.stop()
	save("newer")

	// An older state with a newer log.
	restore(state, "older", "state")
	begun := time.Now()
	one.start()
	t.Logf("an older state is folded further: ready after %s", time.Since(begun).Round(time.Millisecond))
	for i := range 20 {
		require.Equal(t, "processed", one.settled(recent.id(i+1)).State)
	}
	recent.agree(t, one, r.fleet.dir)
	r.sameState(one)

	// An older log with a newer state.
	r.broker.end()
	restore(log, "older", "log")
	r.broker.launch()
	r.broker.ready()
	begun = time.Now()
	one.start()
	one.says("level=WARN", "the log is not the one that the state was folded from; the partition is rebuilt from the log")
	t.Logf("ready %s after the start", time.Since(begun).Round(time.Millisecond))
	require.Equal(t, "processed", one.settled(old.id(1)).State)
	one.ask(404, "GET", taskPath(recent.id(1)), nil)
	r.deliver(one, "c-", 10)
	r.sameState(one)

	r.broker.end()
	restore(log, "older", "log")
	restore(state, "older", "state")
	r.broker.launch()
	r.broker.ready()
	one.start()
	r.forgotten(one, recent)
}

// forgotten shows what holds if both copies are older while agents and services are current. A later task that is
// submitted again is a new task with new keys, so services do its work again, once for each key.
func (r *rig) forgotten(one *engine, recent *load) {
	t := r.t
	t.Helper()
	one.ask(404, "GET", taskPath(recent.id(1)), nil)
	for i := range 20 {
		id := recent.id(i + 1)
		one.submit(id, delivery(id, i+1))
		require.Equal(t, "processed", one.settled(id).State)
		for _, service := range []string{"package", "drone", "delivery"} {
			applied := map[string]int{}
			for _, line := range r.fleet.ledger(t, service, id) {
				if line.Applied {
					applied[line.IdempotencyKey]++
				}
			}
			require.Equal(t, []int{1, 1}, slices.Collect(maps.Values(applied)), "%s, task %s: %v", service, id, applied)
		}
	}
	r.sameState(one)
}
