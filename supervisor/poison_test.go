package supervisor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// poisoned is a scheduler that panics at the places that a test chooses.
type poisoned struct {
	*scheduler.Scheduler
	plan, policy, start, check func(t *events.Task) bool
}

func never(*events.Task) bool { return false }

func poison() *poisoned {
	return &poisoned{Scheduler: scheduler.New(), plan: never, policy: never, start: never, check: never}
}

func (p *poisoned) Plan(t *events.Task) (events.Plan, error) {
	if p.plan(t) {
		panic("plan of " + t.ID)
	}
	return p.Scheduler.Plan(t)
}

func (p *poisoned) Policy(t *events.Task, path string, op events.Operation) events.Policy {
	if p.policy(t) {
		panic("policy of " + t.ID)
	}
	return p.Scheduler.Policy(t, path, op)
}

func (p *poisoned) Start(t *events.Task, path string, op events.Operation) (events.Start, error) {
	if p.start(t) {
		panic("start of " + t.ID)
	}
	return p.Scheduler.Start(t, path, op)
}

func (p *poisoned) Accept(hash string, sub *events.Submission, version int) (events.Acceptance, string) {
	if p.check(nil) {
		p.check = never
		panic("input")
	}
	return p.Scheduler.Accept(hash, sub, version)
}

func toxic(t *events.Task) bool { return t.ID == "toxic" }

// settle runs for a while and checks that the owner does not loop, by counting the epochs that end.
func settle(t *testing.T, a *candidate) {
	t.Helper()
	for range 40 {
		a.pass(500 * time.Millisecond)
		require.NoError(t, a.stopped)
	}
	require.LessOrEqual(t, a.o.Status().Stats.Epochs, uint64(8), "poison loops")
	require.True(t, a.o.Status().Owning)
}

func TestASubmissionThatPanicsBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(p *poisoned){
		"in the plan":  func(p *poisoned) { p.plan = toxic },
		"in the check": func(p *poisoned) { p.check = func(*events.Task) bool { return true } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := newBench(t, oneStep), poison()
			set(p)
			a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
			b.submit("toxic", "one", "")
			b.submit("t2", "one", "")
			a.run()
			settle(t, a)
			require.Equal(t, events.RejectInternal, last[*events.InputRejected](b).Reason)
			require.Len(t, a.sentTo("dlq.submissions"), 1)
			require.Equal(t, b.inputs[events.Submissions][0].Value, a.sentTo("dlq.submissions")[0].Value)
			require.Equal(t, "t2", b.task("t2").ID, "it does not block t2")
		})
	}
}

func TestAReportThatPanicsParksItsTask(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(p *poisoned){
		"in the plan": func(p *poisoned) {
			p.plan = func(t *events.Task) bool {
				return toxic(t) && t.State == events.TaskStateProcessing && t.Step("only").State != events.StepStateRunning
			}
		},
		"in the policy": func(p *poisoned) { p.policy = toxic },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := newBench(t, oneStep), poison()
			set(p)
			a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
			b.submit("toxic", "one", "")
			a.run()
			if name == "in the plan" {
				b.done("toxic", "only", 1)
			} else {
				b.failed("toxic", "only", 1, events.ClassRetryable, "")
			}
			b.submit("t2", "one", "")
			a.run()
			p.policy = never
			settle(t, a)
			x := b.task("toxic")
			require.Equal(t, events.TaskStateError, x.State)
			require.Contains(t, x.Reason, "internal")
			require.Equal(t, "t2", b.task("t2").ID)
		})
	}
}

func TestATimerThatPanicsParksItsTask(t *testing.T) {
	t.Parallel()
	b, p := newBench(t, oneStep), poison()
	p.policy = toxic
	a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
	b.submit("toxic", "one", "")
	b.submit("t2", "one", "")
	a.run()
	a.pass(1100 * time.Millisecond)
	for range 4 {
		a.pass(100 * time.Millisecond)
	}
	require.Equal(t, events.TaskStateError, b.task("toxic").State)
	require.Contains(t, b.task("toxic").Reason, "internal")
	require.Equal(t, 1, b.task("t2").FailureCount, "the other timer fired")
}

// A task that is parked already keeps its timers, and nothing parks it again when deciding about one of them panics.
func TestATimerOfAParkedTaskThatPanicsDoesNotLoop(t *testing.T) {
	t.Parallel()
	b, p := newBench(t, `
workflow: both
defaults: {complete_within: 1s, retry: {attempts: 1, then: park}}
steps:
  left: {agent: alpha}
  right: {agent: alpha}
`), poison()
	a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
	b.submit("toxic", "both", "")
	a.run()
	b.failed("toxic", "left", 1, events.ClassPermanent, "")
	a.run()
	require.Equal(t, events.TaskStateError, b.task("toxic").State)
	p.policy = toxic
	settle(t, a)
	require.Equal(t, events.StepStateTimedOut, b.task("toxic").Step("right").State, "the time-out is recorded")
}

func TestAStartThatPanicsParksItsTask(t *testing.T) {
	t.Parallel()
	b, p := newBench(t, oneStep), poison()
	p.start = toxic
	a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
	b.submit("toxic", "one", "")
	b.submit("t2", "one", "")
	a.run()
	settle(t, a)
	require.Equal(t, events.TaskStateError, b.task("toxic").State)
	require.NotNil(t, b.task("t2").Step("only"))
}

func TestARefusedRequestWhoseFailurePanicsParksItsTask(t *testing.T) {
	t.Parallel()
	b, p := newBench(t, oneStep), poison()
	p.policy = toxic
	a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
	a.refuse = func(s supervisor.Send) bool { return s.Kind == events.EffectWork }
	b.submit("toxic", "one", "")
	a.run()
	p.policy = never
	settle(t, a)
	require.Equal(t, events.TaskStateError, b.task("toxic").State)
}

// failing is a store whose reads can be made to fail.
type failing struct {
	supervisor.Store
	fail int
}

var errDisk = errors.New("disk")

func (f *failing) Load(id string) (events.StoredTask, error) {
	if f.fail > 0 {
		f.fail--
		return events.StoredTask{}, errDisk
	}
	return f.Store.Load(id)
}

func TestAnUnreadableStoreStopsThePartitionAndBlamesNoInput(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A")
	f := &failing{Store: a.store}
	o, err := supervisor.NewOwner(a.cfg, a.sched, f)
	require.NoError(t, err)
	a.o = o
	a.own()
	f.fail = 1 // fail once; the input itself is valid
	b.submit("t1", "one", "")
	a.run()
	require.ErrorIs(t, a.stopped, errDisk)
	require.Empty(t, b.names())
}

// The message must say that the log could not be folded, and not only that the disk had an error.
func TestAnUnreadableStoreSaysThatTheLogIsNotFolded(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	c := b.candidate("B").own()
	b.done("t1", "only", 1)
	c.run()
	o, err := supervisor.NewOwner(a.cfg, a.sched, &failing{Store: a.store, fail: 1})
	require.NoError(t, err)
	a.restart()
	a.o = o
	a.o.Assign(b.now)
	a.run()
	require.ErrorIs(t, a.stopped, errDisk)
	require.ErrorIs(t, a.stopped, supervisor.ErrFold)
}

// Each new epoch sends the running work again, so several reports about the parked task arrive.
func TestReportsOfAPoisonedTaskDoNotLoop(t *testing.T) {
	t.Parallel()
	b, p := newBench(t, oneStep), poison()
	p.plan = func(t *events.Task) bool { return toxic(t) && len(t.Steps) > 0 }
	a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
	b.submit("toxic", "one", "")
	a.run()
	for range 10 { // a copy of the work was sent in each epoch, and each is answered
		b.failed("toxic", "only", 1, events.ClassRetryable, "")
		for range 4 {
			a.pass(100 * time.Millisecond)
		}
	}
	require.NoError(t, a.stopped)
	require.Equal(t, events.TaskStateError, b.task("toxic").State)
	require.Equal(t, 1, b.task("toxic").FailureCount, "the agent's report is not lost")
	require.LessOrEqual(t, a.o.Status().Stats.Epochs, uint64(3), "poison loops")
}

// The request is judged again in the next epoch, and must not lead to the same panic again.
func TestARetryOfATaskThatPanicsParksItAgain(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]events.Verb{"retried": events.RequestRetry, "cancelled": events.RequestCancel} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := newBench(t, oneStep), poison()
			a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
			b.submit("toxic", "one", "")
			a.run()
			b.failed("toxic", "only", 1, events.ClassPermanent, "")
			a.run()
			require.Equal(t, events.TaskStateError, b.task("toxic").State)
			p.start = toxic
			b.request(kind, "again", "toxic")
			b.submit("t2", "one", "")
			a.run()
			settle(t, a)
			require.Equal(t, events.TaskStateError, b.task("toxic").State)
			require.Contains(t, b.task("toxic").Reason, "internal")
			require.Equal(t, "t2", b.task("t2").ID, "it does not block t2")
			p.start = never
			work := len(a.work())
			b.request(events.RequestRetry, "repaired", "toxic")
			a.run()
			require.Greater(t, len(a.work()), work, "the operator's next request is tried")
		})
	}
}

// What its parent asks makes planning a child panic: the child does as it is asked, and is parked. Otherwise each copy of the ask would make it panic again.
func TestAChildThatPanicsWhenItsParentTurnsBackIsParked(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"a child that runs": false, "a child that has ended": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := newBench(t, family, offspring), poison()
			a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
			b.submit("p", "parent", "")
			a.relay()
			if ended {
				b.done("p/trip", "only", 1)
				a.relay()
			}
			p.plan = func(t *events.Task) bool { return t.ID == "p/trip" && t.Undoing() }
			if ended {
				b.failed("p", "pay", 1, events.ClassPermanent, events.EffectNone)
			} else {
				b.request(events.RequestCancel, "c", "p")
			}
			a.relay()
			settle(t, a)
			child := b.task("p/trip")
			require.Equal(t, events.TaskStateError, child.State)
			require.True(t, child.Undoing())
			require.Contains(t, child.Reason, "internal")
			require.Zero(t, count[*events.InputRejected](b))
			epochs := a.o.Status().Stats.Epochs
			a.pass(2 * time.Hour) // the parent asks again
			a.relay()
			require.Equal(t, epochs, a.o.Status().Stats.Epochs)
			p.plan = never
			b.request(events.RequestRetry, "r", "p/trip")
			a.relay()
			if !ended {
				b.done("p/trip", "only", 1)
				a.relay()
			}
			b.undone("p/trip", "only", 1)
			a.relay()
			require.Equal(t, events.TaskStateUndone, b.task("p").State)
			sameEverywhere(t, b, a)
		})
	}
}
