package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// queueReads counts how often an owner reads the queue from its store.
type queueReads struct {
	*sim.Store
	n int
}

func (s *queueReads) Ready(line events.Line, limit int) ([]events.Ready, error) {
	s.n++
	return s.Store.Ready(line, limit)
}

// A deadline waits for the reports, and they may be unreadable for long. More overdue tasks than the memory holds must not keep younger
// ones waiting meanwhile, nor be read from the store again and again, whether the owner has seen their deadlines come or takes over later.
func TestOverdueTasksDoNotHoldUpYoungerOnes(t *testing.T) {
	t.Parallel()
	for name, takeOver := range map[string]bool{"the same owner": false, "a later owner": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n = 400
			store := &queueReads{}
			b := newBench(t, oneStep)
			a := b.candidate("A", func(c *candidate) {
				c.cfg.Queue, c.cfg.Tasks, c.cfg.FlushEvery = 20, 20, time.Second
				c.through = func(s *sim.Store) supervisor.Store { store.Store = s; return store }
			})
			a.o.SetOffers(b.now, map[string]supervisor.Offer{})
			a.own()
			for i := range n {
				b.submit(fmt.Sprintf("old%04d", i), "one", `,"deadline":"1m"`)
			}
			a.run()
			a.hold["AskEnds"] = true // no deadline passes
			a.pass(2 * time.Minute)
			if takeOver {
				a.restart()
				a.o.SetOffers(b.now, map[string]supervisor.Offer{})
				a.own()
			}
			b.submit("young", "one", `,"deadline":"1h"`)
			a.run()
			store.n = 0
			a.o.SetOffers(b.now, offers(8))
			for range 3 {
				a.pass(time.Second)
			}
			require.Equal(t, []string{"young.only do#1"}, a.work())
			require.Less(t, store.n, n/20+40)
			require.Zero(t, count[*events.DeadlinePassed](b))

			a.hold["AskEnds"] = false
			for range 5 {
				a.pass(time.Second)
			}
			require.Equal(t, n, count[*events.TaskUndone](b))
		})
	}
}
