package supervisor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

const twoQuick = `
workflow: two
defaults: {complete_within: 1m, retry: {attempts: 1, then: park}}
steps:
  first: {agent: alpha}
  second: {agent: alpha, needs: [first]}
`

// crowd is an agent with a number of slots, in virtual time. Attempts without a slot wait for one.
type crowd struct {
	places  int
	took    func(task string) time.Duration
	running map[string]events.Instant
	waiting []string
}

// step ends the attempts that have run long enough, gives their slots to waiting ones, and returns those that ended.
func (a *crowd) step(now events.Instant) (over []string) {
	for id, at := range a.running {
		if at <= now {
			over = append(over, id)
			delete(a.running, id)
		}
	}
	for len(a.waiting) > 0 && len(a.running) < a.places {
		a.running[a.waiting[0]] = now.Add(a.took(a.waiting[0]))
		a.waiting = a.waiting[1:]
	}
	slices.Sort(over)
	return over
}

// latencies submits a task every few milliseconds and returns the latencies of the tasks that had no slow call.
func latencies(t *testing.T, places int, share float64) (quick []time.Duration, slow int) {
	const tasks = 2500
	b := newBench(t, twoQuick)
	c := b.candidate("A", func(c *candidate) { c.cfg.Settings.HashEvery = 100_000 }).own()
	c.o.SetOffers(b.now, offers(places))
	random := rand.New(rand.NewPCG(7, 7))
	hit := map[string]bool{}
	a := &crowd{places: places, running: map[string]events.Instant{}, took: func(id string) time.Duration {
		if random.Float64() < share {
			hit[id] = true
			return 2 * time.Second
		}
		return 10 * time.Millisecond
	}}
	begun, steps, sent, ended := map[string]events.Instant{}, map[string]string{}, 0, 0
	for i := 0; ended < tasks; i++ {
		require.Less(t, i, 60_000, "%d of %d tasks ended", ended, tasks)
		if i%2 == 0 && len(begun) < tasks {
			id := fmt.Sprintf("t%05d", len(begun))
			begun[id] = b.now
			b.submit(id, "two", "")
		}
		for _, id := range a.step(b.now) {
			b.done(id, steps[id], 1)
			if steps[id] == "second" {
				ended++
				if !hit[id] {
					quick = append(quick, b.now.Sub(begun[id]))
				}
			}
		}
		c.pass(0)
		for _, s := range c.sent[sent:] {
			w, _, err := events.DecodeWork(&s.Record)
			require.NoError(t, err)
			steps[w.Task] = w.Step
			a.waiting = append(a.waiting, w.Task)
		}
		sent = len(c.sent)
		a.step(b.now)
		b.now++
	}
	require.Zero(t, count[*events.Timeout](b))
	return quick, len(hit)
}

// TestASlowStepDelaysNoOtherTask makes one call in a hundred take 2 s. At 500 tasks a second, with two calls a task and
// 30 ms a call, 30 of the agent's 64 slots are busy. The p99 of tasks without a slow call rises by at most a fifth.
func TestASlowStepDelaysNoOtherTask(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	p99 := func(share float64) (time.Duration, int) {
		list, slow := latencies(t, 64, share)
		slices.Sort(list)
		return list[len(list)*99/100], slow
	}
	even, none := p99(0)
	tail, slow := p99(0.01)
	require.Zero(t, none)
	require.Greater(t, slow, 25)
	t.Logf("p99 %v; with %d tasks that take 2 s: %v", even, slow, tail)
	require.LessOrEqual(t, tail, even*6/5)
}
