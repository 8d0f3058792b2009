package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// finish reports the success of every attempt that was sent and has not been reported yet.
func finish(b *bench, c *candidate, from int) int {
	for _, s := range c.sent[from:] {
		if s.Kind != events.EffectWork {
			continue
		}
		w, _, err := events.DecodeWork(&s.Record)
		require.NoError(b.t, err)
		if w.Operation == events.Undo {
			b.undone(w.Task, w.Step, w.Attempt)
		} else {
			b.done(w.Task, w.Step, w.Attempt)
		}
	}
	return len(c.sent)
}

// TestABacklogOfFiveThousandTasks has one agent slot for all tasks. Memory stays within its bounds, and the tasks run
// by priority, then by age.
func TestABacklogOfFiveThousandTasks(t *testing.T) {
	t.Parallel()
	const n = 5000
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) {
		c.cfg.Window, c.cfg.Tasks, c.cfg.Queue, c.cfg.Settings.HashEvery = 1, 100, 50, 1_000_000
	}).own()
	urgent := map[string]bool{}
	for i := range n {
		id, rest := fmt.Sprintf("t%05d", i), ""
		if i%100 == 99 {
			rest, urgent[id] = `,"priority":5`, true
		}
		b.submit(id, "one", rest)
		if i%250 == 249 {
			b.now++
			a.run()
			require.LessOrEqual(t, a.o.Status().InMemory, 100+4*500, "tasks in memory")
		}
	}
	require.Equal(t, n, a.store.Len())
	done := 0
	for range 200 { // a few are enough to show the order
		done = finish(b, a, done)
		a.run()
		require.LessOrEqual(t, a.o.Status().InMemory, 100+3*50)
	}
	order := a.work()
	require.Greater(t, len(order), 150)
	first := order[:50]
	for _, w := range first {
		require.True(t, urgent[w[:6]], "%s ran before an urgent one", w)
	}
	require.IsIncreasing(t, first)
	require.IsIncreasing(t, order[50:])
}

// TestASpilledQueueIsRefilled uses a tiny queue that spills again and again. Every attempt must still start in the end.
func TestASpilledQueueIsRefilled(t *testing.T) {
	t.Parallel()
	for _, inFlight := range []int{1, 3} {
		b := newBench(t, twoSteps)
		a := b.candidate("A", func(c *candidate) {
			c.cfg.Window, c.cfg.Tasks, c.cfg.Queue, c.cfg.BatchFacts, c.cfg.InFlight = 2, 3, 1, 4, inFlight
		}).own()
		for i := range 60 {
			b.submit(fmt.Sprintf("t%02d", i), "two", "")
		}
		a.run()
		done := 0
		for range 100 {
			done = finish(b, a, done)
			a.run()
		}
		s, _, _ := b.read()
		s.Loaded(func(x *events.Task) bool {
			require.Equal(t, events.TaskStateProcessed, x.State, "%s with %d in flight", x.ID, inFlight)
			return true
		})
		require.Equal(t, 60, count[*events.TaskProcessed](b))
	}
}

// TestAQueueThatSpillsAndRefillsForgetsNothing submits a task in the same batch that starts the last task in memory.
// Its row is committed when the batch is acknowledged, before the store is next read.
func TestAQueueThatSpillsAndRefillsForgetsNothing(t *testing.T) {
	t.Parallel()
	for limit := 1; limit <= 6; limit++ {
		b := newBench(t, oneStep)
		a := b.candidate("A", func(c *candidate) { c.cfg.Window, c.cfg.Queue, c.cfg.InFlight = 1, limit, 1 }).own()
		n, done := 0, 0
		submit := func() { n++; b.submit(fmt.Sprintf("t%03d", n), "one", "") }
		for range 2*limit + 1 {
			submit()
		}
		a.run()
		for range 40 {
			submit()
			done = finish(b, a, done)
			a.run()
		}
		for range 80 {
			done = finish(b, a, done)
			a.run()
		}
		require.Equal(t, n, count[*events.TaskProcessed](b), "with a queue of %d", limit)
	}
}

// TestStartsAreNotStarvedBySubmissions keeps more submissions waiting than fit into one batch.
func TestStartsAreNotStarvedBySubmissions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *candidate){
		"by number": func(c *candidate) { c.cfg.BatchFacts = 8 },
		"by bytes":  func(c *candidate) { c.cfg.BatchBytes = 4 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			a := b.candidate("A", change).own()
			a.hold["Append"] = true
			for i := range 500 {
				b.submit(fmt.Sprintf("t%03d", i), "one", `,"input":"`+string(make500())+`"`)
			}
			started := 0
			for range 20 {
				a.run()
				list := held[supervisor.Append](a)
				require.NotEmpty(t, list)
				a.todo = without(a.todo, list[0].Generation)
				for _, x := range list {
					for i := range x.Records {
						if x.Records[i].Header(events.HeaderType) == events.TypePrefix+string(events.NameStepStarted) {
							started++
						}
					}
					a.o.Appended(b.now, x.Generation, x.Batch, b.land(x.Records...), nil)
				}
			}
			require.Positive(t, started, "while submissions wait, nothing is started")
			require.Less(t, count[*events.Submitted](b), 500, "the backlog is not used up")
		})
	}
}

func make500() []byte {
	text := make([]byte, 500)
	for i := range text {
		text[i] = 'x'
	}
	return text
}

// TestTimersFireThoughReportsKeepWaiting keeps some reports waiting all the time. A timer waits only for the reports
// that were durable before it was due, not for later ones.
func TestTimersFireThoughReportsKeepWaiting(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.BatchFacts, c.cfg.InFlight = 4, 1 }).own()
	b.submit("slow", "one", "")
	a.run()
	b.now = b.now.Add(1100 * time.Millisecond)
	a.hold["Append"] = true
	for range 30 {
		for range 6 {
			b.put(events.Reports, events.Record{Value: []byte("garbage")})
		}
		a.pass(50 * time.Millisecond)
		for _, x := range held[supervisor.Append](a) {
			a.todo = without(a.todo, x.Generation)
			a.o.Appended(b.now, x.Generation, x.Batch, b.land(x.Records...), nil)
		}
		a.run()
	}
	require.Equal(t, 1, count[*events.Timeout](b), "the attempt's timer was due 1.5 s ago")
}

// TestWaitingRetriesDoNotHideOtherTimers makes more retries due than the owner reads at once. Meanwhile an attempt
// whose timer is due later holds the only slot.
func TestWaitingRetriesDoNotHideOtherTimers(t *testing.T) {
	t.Parallel()
	const n = 600
	b := newBench(t, `
workflow: one
defaults: {complete_within: 5s, retry: {attempts: 5, backoff: 3s, factor: 1, then: park}}
steps:
  only: {agent: alpha}
`)
	a := b.candidate("A").own()
	a.o.SetOffers(b.now, offers(n))
	for i := range n {
		b.submit(fmt.Sprintf("t%03d", i), "one", "")
	}
	a.run()
	for i := range n {
		b.failed(fmt.Sprintf("t%03d", i), "only", 1, events.ClassRetryable, events.EffectNone)
	}
	a.run()
	a.o.SetOffers(b.now, offers(1))
	b.submit("last", "one", `,"priority":9`)
	a.run()
	require.Equal(t, events.StepStateRunning, b.task("last").Step("only").State)
	for range 70 { // all retries are due, then the attempt's timer; its agent is dead
		a.pass(100 * time.Millisecond)
	}
	require.NotEqual(t, 0, b.task("last").Step("only").FailureCount, "the attempt that holds the only slot times out")
}

// TestARetryDueWhileAnotherStepStartsIsNotForgotten: the row that says that a step is ready replaces the row that said
// when to look at the task again.
func TestARetryDueWhileAnotherStepStartsIsNotForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: par
defaults: {complete_within: 1h, retry: {attempts: 5, backoff: 1s, factor: 1, then: park}}
steps:
  x: {agent: alpha}
  y: {agent: beta}
`)
	a := b.candidate("A").own()
	a.o.SetOffers(b.now, map[string]supervisor.Offer{"alpha": {Window: 64, Do: true}, "beta": {Window: 1, Do: true}})
	b.submit("t0", "par", "")
	a.run()
	b.submit("t1", "par", "") // its step y waits for the slot that t0 holds
	a.run()
	b.failed("t1", "x", 1, events.ClassRetryable, events.EffectNone)
	a.run()
	b.now = b.now.Add(2 * time.Second) // the retry of x is due, but t0 releases its slot before the owner looks at it
	b.done("t0", "y", 1)
	a.run()
	require.NotNil(t, b.task("t1").Step("y"))
	for range 10 {
		a.pass(100 * time.Millisecond)
	}
	require.Equal(t, 2, b.task("t1").Step("x").Attempt)
}

func TestTasksFoldedByATakeOverArePlanned(t *testing.T) {
	t.Parallel()
	const n = 450 // more than the owner plans in one batch
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.BatchFacts = 1000 }).own()
	a.hold["Append"] = true
	for i := range n {
		b.submit(fmt.Sprintf("t%03d", i), "one", "")
	}
	a.run()
	first := held[supervisor.Append](a)[0]
	keep := first.Records[:0:0]
	for _, r := range first.Records { // the append was cut: the log has the tasks but not their starts
		if r.Header(events.HeaderType) != events.TypePrefix+string(events.NameStepStarted) {
			keep = append(keep, r)
		}
	}
	require.Equal(t, len(keep), cutAt(first.Records))
	b.land(keep...)
	c := b.candidate("C", func(c *candidate) { c.cfg.Window = 10 }).own()
	done := 0
	for range n {
		done = finish(b, c, done)
		c.run()
	}
	require.Equal(t, count[*events.Submitted](b), count[*events.TaskProcessed](b))
	require.Equal(t, n, count[*events.Submitted](b))
}

// cutAt is the number of records before the first start.
func cutAt(records []events.Record) int {
	for i := range records {
		if records[i].Header(events.HeaderType) == events.TypePrefix+string(events.NameStepStarted) {
			return i
		}
	}
	return len(records)
}

// TestATakeOverOfManyLiveTasksStaysInMemory: running and waiting attempts are counted, and not kept in memory.
func TestATakeOverOfManyLiveTasksStaysInMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t, "deadline: 1h\n"+oneStep[1:])
	change := func(c *candidate) { c.cfg.Window, c.cfg.Tasks, c.cfg.Queue = 1, 50, 50 }
	a := b.candidate("A", change).own()
	for i := range 1000 {
		b.submit(fmt.Sprintf("t%04d", i), "one", "")
	}
	a.run()
	a.restart()
	most := 0
	a.hold["ReadFacts"] = true
	a.o.Assign(b.now)
	a.run()
	a.pass(time.Second)
	a.hold["ReadFacts"] = false
	a.next()
	most = a.o.Status().InMemory
	require.LessOrEqual(t, most, 200)
}

// TestRejectedInputsLeaveNoTaskInMemory rejects an input for each of many tasks. A task may be evicted between the
// judgement and its acknowledgement, and the acknowledgement then loads it again.
func TestRejectedInputsLeaveNoTaskInMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Window, c.cfg.Tasks = 1, 10 }).own()
	for _, rest := range []string{"", `,"priority":5`} { // the second conflicts with the first
		for i := range 300 {
			b.submit(fmt.Sprintf("t%03d", i), "one", rest)
			if i%20 == 19 {
				a.run()
			}
		}
	}
	a.pass(time.Second)
	require.Len(t, a.sentTo("dlq.submissions"), 300)
	require.LessOrEqual(t, a.o.Status().InMemory, 10+20, "tasks in memory")
}

// TestSweepingKeepsUp lets more tasks expire than one fact can name. The owner sweeps them without waiting for the next
// interval.
func TestSweepingKeepsUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) {
		c.cfg.Window, c.cfg.Settings.RememberFor = 2000, events.Duration(time.Minute)
	}).own()
	for i := range 1500 {
		b.submit(fmt.Sprintf("t%04d", i), "one", "")
	}
	a.run()
	for i := range 1500 {
		b.done(fmt.Sprintf("t%04d", i), "only", 1)
	}
	a.run()
	require.Equal(t, 1500, count[*events.TaskProcessed](b))
	a.pass(2 * time.Second)
	for range 20 {
		a.pass(4 * time.Second)
	}
	require.Zero(t, a.store.Len(), "80 s after the end and 20 s after the horizon")
}

// At the bound the owner decides only what is due, and records the effects that the broker refuses permanently.
// Without that it would stay at the bound.
func TestTheBoundOnEffectsCausesNoDeadlock(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Unacknowledged, c.cfg.Window = 4, 100 }).own()
	a.refuse = func(s supervisor.Send) bool { return s.Kind == events.EffectWork }
	for i := range 20 {
		b.submit(fmt.Sprintf("t%02d", i), "one", "")
	}
	a.run()
	for range 40 {
		a.pass(500 * time.Millisecond)
	}
	s, _, _ := b.read()
	s.Loaded(func(x *events.Task) bool {
		require.Equal(t, events.TaskStateError, x.State, x.ID)
		return true
	})
}

// TestClocksThatDifferLoseNoWakeUp takes over from a node whose clock was ahead. The times of facts do not go
// backwards, and tasks that wait for such a time are still looked at.
func TestClocksThatDifferLoseNoWakeUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: par
defaults: {complete_within: 1s, retry: {attempts: 1, then: undo}}
steps:
  x: {agent: alpha, undo: {}}
  y: {agent: beta, undo: {}, complete_within: 20s}
`)
	a := b.candidate("A").own()
	b.submit("t1", "par", "")
	a.run()
	a.pass(1100 * time.Millisecond) // x times out, and the task is undoing; x counts as quiet in 2 s
	require.Equal(t, events.TaskStateUndoing, b.task("t1").State)
	b.now = b.now.Add(10 * time.Second)
	b.submit("other", "par", "") // A's fast clock advances the partition's time
	a.hold["Send"] = true
	a.o.Suspend(b.now, false, false)
	a.hold["reports"] = true
	a.run()
	b.now = b.now.Add(-10*time.Second + 500*time.Millisecond)
	c := b.candidate("C").own() // B's clock is behind: for B, x is not quiet yet
	b.failed("t1", "y", 1, events.ClassPermanent, events.EffectNone)
	c.run()
	for range 300 {
		c.pass(100 * time.Millisecond)
	}
	require.Contains(t, c.work(), "t1.x undo#1")
}

// TestUrgentTasksOvertakeAHundredThousand submits the urgent tasks last, and they must start next.
func TestUrgentTasksOvertakeAHundredThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	const n = 100_000
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Window, c.cfg.Settings.HashEvery = 4, 10_000_000 }).own()
	for i := range n {
		b.submit(fmt.Sprintf("t%06d", i), "one", "")
		if i%500 == 499 {
			b.now++
			a.run()
		}
	}
	var urgent []string
	for i := range 10 {
		id := fmt.Sprintf("u%02d", i)
		b.submit(id, "one", `,"priority":10`)
		urgent = append(urgent, id+".only do#1")
	}
	a.run()
	require.Equal(t, n+10, a.store.Len())
	done := 0
	for range 4 {
		done = finish(b, a, done)
		a.run()
	}
	require.Equal(t, urgent, a.work()[4:14], "right after the four that were already running")
}

// TestAReadyRetryIsNotWrittenAgainAndAgain: a step waits in the queue for its next attempt, and another one for a signal that did not come in
// time, which can be said only when the submissions before that are judged.
func TestAReadyRetryIsNotWrittenAgainAndAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
workflow: two
defaults: {complete_within: 1h, retry: {attempts: 5, backoff: 1s, factor: 1, then: park}}
steps:
  x: {agent: alpha}
  y: {wait: {signal: approval}, complete_within: 3s}
`)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	a.run()
	b.failed("t1", "x", 1, events.ClassRetryable, events.EffectNone)
	a.run()
	a.o.SetOffers(b.now, map[string]supervisor.Offer{})
	for range 20 {
		a.pass(100 * time.Millisecond)
	}
	a.hold[string(events.Submissions)] = true
	b.submit("t2", "two", "")
	for range 30 {
		a.pass(100 * time.Millisecond)
	}
	require.Equal(t, 0, count[*events.Timeout](b), "a signal may be among what is not read yet")
	delete(a.hold, string(events.Submissions))
	a.pass(time.Second)
	a.pass(time.Second)
	require.Equal(t, 1, count[*events.Timeout](b))
}
