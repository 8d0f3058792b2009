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
		"no fact":           func(_ *bench, r *events.Record) { r.Headers = nil },
		"an unknown kind":   func(_ *bench, r *events.Record) { setHeader(r, events.HeaderType, events.TypePrefix+"Other") },
		"an impossible one": func(_ *bench, r *events.Record) { setHeader(r, events.HeaderType, events.TypePrefix+"TaskProcessed") },
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
			require.False(t, c.o.Owning(), "for good")
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

func TestAStateThatDiffersFromItsHashStopsThePartition(t *testing.T) {
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
	a.o.Loaded(b.now, a.o.Generation(), 0, errDisk)
	a.hold["Load"] = false
	a.todo = nil
	a.run()
	a.drain()
	gen := a.o.Generation()
	a.pass(time.Second)
	a.o.Loaded(b.now, gen, 0, nil)
	a.run()
	a.o.Claimed(b.now, a.o.Generation(), 0, errDisk)
	a.hold["Claim"] = false
	a.todo = nil
	for range 4 {
		a.pass(time.Second)
	}
	if !a.o.Owning() { // its Load was dropped above
		a.restart()
		a.own()
	}
	require.True(t, a.o.Owning())
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
	require.Len(t, held[supervisor.AskEnds](a), 1, "one question at a time")
	a.todo = nil
	a.o.Ends(b.now, q[0].Generation, q[0].Question, nil, errDisk)
	a.hold["AskEnds"] = false
	a.pass(100 * time.Millisecond)
	require.Equal(t, 1, count[*events.Timeout](b))
}

// TestAnAnswerToAQuestionFromBeforeDoesNotCount is reading/traces.md, E1.
func TestAnAnswerToAQuestionFromBeforeDoesNotCount(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t0", "one", "")
	a.run()
	a.hold["AskEnds"] = true
	a.pass(1010 * time.Millisecond) // t0 falls due and a question is asked
	q := held[supervisor.AskEnds](a)[0]
	ends := map[events.Input]int64{events.Reports: 0, events.Submissions: 1} // the broker's answer, of now
	b.submit("t1", "one", "")
	a.run()
	a.hold["reports"] = true
	b.now = b.now.Add(1500 * time.Millisecond)
	b.done("t1", "only", 1) // durable before t1's timer is looked at
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
	a.o.InputLost(b.now, a.o.Generation(), events.Reports, supervisor.ErrPosition)
	a.drain()
	require.ErrorIs(t, a.stopped, supervisor.ErrInputLost)
}

func TestAnExpressionThatFailsIsAPermanentFailureAndSendsNoWork(t *testing.T) {
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
			require.Equal(t, events.Undone, b.task("t1").State)
			sameEverywhere(t, b, a)
		})
	}
}

func TestADefinitionThatCannotBeUsedAnyMoreParksItsTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	a.sched = &unusable{scheduler.New()} // a process that cannot compile it
	a.restart()
	a.own()
	b.done("t1", "only", 1)
	b.submit("t2", "one", "")
	a.run()
	require.Equal(t, events.Parked, b.task("t1").State)
	require.Equal(t, events.RejectWorkflow, last[*events.InputRejected](b).Reason)
	a.sched = scheduler.New() // mended
	a.restart()
	a.own()
	b.request(events.RequestRetry, "q", "t1")
	a.run()
	require.Equal(t, events.Processed, b.task("t1").State)
}

type unusable struct{ *scheduler.Scheduler }

func (*unusable) Prepare(string, []byte) error { return errDisk }

func TestAnOwnerSaysWhatIsWrongWithItsConfiguration(t *testing.T) {
	t.Parallel()
	_, err := supervisor.NewOwner(supervisor.Config{}, scheduler.New(), sim.NewStore())
	require.ErrorContains(t, err, "partition")
	require.ErrorContains(t, err, "name")
	require.ErrorContains(t, err, "random")
}

// TestTheFoldAfterEveryRecord restarts after every record of a run and finds the same state (the replay property).
func TestTheFoldAfterEveryRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps)
	a := b.candidate("A").own()
	b.submit("t1", "two", "")
	b.submit("t2", "two", "")
	b.put(events.Submissions, events.Record{Value: []byte("garbage")})
	a.run()
	b.done("t1", "first", 1)
	b.failed("t2", "first", 1, events.ClassPermanent, "")
	a.run()
	b.done("t1", "second", 1)
	b.undone("t2", "first", 1)
	a.run()
	require.Equal(t, events.Undone, b.task("t2").State)
	whole := append([]events.Record(nil), b.log...)
	for n := range whole {
		b.log = append([]events.Record(nil), whole[:n+1]...)
		c := b.candidate("C").own()
		c.run()
		sameEverywhere(t, b, c)
	}
}
