//go:build synctests

package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/stretchr/testify/require"
)

// banked is a workflow whose steps need a permit of the limit bank.
const banked = `
workflow: order
defaults: {complete_within: 5s, retry: {attempts: 5, backoff: 100ms, then: undo}}
steps:
  authorize: {agent: bank, limit: bank, undo: {}}
  capture: {needs: [authorize], agent: bank, limit: bank}
`

// counter counts the calls that a service works for at once, and declines some captures.
type counter struct {
	mu                sync.Mutex
	inside, most, all int
}

func (l *counter) serve(_ context.Context, a agent.Attempt) error {
	l.mu.Lock()
	l.inside++
	l.all++
	l.most = max(l.most, l.inside)
	l.mu.Unlock()
	<-time.After(20 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside--
	if a.Step == "capture" && a.Task[len(a.Task)-1] == '7' {
		return agent.Permanent(errors.New("no money"))
	}
	return nil
}

// A limit of 3 holds for the attempts of 100 tasks in two partitions, to do and to undo, while their owner is killed again and again.
func TestFaultALimitHoldsForAllAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		w.kinds = []string{"bank"}
		dice := rand.New(rand.NewPCG(*bubbleSeed, 12))
		disk := projectortest.NewDisk()
		n := w.node(memory, on(disk))
		w.limit(n, "bank", 3)
		w.apply(n, banked)
		service := &counter{}
		crew := w.hire(service.serve)
		w.windowKnown(n, "bank")
		var all []string
		var list []events.Record
		for i := range 100 {
			all = append(all, fmt.Sprintf("t%d", i))
			list = append(list, submission(all[i], map[string]any{}))
		}
		w.produce(w.topics.Submissions(), -1, list...)
		kills, left := 0, func() bool {
			w.watch.mu.Lock()
			defer w.watch.mu.Unlock()
			return slices.ContainsFunc(all, func(id string) bool { t := w.watch.task(id); return t == nil || !t.State.Ended() })
		}
		for ; kills < 10; kills++ {
			if <-time.After(time.Duration(dice.Int64N(int64(500 * time.Millisecond)))); !left() {
				break
			}
			n.kill()
			disk = disk.PowerCut(0, dice)
			n = w.node(memory, on(disk))
		}
		w.watch.ended(all...)
		for i, id := range all {
			want := events.TaskStateProcessed
			if i%10 == 7 {
				want = events.TaskStateUndone
			}
			require.Equal(t, want, w.watch.state(id, want).State)
		}
		t.Logf("%d calls, at most %d at once, %d kills", service.all, service.most, kills)
		require.Equal(t, 3, service.most)
		require.Positive(t, kills)
		require.NoError(t, n.stop())
		w.watch.verify()
		w.everyCallIsInTheLog(crew)
		w.everyStepWasDone(crew)
		w.proveDisks(disk)
		w.observerAgrees()
	})
}
