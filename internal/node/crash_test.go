package node_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// A node is cut off and ended at random moments under load. The next one starts on the store as it was at that moment,
// on an empty directory, or on an older copy.
func TestKilledAtRandomMomentsNothingIsLost(t *testing.T) {
	for round := range rounds(t, 1, 40) {
		seed := rand.Uint64()
		t.Run("", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				t.Logf("round %d, seed %d", round, seed)
				killRepeatedly(t, rand.New(rand.NewPCG(seed, 1)), 6)
			})
		})
	}
}

func killRepeatedly(t *testing.T, dice *rand.Rand, kills int) {
	w := setup(t, 2)
	dir := t.TempDir()
	n := w.node(dir)
	w.apply(n, order)
	crew := w.hire(nil)
	var tasks []string
	var old string
	for k := range kills {
		more := ids(string(rune('a'+k)), 20+dice.IntN(20))
		tasks = append(tasks, more...)
		w.submit(more...)
		at := len(w.watch.log()) + 1 + dice.IntN(200)
		w.watch.await("there are some more facts, or all tasks have ended", func() bool {
			return len(w.watch.facts) >= at || allEnded(w.watch, tasks)
		})
		n.kill()
		switch dice.IntN(3) {
		case 0:
			dir = t.TempDir()
		case 1:
			if old != "" {
				dir = old
			}
		}
		old = t.TempDir()
		require.NoError(t, os.CopyFS(filepath.Join(old, "state"), os.DirFS(filepath.Join(n.dir, "state"))))
		n = w.node(dir)
	}
	w.watch.ended(tasks...)
	w.watch.await("it rests", func() bool { return true })
	require.NoError(t, n.stop())
	w.watch.verify()
	w.everyCallIsInTheLog(crew)
	for _, id := range tasks {
		require.Equal(t, events.TaskStateProcessed, w.watch.state(id, events.TaskStateProcessed).State)
	}
	w.proveHashes(dir)
	w.observerAgrees()
}

func allEnded(o *observer, tasks []string) bool {
	for _, id := range tasks {
		if t := o.task(id); t == nil || !t.State.Ended() {
			return false
		}
	}
	return true
}

func TestACleanStopIsQuickAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, 4)
	dir := t.TempDir()
	n := w.node(dir)
	w.apply(n, order)
	w.hire(nil)
	tasks := ids("t", 200)
	w.submit(tasks...)
	w.watch.await("half of it is done", func() bool { return len(w.watch.facts) > 1000 })
	begin := time.Now()
	require.NoError(t, n.stop())
	require.Less(t, time.Since(begin), time.Minute, "far above what a slow machine needs")
	w.proveHashes(dir)
	n = w.node(dir)
	w.watch.ended(tasks...)
	require.NoError(t, n.stop())
	w.watch.verify()
}
