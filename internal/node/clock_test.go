package node_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// began has a monotonic reading, which times inside a bubble lack.
var began = time.Now()

// twoClocks returns a time whose wall clock is ahead of its monotonic clock: see supervisor's test of Clock.
func twoClocks(monotonic, ahead time.Duration) time.Time {
	t, moved := began.Add(monotonic), began.Add(monotonic+ahead)
	(*[3]uint64)(unsafe.Pointer(&moved))[1] = (*[3]uint64)(unsafe.Pointer(&t))[1]
	return moved
}

func TestNothingIsDecidedWhileTheClockIsSuspect(t *testing.T) {
	for name, back := range map[string]bool{"a wrong clock that is corrected": true, "a machine that slept": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				start := time.Now()
				var ahead atomic.Int64
				w := setup(t, 1)
				n := w.node(t.TempDir(), func(c *node.Config) {
					c.Now = func() time.Time { return twoClocks(time.Since(start), time.Duration(ahead.Load())) }
				})
				w.apply(n, order)
				w.announce("stock")
				w.submit("t-1") // nobody works on it, so its step times out
				w.watch.await("it starts", func() bool { return started(w.watch) == 1 })
				ahead.Store(int64(time.Hour))
				<-time.After(time.Second)
				w.submit("t-2")
				<-time.After(30 * time.Second)
				require.Nil(t, w.found("t-2"), "nothing is decided")
				require.NotContains(t, w.watch.story("t-1"), "Timeout reserve 1 retry", "a wrong clock times no attempt out")
				require.Len(t, w.logs.find("the clock jumped forward"), 1)
				require.Contains(t, w.logs.find("the clock jumped forward")[0], "jump=1h0m0s")
				if back {
					ahead.Store(0)
				}
				begin := time.Now()
				w.watch.await("the second is accepted", func() bool { return w.watch.task("t-2") != nil })
				if back {
					require.Less(t, time.Since(begin), time.Second)
					require.Less(t, w.found("t-2").SubmittedAt, events.At(began.Add(40*time.Minute)))
				} else {
					require.Less(t, time.Since(begin), 40*time.Second, "the clock is trusted after a minute")
					require.Greater(t, w.found("t-2").SubmittedAt, events.At(began.Add(40*time.Minute)))
				}
				require.NoError(t, n.stop())
			})
		})
	}
}

// An owner that decides nothing reads no more than its bounds allow. The rest waits at the broker.
func TestASuspendedOwnerReadsABoundedAmount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		var ahead atomic.Int64
		w := setup(t, 1)
		n := w.node(t.TempDir(), func(c *node.Config) {
			c.Now = func() time.Time { return twoClocks(time.Since(start), time.Duration(ahead.Load())) }
		})
		w.apply(n, single("w", 1))
		w.hire(nil)
		w.submit("t-unknown") // rejected: the owner has begun
		w.watch.await("it is judged", func() bool { return rejected(w, "t-unknown") != "" })
		ahead.Store(int64(time.Hour))
		<-time.After(time.Second)
		before := n.net.received.Load()
		text := strings.Repeat("x", 200<<10)
		for _, id := range ids("t", 200) { // 40 MiB
			w.produce(w.topics.Submissions(), 0, events.Record{Key: []byte(id), Value: []byte(`{"workflow":"w","input":{"a":"` + text + `"}}`)})
		}
		<-time.After(20 * time.Second)
		t.Logf("%d MiB were read", (n.net.received.Load()-before)>>20)
		require.Less(t, n.net.received.Load()-before, int64(20<<20))
		require.NoError(t, n.stop())
	})
}
