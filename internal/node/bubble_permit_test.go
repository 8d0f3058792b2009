//go:build synctests

package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/stretchr/testify/require"
)

// oneAtATime is a workflow of which one task of each customer runs at a time.
const oneAtATime = `
workflow: order
concurrency: {key: "${ input.customer }", max: 1}
defaults: {complete_within: 5s, retry: {attempts: 5, backoff: 100ms, then: undo}}
steps:
  authorize: {agent: bank, undo: {}}
  capture: {needs: [authorize], agent: bank, pivot: true, retry: {attempts: 5, backoff: 100ms, then: park}}
`

// till is the ledger of a service: which task of each customer it works for.
type till struct {
	mu     sync.Mutex
	inside map[string]string
	calls  int
	// twice are the calls for which a task of the same customer was inside already.
	twice []string
}

// serve works for an attempt. A customer's task is inside from its first call on, until its last step has been done.
func (l *till) serve(_ context.Context, a agent.Attempt) error {
	customer, _, _ := strings.Cut(a.Task, "-")
	l.mu.Lock()
	l.calls++
	if other := l.inside[customer]; other != "" && other != a.Task {
		l.twice = append(l.twice, fmt.Sprintf("%s of %s while %s is inside", a.Step, a.Task, other))
	}
	l.inside[customer] = a.Task
	l.mu.Unlock()
	<-time.After(20 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Step == "capture" && l.inside[customer] == a.Task {
		delete(l.inside, customer)
	}
	return nil
}

// Payments of many customers, in partitions of which another one is the home of the customer's limit. The owner is killed again and again. The
// service never works for two payments of a customer at a time, and all are paid.
func TestFaultACustomersPaymentsRunOneAtATime(t *testing.T) {
	customers, each := 20, 50
	if *bubbleSeeds >= 500 { // a release
		customers, each = 100, 100
	}
	bubble(t, func(t *testing.T) {
		w := setup(t, 3)
		w.kinds = []string{"bank"}
		dice := rand.New(rand.NewPCG(*bubbleSeed, 11))
		disk := projectortest.NewDisk()
		n := w.node(memory, on(disk))
		w.apply(n, oneAtATime)
		ledger := &till{inside: map[string]string{}}
		crew := w.hire(ledger.serve)
		w.windowKnown(n, "bank")
		var all []string
		for i := range each {
			var list []events.Record
			for c := range customers {
				id := fmt.Sprintf("c%d-%d", c, i)
				all = append(all, id)
				list = append(list, submission(id, map[string]any{"customer": fmt.Sprintf("c%d", c)}))
			}
			w.produce(w.topics.Submissions(), -1, list...)
		}
		kills, left := 0, func() bool {
			w.watch.mu.Lock()
			defer w.watch.mu.Unlock()
			last := w.watch.task(all[len(all)-1])
			return last == nil || !last.State.Ended()
		}
		for ; kills < 20; kills++ {
			if <-time.After(time.Duration(dice.Int64N(int64(time.Second)))); !left() {
				break
			}
			n.kill()
			disk = disk.PowerCut(0, dice)
			n = w.node(memory, on(disk))
		}
		w.watch.ended(all...)
		for _, id := range all {
			require.Equal(t, events.TaskStateProcessed, w.watch.state(id, events.TaskStateProcessed).State)
		}
		t.Logf("%d payments of %d customers, %d calls, %d kills", len(all), customers, ledger.calls, kills)
		require.Empty(t, ledger.twice[:min(len(ledger.twice), 5)])
		require.Positive(t, kills)
		require.NoError(t, n.stop())
		w.watch.verify()
		w.everyCallIsInTheLog(crew)
		w.everyStepWasDone(crew)
		w.proveDisks(disk)
		w.observerAgrees()
	})
}
