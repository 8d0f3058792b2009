package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

func TestALogThatCannotBeFoldedStopsThePartition(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(b *bench, r *events.Record){
		"no fact":                         func(_ *bench, r *events.Record) { r.Headers = nil },
		"an unknown kind":                 func(_ *bench, r *events.Record) { setHeader(r, events.HeaderType, events.TypePrefix+"Other") },
		"a fact that the state rules out": func(_ *bench, r *events.Record) { setHeader(r, events.HeaderType, events.TypePrefix+"TaskProcessed") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			a := b.candidate("A").own()
			b.submit("t1", "one", "")
			a.run()
			for i := range b.log {
				if b.log[i].Header(events.HeaderType) == events.TypePrefix+"Submitted" {
					spoil(b, &b.log[i])
				}
			}
			c := b.candidate("C")
			c.o.Assign(b.now)
			c.run()
			require.ErrorIs(t, c.stopped, supervisor.ErrFold)
			require.Equal(t, "stopped", c.o.Status().Phase)
			c.o.Assign(b.now)
			c.o.Tick(b.now)
			c.drain()
			require.False(t, c.o.Status().Owning, "for good")
		})
	}
}

func setHeader(r *events.Record, key, value string) {
	r.Headers = append([]events.Header(nil), r.Headers...)
	for i := range r.Headers {
		if r.Headers[i].Key == key {
			r.Headers[i].Value = []byte(value)
		}
	}
}

func TestAStateHashMismatchStopsThePartition(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", `,"input":1`)
	a.run()
	b.done("t1", "only", 1)
	a.run()
	require.Positive(t, count[*events.StateHash](b))
	for i := range b.log {
		if b.log[i].Header(events.HeaderType) == events.TypePrefix+"StateHash" {
			b.log[i].Value = []byte(`{"hash":"00000000000000000000000000000000"}`)
		}
	}
	c := b.candidate("C")
	c.o.Assign(b.now)
	c.run()
	require.ErrorIs(t, c.stopped, events.ErrStateHash)
}

func TestABrokerThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A")
	a.hold["Load"], a.hold["Claim"] = true, true
	a.o.Assign(b.now)
	a.drain()
	a.o.LogEnd(b.now, a.o.Status().Generation, 0, 0, errDisk)
	a.hold["Load"] = false
	a.todo = nil
	a.run()
	a.drain()
	gen := a.o.Status().Generation
	a.pass(time.Second)
	a.o.LogEnd(b.now, gen, 0, 0, nil)
	a.run()
	a.o.Claimed(b.now, a.o.Status().Generation, 0, errDisk)
	a.hold["Claim"] = false
	a.todo = nil
	for range 4 {
		a.pass(time.Second)
	}
	if !a.o.Status().Owning { // its Load was dropped above
		a.restart()
		a.own()
	}
	require.True(t, a.o.Status().Owning)
}

func TestEndsThatAreNotAnsweredAreAskedForAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	a.hold["AskEnds"] = true
	a.pass(1100 * time.Millisecond)
	q := held[supervisor.AskEnds](a)
	require.Len(t, q, 1)
	a.pass(100 * time.Millisecond)
	require.Len(t, held[supervisor.AskEnds](a), 1, "one request at a time")
	a.todo = nil
	a.o.Ends(b.now, q[0].Generation, q[0].Question, nil, errDisk)
	a.hold["AskEnds"] = false
	a.pass(100 * time.Millisecond)
	require.Equal(t, 1, count[*events.Timeout](b))
}

// docs/protocol.md, "A timer waits for the reports".
func TestAnAnswerToAnOlderQuestionDoesNotCount(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t0", "one", "")
	a.run()
	a.hold["AskEnds"] = true
	a.pass(1010 * time.Millisecond) // t0's timer is due, and the owner asks for the end offsets
	q := held[supervisor.AskEnds](a)[0]
	ends := map[events.Input]int64{events.Reports: 0, events.Submissions: 1} // the broker's answer, as of now
	b.submit("t1", "one", "")
	a.run()
	a.hold["reports"] = true
	b.now = b.now.Add(1500 * time.Millisecond)
	b.done("t1", "only", 1) // durable before the owner looks at t1's timer
	a.todo = nil
	a.o.Ends(b.now, q.Generation, q.Question, ends, nil)
	a.run()
	require.Equal(t, 1, count[*events.Timeout](b), "of t0 alone")
	require.Zero(t, b.task("t1").FailureCount)
}

func TestInputLostStopsThePartition(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	for range 2 { // at first, another owner may have trimmed the topic
		require.NoError(t, a.stopped)
		a.o.Lost(b.now, a.o.Status().Generation, supervisor.Topic(events.Reports), supervisor.Loss{}, supervisor.ErrPosition)
		a.run()
		a.pass(10 * time.Millisecond)
	}
	require.ErrorIs(t, a.stopped, supervisor.ErrInputLost)
}

func TestAFailedExpressionIsPermanentAndSendsNoWork(t *testing.T) {
	t.Parallel()
	for name, workflow := range map[string]string{
		"a condition": "workflow: one\nsteps:\n  only: {agent: alpha, if: \"${ input.a.b > 1 }\"}\n",
		"a mapping":   "workflow: one\nsteps:\n  only: {agent: alpha, with: {x: \"${ input.a.b + 1 }\"}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, workflow)
			a := b.candidate("A").own()
			b.submit("t1", "one", `,"input":{"a":7}`)
			a.run()
			require.Equal(t, events.ClassExpression, last[*events.StepFailed](b).Error.Class)
			require.Zero(t, last[*events.StepFailed](b).Attempt)
			require.Empty(t, a.work())
			require.Equal(t, events.TaskStateUndone, b.task("t1").State)
			sameEverywhere(t, b, a)
		})
	}
}

func TestAnUnusableDefinitionParksItsTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	a.sched = &unusable{scheduler.New()} // a scheduler that cannot compile the definition
	a.restart()
	a.own()
	b.done("t1", "only", 1)
	b.submit("t2", "one", "")
	a.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	require.Equal(t, events.RejectUnknownWorkflow, last[*events.InputRejected](b).Reason)
	a.sched = scheduler.New() // one that can
	a.restart()
	a.own()
	b.request(events.RequestRetry, "q", "t1")
	a.run()
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
}

type unusable struct{ *scheduler.Scheduler }

func (*unusable) Prepare(string, []byte) error { return errDisk }

func TestAnOwnerReportsAllFaultsOfItsConfig(t *testing.T) {
	t.Parallel()
	_, err := supervisor.NewOwner(supervisor.Config{}, scheduler.New(), sim.NewStore())
	require.ErrorContains(t, err, "partition")
	require.ErrorContains(t, err, "name")
	require.ErrorContains(t, err, "random")
}

// TestTheFoldAfterEveryRecord is the replay property: a restart after any record of a run leads to the same state.
func TestTheFoldAfterEveryRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	b.submit("t2", "two", "")
	b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	a.run()
	b.done("t1", "first", 1)
	b.failed("t2", "first", 1, events.ClassPermanent, events.EffectDoneUnknown)
	a.run()
	b.done("t1", "second", 1)
	b.undone("t2", "first", 1)
	a.run()
	require.Equal(t, events.TaskStateUndone, b.task("t2").State)
	whole := append([]events.Record(nil), b.log...)
	for n := range whole {
		b.log = append([]events.Record(nil), whole[:n+1]...)
		c := b.candidate("C").own()
		c.run()
		sameEverywhere(t, b, c)
	}
}
