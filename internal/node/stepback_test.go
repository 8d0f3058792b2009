package node_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The clock of a running node is set back by mistake. Until its next heartbeat comes back, the last ones still say that the clocks agree; a
// correction then would bring the log to a time that never was right.
func TestAClockThatIsSetBackCorrectsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 3)
		var ahead atomic.Int64
		a := w.node(t.TempDir(), together)
		b := w.node(t.TempDir(), together)
		c := w.node(t.TempDir(), together, moving(&ahead))
		w.shared("node-1", "node-2", "node-3")
		w.apply(a, single("order", 1))
		w.kinds = []string{"stock"}
		w.hire(nil)
		w.submit(ids("t", 30)...)
		for i := range 20 {
			<-time.After(3*time.Second + time.Duration(i)*37*time.Millisecond)
			ahead.Store(int64(-8 * 24 * time.Hour))
			<-time.After(5 * time.Second)
			ahead.Store(0)
		}
		<-time.After(10 * time.Second)
		for _, s := range w.watch.log() {
			require.NotEqual(t, events.NameTimeCorrected, s.fact.Body.Name(), "to %s at %s", s.fact.Time, events.At(time.Now()))
		}
		for _, n := range []*process{a, b, c} {
			require.NoError(t, n.stop())
		}
	})
}
