//go:build synctests

package node_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector/projectortest"
	"github.com/stretchr/testify/require"
)

// approval waits for a signal one second after its task is accepted.
const approval = `
workflow: order
steps:
  nap: {sleep: 1s}
  approve: {needs: [nap], wait: {signal: go}}
`

// signal is the record of a signal to a task. Its request has the task's ID with "-s" behind it.
func (w *world) signal(task string) events.Record {
	w.t.Helper()
	q := events.Request{ID: task + "-s", Kind: events.RequestSignal, Task: task, Signal: "go", Payload: []byte(`{"ok":true}`)}
	r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/test", Time: events.At(time.Now())})
	require.NoError(w.t, err)
	return r
}

// signalled is how the signals of a test met their waits.
type signalled struct {
	// kept counts the signals that came before their wait began, and met those that came while it stood.
	kept, met int
}

// judge checks that each task took its signal once.
func (w *world) judge(ids []string) (s signalled) {
	w.t.Helper()
	received, taken, waits := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, f := range w.watch.log() {
		if f.fate != events.FateAccepted {
			continue
		}
		switch b := f.fact.Body.(type) {
		case *events.WaitStarted:
			waits[f.fact.Task] = waits[f.fact.Task] || len(b.Signals) > 0
		case *events.SignalReceived:
			received[b.Request]++
			if waits[f.fact.Task] {
				s.met++
			} else {
				s.kept++
			}
		case *events.StepCompleted:
			if b.Signal != "" {
				require.Equal(w.t, f.fact.Task+"-s", b.Signal)
				taken[b.Signal]++
			}
		}
	}
	for _, id := range ids {
		require.Equal(w.t, 1, received[id+"-s"], "the signal of %s is received once", id)
		require.Equal(w.t, 1, taken[id+"-s"], "the signal of %s is taken once", id)
	}
	return s
}

// Signals come within ten milliseconds before, at and after the instant at which their step begins to wait, some before their task, some
// behind it in the submissions, half of them twice, and the owner is killed within the same instants: each wait takes its signal, once.
func TestFaultSignalsMeetTheirWaitsUnderKills(t *testing.T) {
	total := 1_000
	if gate() {
		total = 10_000
	}
	const chunk, spread = 250, 10 * time.Millisecond
	bubble(t, func(t *testing.T) {
		w := setup(t, 3)
		dice := rand.New(rand.NewPCG(*bubbleSeed, 7))
		disk := projectortest.NewDisk()
		n := w.node(memory, on(disk))
		w.apply(n, approval)
		var all []string
		kills := 0
		for c := range total / chunk {
			list := ids(fmt.Sprintf("s%d", c), chunk)
			all = append(all, list...)
			w.produce(w.topics.Reports(), -1, w.signal(list[0]), w.signal(list[1])) // held for their tasks
			w.submit(list...)
			w.produce(w.topics.Submissions(), -1, w.signal(list[2]), w.signal(list[3]))
			at := map[time.Duration][]events.Record{}
			for i, id := range list[4:] {
				r := w.signal(id)
				later := time.Second + time.Duration(dice.Int64N(int64(2*spread)))/time.Millisecond*time.Millisecond - spread
				at[later] = append(at[later], r)
				if i%2 == 0 {
					again := later + time.Duration(dice.IntN(5))*time.Millisecond
					at[again] = append(at[again], r)
				}
			}
			var kill time.Duration
			if c%2 == 1 {
				kill = time.Second + time.Duration(dice.Int64N(int64(2*spread))) - spread
			}
			begun := time.Now()
			for after := time.Second - spread; after < time.Second+2*spread; after += time.Millisecond {
				<-time.After(time.Until(begun.Add(after)))
				if kill > 0 && after >= kill {
					n.kill()
					disk = disk.PowerCut(0, dice)
					n = w.node(memory, on(disk))
					kill = 0
					kills++
				}
				if len(at[after]) > 0 {
					w.produce(w.topics.Reports(), -1, at[after]...)
				}
			}
			w.watch.ended(list...)
		}
		s := w.judge(all)
		t.Logf("%d signals and %d kills: %d came before their wait, %d while it stood", len(all), kills, s.kept, s.met)
		require.Greater(t, min(s.kept, s.met), len(all)/5, "signals come on both sides of the begin of the wait")
		require.NoError(t, n.stop())
		w.watch.verify()
		w.proveDisks(disk)
		w.observerAgrees()
	})
}
