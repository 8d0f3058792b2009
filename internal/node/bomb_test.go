package node_test

import (
	"context"
	"runtime/debug"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// withoutCollector keeps the finalizer of a decompressor from running in a bubble that it does not belong to.
func withoutCollector(t *testing.T) {
	t.Helper()
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

// The resume point lies inside a batch that unpacks to too much: the next epoch reads from its middle.
func TestARestartBehindABatchThatUnpacksToTooMuch(t *testing.T) {
	withoutCollector(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		w.hire(nil)
		w.submit("t-before")
		w.watch.ended("t-before")
		offsets := kafkatest.Bomb(t, w.broker, w.topics.Submissions(), 9<<20, 9<<20)
		passed(t, n.Tasks().WaitPassed, offsets[1])
		deadLetters(t, w, 2)
		require.NoError(t, n.stop())
		n = w.node(dir)
		w.submit("t-after")
		w.watch.ended("t-after")
		_, _, err := n.Status(0)
		require.NoError(t, err)
	})
}

// The dead letter of such a record is owed at a take-over, and its bytes cannot be had.
func TestADeadLetterOfWhatUnpacksToTooMuchIsOwedAtATakeOver(t *testing.T) {
	withoutCollector(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		w.hire(nil)
		w.submit("t-before")
		w.watch.ended("t-before")
		offsets := kafkatest.Bomb(t, w.broker, w.topics.Submissions(), 18<<20)
		passed(t, n.Tasks().WaitPassed, offsets[0])
		n.kill()
		// Nearly always it is killed between fact and effect. The store is written behind the log, so the effect may be there
		// already; it is then sent again, since nothing says that it is settled.
		want := 1 + len(w.read(w.topics.DeadSubmissions(), 0))
		n = w.node(dir)
		w.submit("t-after")
		w.watch.ended("t-after")
		deadLetters(t, w, want)
		_, _, err := n.Status(0)
		require.NoError(t, err)
	})
}

func passed(t *testing.T, wait func(context.Context, events.Input, int32, int64) error, offset int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, wait(ctx, events.Submissions, 0, offset))
}

// deadLetters waits for exactly so many dead submissions.
func deadLetters(t *testing.T, w *world, want int) {
	t.Helper()
	looks := time.NewTicker(100 * time.Millisecond)
	defer looks.Stop()
	for range int(patience / (100 * time.Millisecond)) {
		if len(w.read(w.topics.DeadSubmissions(), 0)) >= want {
			break
		}
		<-looks.C
	}
	require.Len(t, w.read(w.topics.DeadSubmissions(), 0), want)
}
