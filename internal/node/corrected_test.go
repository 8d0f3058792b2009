package node_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

const waiting = `workflow: waiting
deadline: 1h
steps:
  only: {agent: stock, complete_within: 30s, retry: {attempts: 2, backoff: 10m}}
`

// The clock of a node is eight days ahead for a while, and nobody notices, because it is alone. Then it is right, and
// another node shows the same time.
func TestTheTimeOfALogReturnsWhenTheClocksAgree(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		var ahead atomic.Int64
		n := w.node(dir, moving(&ahead))
		w.apply(n, waiting)
		w.apply(n, single("order", 1))
		w.announce("stock")
		w.submit("t-early")
		w.watch.await("it starts", func() bool { return started(w.watch) == 1 })
		require.NoError(t, n.stop())
		ahead.Store(int64(8 * 24 * time.Hour))
		n = w.node(dir, moving(&ahead))
		w.produce(w.topics.Submissions(), 0, events.Record{Key: []byte("t-wrong"), Value: []byte(`{"workflow":"waiting"}`)})
		w.watch.await("its attempt times out", func() bool { s := w.watch.task("t-wrong"); return s != nil && s.FailureCount > 0 })
		wrong := w.found("t-wrong")
		require.Greater(t, wrong.Deadline, events.At(time.Now().Add(24*time.Hour)))
		require.NoError(t, n.stop())

		ahead.Store(0)
		corrected := time.Now()
		n = w.node(dir, together, moving(&ahead))
		other := w.node(t.TempDir(), together, moving(&ahead))
		w.watch.await("the time is right", func() bool { return w.watch.task("t-wrong").UpdatedAt < events.At(time.Now().Add(time.Minute)) })
		require.Less(t, time.Since(corrected), time.Minute)
		require.Len(t, w.logs.find("the time of the log was ahead"), 1)
		right := w.found("t-wrong")
		require.Less(t, right.Deadline, events.At(corrected.Add(time.Hour+time.Minute)))
		w.submit("t-new")
		w.watch.await("it is accepted", func() bool { return w.watch.task("t-new") != nil })
		require.Less(t, w.found("t-new").SubmittedAt, events.At(time.Now().Add(time.Second)))
		attempts := func() int {
			w.watch.mu.Lock()
			defer w.watch.mu.Unlock()
			return w.watch.task("t-wrong").Step("only").Attempt
		}
		for attempts() < 2 && time.Since(corrected) < time.Hour {
			<-time.After(time.Second)
		}
		require.InDelta(t, 10*time.Minute, time.Since(corrected), float64(2*time.Minute), "after its pause, and not after eight days")

		// It happens to both at once, while they run, and ends while they run.
		ahead.Store(int64(8 * 24 * time.Hour))
		<-time.After(3 * time.Minute)
		w.submit("t-later")
		w.watch.await("it is accepted", func() bool { return w.watch.task("t-later") != nil })
		require.Greater(t, w.found("t-later").SubmittedAt, events.At(time.Now().Add(24*time.Hour)))
		ahead.Store(0)
		w.watch.await("the time is right again", func() bool { return w.watch.task("t-later").UpdatedAt < events.At(time.Now().Add(time.Minute)) })
		require.Len(t, w.logs.find("the time of the log was ahead"), 2)
		require.NoError(t, n.stop())
		require.NoError(t, other.stop())
		for _, s := range w.watch.log() {
			require.NotEqual(t, events.NameTasksSwept, s.fact.Body.Name())
		}
	})
}
