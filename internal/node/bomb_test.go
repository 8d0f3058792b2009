package node_test

import (
	"context"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// collector is held by the test that has switched off the garbage collector, which is that of the whole process.
var collector sync.Mutex

// bombBubble is a bubble without garbage collection: the finalizer of a decompressor must not run in a bubble that it does not
// belong to. The other tests run meanwhile, so the collector is off only while this one runs.
func bombBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	collector.Lock()
	defer collector.Unlock()
	percent := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(percent)
	synctest.Test(t, f)
}

// The resume point is right behind a batch that is too large when decompressed, and nothing is known about the record before it.
func TestARestartSkipsABatchThatUnpacksToTooMuch(t *testing.T) {
	bombBubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		w.hire(nil)
		w.submit("t-before")
		w.watch.ended("t-before")
		offsets := kafkatest.Bomb(t, w.broker, w.topics.Submissions(), 9<<20, 9<<20)
		passed(t, n.Inputs().WaitPassed, offsets[1])
		deadLetters(t, w, 1)
		require.NoError(t, n.stop())
		n = w.node(dir)
		w.submit("t-after")
		w.watch.ended("t-after")
		_, err := n.Status(0)
		require.NoError(t, err)
	})
}

// An input of 9 MiB can be read, and its dead letter could not be written whole. It is cut, and the partition goes on.
func TestTheDeadLetterOfALargeInputIsCut(t *testing.T) {
	bombBubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(nil)
		offsets := kafkatest.Bomb(t, w.broker, w.topics.Submissions(), 9<<20)
		passed(t, n.Inputs().WaitPassed, offsets[0])
		deadLetters(t, w, 1)
		letter := w.read(w.topics.DeadSubmissions(), 0)[0]
		require.Equal(t, strconv.Itoa(9<<20), letter.Header(events.HeaderCut))
		require.Less(t, len(letter.Value), 1<<20)
		require.Equal(t, events.RejectTooLarge, letter.Header(supervisor.DeadReason))
		w.submit("t-after")
		w.watch.ended("t-after")
	})
}

// A take-over must send the dead letter of such a record even though the record's bytes cannot be read.
func TestATakeOverSendsTheDeadLetterOfAnUnpackableInput(t *testing.T) {
	bombBubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		w.hire(nil)
		w.submit("t-before")
		w.watch.ended("t-before")
		offsets := kafkatest.Bomb(t, w.broker, w.topics.Submissions(), 18<<20)
		passed(t, n.Inputs().WaitPassed, offsets[0])
		n.kill()
		// The kill nearly always comes between the fact and its effect. The store is written after the log, so the effect may already
		// have been sent. It is then sent again, because the watermark has not passed it.
		want := 1 + len(w.read(w.topics.DeadSubmissions(), 0))
		n = w.node(dir)
		w.submit("t-after")
		w.watch.ended("t-after")
		deadLetters(t, w, want)
		_, err := n.Status(0)
		require.NoError(t, err)
	})
}

// A small batch with too many records is one rejection: neither its records nor placeholders for them are ever in memory.
func TestABatchOfTooManyRecordsIsOneRejection(t *testing.T) {
	bombBubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(nil)
		offsets := kafkatest.Bomb(t, w.broker, w.topics.Submissions(), make([]int, batch.MaxRecords+1)...)
		last := offsets[len(offsets)-1]
		passed(t, n.Inputs().WaitPassed, last)
		deadLetters(t, w, 1)
		letter := w.read(w.topics.DeadSubmissions(), 0)[0]
		require.Equal(t, strconv.FormatInt(offsets[0], 10), letter.Header(supervisor.DeadOffset))
		require.Equal(t, strconv.FormatInt(last, 10), letter.Header(events.HeaderLast))
		w.submit("t-after")
		w.watch.ended("t-after")
		n.kill()
		w.node(t.TempDir())
		w.submit("t-later")
		w.watch.ended("t-later")
		deadLetters(t, w, 1)
	})
}

func passed(t *testing.T, wait func(context.Context, events.Input, int32, int64) error, offset int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, wait(ctx, events.Submissions, 0, offset))
}

// deadLetters waits until there are exactly this many dead letters of submissions.
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
