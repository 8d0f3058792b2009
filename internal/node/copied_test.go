package node_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/namespacecopy"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
)

// copyTo copies the namespace of a world, or checkpoints, into another world.
func (w *world) copyTo(to *world, checkpoints ...string) (*namespacecopy.Result, error) {
	w.t.Helper()
	return namespacecopy.Copy(w.t.Context(), w.copying(to, checkpoints, func(string) {}))
}

// copyHalf is a copy that is interrupted before it is complete.
func (w *world) copyHalf(to *world) error {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	_, err := namespacecopy.Copy(ctx, w.copying(to, nil, func(line string) {
		if strings.Contains(line, "tasks are copied") {
			cancel()
		}
	}))
	return err
}

func (w *world) copying(to *world, checkpoints []string, progress func(string)) namespacecopy.Config {
	return namespacecopy.Config{
		From: namespacecopy.Place{Cluster: w.cluster, Namespace: "sagalog"}, Checkpoints: checkpoints,
		To: namespacecopy.Place{Cluster: to.cluster, Namespace: to.topics.Namespace}, Partitions: to.parts,
		KeyFile: w.keyFile, Now: time.Now, Progress: progress,
	}
}

// stuckAt is a crew that never finishes the step ship of the given tasks.
func stuckAt(list []string) func(context.Context, agent.Attempt) error {
	return func(ctx context.Context, a agent.Attempt) error {
		for _, id := range list {
			if a.Task == id && a.Step == "ship" {
				<-ctx.Done()
				return context.Cause(ctx)
			}
		}
		return nil
	}
}

// onceByKey requires that all calls of an operation of a step, by either crew, have one idempotency key, and that no call is made again by the second
// crew whose attempt completed at the first one.
func onceByKey(t *testing.T, over, live []string, crews ...*crew) {
	t.Helper()
	keys := map[[3]string]string{}
	for i, c := range crews {
		for _, a := range c.all() {
			call := [3]string{a.Task, a.Step, string(a.Operation)}
			if key, known := keys[call]; known {
				require.Equal(t, key, a.IdempotencyKey, call)
			}
			keys[call] = a.IdempotencyKey
			if i > 0 {
				require.NotContains(t, over, a.Task, "the task had ended before")
				if slices.Contains(live, a.Task) {
					require.Contains(t, []string{"ship", "notify"}, a.Step, call)
				}
			}
		}
	}
}

// A namespace that is stopped goes on in another cluster with three times the partitions: what has ended stays known, what is under way goes on with
// the same keys, and what nobody has judged is judged there. The old one refuses until it is reopened.
func TestACopiedNamespaceGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, dir := setup(t, 2), t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		before, live := ids("before", 12), ids("live", 12)
		first := w.hire(stuckAt(live))
		w.submit(before...)
		w.watch.ended(before...)
		w.submit(live...)
		w.watch.await("the tasks are stuck", func() bool {
			for _, id := range live {
				if task := w.watch.task(id); task == nil || task.Step("ship") == nil {
					return false
				}
			}
			return true
		})
		w.request(events.RequestCancel, "later-0", "q-1")
		w.watch.await("the request is held", func() bool {
			return len(w.watch.states[events.Home("later-0", 2)].HeldFor("later-0")) == 1
		})
		_, err := w.copyTo(setup(t, 6))
		require.ErrorContains(t, err, "is alive: stop all its nodes")
		require.NoError(t, n.stop())
		first.net.cut() // no report leaves any more
		first.leave()
		w.submit(ids("late", 6)...)

		half := setup(t, 6)
		require.ErrorContains(t, w.copyHalf(half), "the copy is not complete, and nothing will run in it: delete its topics")
		_, err = half.open(t.TempDir())
		require.ErrorContains(t, err, "is a copy of sagalog on")
		_, err = w.copyTo(half)
		require.ErrorContains(t, err, "is half a copy, in which nothing runs: choose another --to-namespace")

		to := setup(t, 6)
		r, err := w.copyTo(to)
		require.NoError(t, err)
		require.Equal(t, [5]int64{24, 12, 6, 1, 12}, [5]int64{r.Tasks, r.Live, r.Inputs, r.Held, r.Work})
		_, err = w.open(dir)
		require.ErrorContains(t, err, "was closed, because it was copied to sagalog on")

		fresh := t.TempDir()
		m := to.node(fresh)
		second := to.hire(nil)
		to.watch.ended(append(ids("late", 6), live...)...)
		to.submit(before...) // duplicates
		to.produce(to.topics.Submissions(), -1, submission(before[0], "other content"))
		to.submit("later-0", "new")
		to.watch.ended("new")
		to.watch.await("the cancel came first", func() bool { return to.watch.task("later-0").State == events.TaskStateUndone })
		onceByKey(t, before, live, first, second)
		conflicts := 0
		for _, s := range to.watch.log() {
			if b, ok := s.fact.Body.(*events.InputRejected); ok && b.Reason == events.RejectConflict {
				conflicts++
			}
		}
		require.Equal(t, 1, conflicts)
		<-time.After(3 * time.Second) // the dead letter is sent
		require.NoError(t, m.stop())
		to.watch.verify()
		to.proveCopied()
		to.proveHashes(fresh)
		require.NoError(t, w.reopen())
		n = w.node(dir)
		require.NoError(t, n.stop())
	})
}

// proveCopied checks everything that the log of a copy and its inputs and effects hold.
func (w *world) proveCopied() {
	w.t.Helper()
	r, err := verify.Run(context.Background(), verify.Config{Log: kafkalog.Log{Cluster: w.cluster}, Topics: kafkalog.Topics(w.topics.Namespace), AtRest: true, Now: events.At(time.Now())})
	require.NoError(w.t, err)
	require.Empty(w.t, r.Findings)
	require.Equal(w.t, verify.Proved, r.Verdict, "%+v", r.Checks)
	require.Positive(w.t, r.Counts.Carried)
}

func (w *world) reopen() error {
	return namespacecopy.Reopen(w.t.Context(), namespacecopy.Config{From: namespacecopy.Place{Cluster: w.cluster, Namespace: "sagalog"}, Now: time.Now})
}

// The log is lost, and only a checkpoint is left. The tasks that it knows go on in a new cluster with three times the partitions.
func TestANamespaceIsRestoredFromACheckpoint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, dir := setup(t, 2), t.TempDir()
		n := w.node(dir, func(c *node.Config) { c.Checkpoints.Dir = dir + "/checkpoints" })
		w.apply(n, order)
		before, live := ids("before", 12), ids("live", 12)
		first := w.hire(stuckAt(live))
		w.submit(before...)
		w.watch.ended(before...)
		w.submit(live...)
		w.watch.await("the tasks are stuck", func() bool {
			for _, id := range live {
				if task := w.watch.task(id); task == nil || task.Step("ship") == nil {
					return false
				}
			}
			return true
		})
		<-time.After(2 * time.Second) // the store has what the log has
		d, err := n.Checkpoints().MakeCheckpoint(t.Context(), "last")
		require.NoError(t, err)
		first.net.cut()
		first.leave()
		n.kill()
		require.NoError(t, w.broker.Close()) // the cluster is gone

		to := setup(t, 6)
		r, err := w.copyTo(to, d.Path)
		require.NoError(t, err)
		require.Equal(t, [3]int64{24, 12, 12}, [3]int64{r.Tasks, r.Live, r.Work})
		fresh := t.TempDir()
		m := to.node(fresh)
		second := to.hire(nil)
		to.watch.ended(live...)
		to.submit(before...)
		to.produce(to.topics.Submissions(), -1, submission(before[0], "other content"))
		to.submit("new")
		to.watch.ended("new")
		onceByKey(t, before, live, first, second)
		require.NoError(t, m.stop())
		to.watch.verify()
		to.proveCopied()
		to.proveHashes(fresh)
	})
}
