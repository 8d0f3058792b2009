package supervisor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

func TestAnUnusableInputBecomesADeadLetterWithItsReason(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 600<<10)
	for name, c := range map[string]struct {
		r      events.Record
		in     events.Input
		reason string
	}{
		"no JSON":                        {events.Record{Value: []byte("{")}, events.Submissions, events.RejectUnreadable},
		"a tombstone":                    {events.Record{Key: []byte("t1")}, events.Submissions, events.RejectUnreadable},
		"no workflow":                    {events.Record{Value: []byte(`{"id":"t1"}`)}, events.Submissions, events.RejectInvalid},
		"no ID":                          {events.Record{Value: []byte(`{"workflow":"one"}`)}, events.Submissions, events.RejectInvalid},
		"two IDs":                        {events.Record{Key: []byte("t2"), Value: []byte(`{"id":"t1","workflow":"one"}`)}, events.Submissions, events.RejectInvalid},
		"unknown workflow":               {events.Record{Value: []byte(`{"id":"t1","workflow":"none"}`)}, events.Submissions, events.RejectUnknownWorkflow},
		"unknown version":                {events.Record{Value: []byte(`{"id":"t1","workflow":"one","version":9}`)}, events.Submissions, events.RejectUnknownWorkflow},
		"against the schema":             {events.Record{Value: []byte(`{"id":"t1","workflow":"strict","input":{}}`)}, events.Submissions, events.RejectSchema},
		"a number with a huge exponent":  {events.Record{Value: []byte(`{"id":"t1","workflow":"strict","input":{"n":1e1000000}}`)}, events.Submissions, events.RejectInvalid},
		"too large":                      {events.Record{Value: []byte(`{"id":"t1","workflow":"one","input":"` + big + `"}`)}, events.Submissions, events.RejectTooLarge},
		"unpacks to too much":            {events.Record{Unread: 1}, events.Submissions, events.RejectTooLarge},
		"a foreign type":                 {events.Record{Value: []byte(`{}`), Headers: []events.Header{{Key: events.HeaderType, Value: []byte("other")}}}, events.Reports, events.RejectInvalid},
		"a report of nothing":            {events.Record{Value: []byte(`{"task":"t1"}`)}, events.Reports, events.RejectInvalid},
		"a retry of no task":             {events.Record{Value: []byte(`{"id":"q","task":"t1"}`), Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.RequestRetry.Type())}}}, events.Reports, events.RejectRefused},
		"a request without an ID":        {events.Record{Value: []byte(`{"task":"t1"}`), Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.RequestCancel.Type())}}}, events.Reports, events.RejectInvalid},
		"a request whose ID is no UTF-8": {events.Record{Value: []byte(`{"task":"t1"}`), Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.RequestCancel.Type())}, {Key: events.HeaderID, Value: []byte("a\xff")}}}, events.Reports, events.RejectInvalid},
		"a request with a huge by":       {events.Record{Value: []byte(`{"id":"q","task":"t1","by":"` + big + `"}`), Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.RequestCancel.Type())}}}, events.Reports, events.RejectInvalid},
		"a request with a huge step":     {events.Record{Value: []byte(`{"id":"q","task":"t1","step":"` + big + `"}`), Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.RequestCancel.Type())}}}, events.Reports, events.RejectInvalid},
		"a request with a huge reason":   {events.Record{Value: []byte(`{"id":"q","task":"t1","reason":"` + big + `"}`), Headers: []events.Header{{Key: events.HeaderType, Value: []byte(events.RequestCancel.Type())}}}, events.Reports, events.RejectInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep, "workflow: strict\ninput: {type: object, required: [n]}\nsteps: {only: {agent: alpha}}\n")
			a := b.candidate("A").own()
			b.put(c.in, c.r)
			a.run()
			require.Equal(t, []string{"InputRejected"}, b.names())
			require.Equal(t, c.reason, last[*events.InputRejected](b).Reason)
			dead := a.sentTo("dlq." + string(c.in))
			require.Len(t, dead, 1)
			require.Equal(t, c.r.Value, dead[0].Value)
			require.Equal(t, c.r.Key, dead[0].Key)
			require.Equal(t, c.reason, dead[0].Header(supervisor.DeadReason))
			require.Equal(t, "0", dead[0].Header(supervisor.DeadOffset))
			sameEverywhere(t, b, a)
		})
	}
}

func TestAConflictingSubmissionIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", `,"input":{"a":1,"b":2}`)
	b.submit("t1", "one", ` ,"input":{"b":2, "a":1}`) // equal JSON
	b.submit("t1", "one", `,"input":{"a":2}`)
	a.run()
	require.Equal(t, 1, count[*events.Submitted](b))
	require.Equal(t, events.RejectConflict, last[*events.InputRejected](b).Reason)
	require.JSONEq(t, `{"a":1,"b":2}`, string(b.task("t1").Input))
}

func TestASubmissionUsesTheVersionAppliedBeforeIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.define(strings.Replace(oneStep, "complete_within: 1s", "complete_within: 9s", 1))
	b.submit("t2", "one", "")
	b.submit("t3", "one", `,"version":1`)
	b.put(events.Submissions, events.Record{Value: []byte(`{"id":"t4","workflow":"one"}`), Headers: []events.Header{{Key: events.HeaderDefinition, Value: []byte(b.versions[0].Hash)}}})
	a.run()
	for id, version := range map[string]int{"t1": 1, "t2": 2, "t3": 1, "t4": 1} {
		require.Equal(t, version, b.task(id).Version, id)
	}
	require.Equal(t, 2, count[*events.DefinitionAdopted](b))
}

func TestTheCatalogIsAskedForAfterTheInputWasRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.candidate("A").own()
	a.hold["AskCatalog"] = true
	b.submit("t1", "one", "")
	a.run()
	first := held[supervisor.AskCatalog](a)
	require.Len(t, first, 1)
	stale := append(versions(nil), b.versions...) // the definitions were asked for and answered before the next input was read
	b.define(oneStep)
	b.submit("t2", "one", "")
	a.run()
	a.todo = nil
	a.o.Definitions(b.now, first[0].Generation, first[0].Question, stale, nil)
	a.run()
	require.Equal(t, []string{"InputRejected"}, b.names(), "t1 came before the definition; t2 waits")
	a.hold["AskCatalog"] = false
	a.run()
	require.Equal(t, "t2", b.task("t2").ID)
}

func TestUnreadDefinitionsHoldUpOnlySubmissions(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	a.hold["AskCatalog"] = true
	b.submit("t2", "one", "")
	b.done("t1", "only", 1)
	a.run()
	q := held[supervisor.AskCatalog](a)[0]
	require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
	require.Zero(t, a.o.Status().Waiting, "it waits for something else than this owner")
	a.todo = nil
	a.o.Definitions(b.now, q.Generation, q.Question, nil, errDisk)
	again := held[supervisor.AskCatalog](a)
	require.Len(t, again, 1, "asked again")
	a.hold["AskCatalog"] = false
	a.run()
	require.Equal(t, 2, count[*events.Submitted](b))
}

// preparing is a scheduler that records which bodies it has prepared.
type preparing struct {
	*poisoned
	bodies []string
}

func (p *preparing) Prepared(string) bool { return false }

func (p *preparing) Prepare(hash string, body []byte) error {
	p.bodies = append(p.bodies, string(body))
	return p.poisoned.Prepare(hash, body)
}

func TestNewerDefaultsDoNotReplaceAnAdoptedDefinition(t *testing.T) {
	t.Parallel()
	b, p := newBench(t, oneStep), &preparing{poisoned: poison()}
	a := b.candidate("A", func(c *candidate) { c.sched = p }).own()
	b.submit("t1", "one", "")
	a.run()
	adopted := string(b.versions[0].Body)
	b.versions[0].Body = json.RawMessage(strings.Replace(adopted, `"complete_within":"1s"`, `"complete_within":"7s"`, 1)) // as if another version of Sagalog had filled in other defaults
	require.NotEqual(t, adopted, string(b.versions[0].Body))
	b.submit("t2", "one", "")
	a.run()
	for _, body := range p.bodies {
		require.Equal(t, adopted, body)
	}
}

func TestForwardedInputs(t *testing.T) {
	t.Parallel()
	home := events.Home("t1", 2)
	mark := func(at events.Instant) []events.Header {
		return []events.Header{{Key: events.HeaderForwardedFrom, Value: []byte("9/4")}, {Key: events.HeaderForwardedAt, Value: []byte(at.String())}}
	}
	submission := []byte(`{"id":"t1","workflow":"one"}`)
	for name, c := range map[string]struct {
		partition int32
		at        events.Instant
		want      string
	}{
		"at home":                                {home, start, "Submitted"},
		"still misplaced":                        {1 - home, start, events.RejectMisplaced},
		"older than the horizon":                 {home, start.Add(-8 * 24 * time.Hour), events.RejectMisplaced},
		"marked with a time that cannot be read": {home, 0, "Submitted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			b.partitions, b.partition = 2, c.partition
			a := b.candidate("A").own()
			b.put(events.Submissions, events.Record{Value: submission, Headers: mark(c.at)})
			a.run()
			if c.want == "Submitted" {
				require.Equal(t, "t1", b.task("t1").ID)
				return
			}
			require.Equal(t, []string{"InputRejected"}, b.names())
			require.Equal(t, c.want, last[*events.InputRejected](b).Reason)
		})
	}
}

func TestMisplacedReportsAndRequestsGoHome(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	b.partitions, b.partition = 2, 1-events.Home("t1", 2)
	a := b.candidate("A").own()
	b.done("t1", "only", 1)
	b.request(events.RequestCancel, "q1", "t1")
	a.run()
	require.Equal(t, []string{"InputForwarded", "InputForwarded"}, b.names())
	require.Len(t, a.sentTo("reports"), 2)
}

func TestACancelThatOvertakesItsTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.request(events.RequestCancel, "q1", "t1")
	b.request(events.RequestCancel, "q1", "t1") // a repeat
	b.request(events.RequestCancel, "q2", "t1")
	a.run()
	b.submit("t1", "one", "")
	a.run()
	require.Equal(t, []string{"RequestHeld", "RequestHeld", "Submitted", "CancelRequested", "RequestRefused", "TaskUndone"}, b.names())
	require.Empty(t, a.work(), "no step starts")
	b.request(events.RequestCancel, "q1", "t1")
	a.run()
	require.Len(t, b.names(), 6, "the repeat adds no fact")
}

func TestAHeldCancelExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.request(events.RequestCancel, "q1", "t1")
	a.run()
	a.hold["submissions"] = true
	b.submit("t1", "one", "") // durable before the expiry, but not judged yet
	a.pass(11 * time.Minute)
	a.pass(time.Second)
	require.Equal(t, []string{"RequestHeld"}, b.names())
	a.hold["submissions"] = false
	a.run()
	require.Equal(t, events.TaskStateUndone, b.task("t1").State)

	b.request(events.RequestCancel, "q2", "t2") // its task is never submitted
	a.run()
	a.pass(9 * time.Minute)
	require.Zero(t, count[*events.InputRejected](b))
	a.pass(2 * time.Minute)
	require.Equal(t, events.RejectExpired, last[*events.InputRejected](b).Reason)
	dead := a.sentTo("dlq.reports")
	require.Len(t, dead, 1)
	require.Equal(t, b.inputs[events.Reports][1].Value, dead[0].Value, "the bytes of the request, fetched again")
}

func TestHeldRequestsAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.Settings.HeldRequests = 2 }).own()
	for _, id := range []string{"t1", "t2", "t3"} {
		b.request(events.RequestCancel, "q", id)
	}
	a.run()
	require.Equal(t, []string{"RequestHeld", "RequestHeld", "InputRejected"}, b.names())
	require.Equal(t, events.RejectLimit, last[*events.InputRejected](b).Reason)
}

func TestRequestsOfAnOperator(t *testing.T) {
	t.Parallel()
	parked := func(b *bench, a *candidate) {
		b.submit("t1", "one", "")
		a.run()
		b.failed("t1", "only", 1, events.ClassPermanent, events.EffectNone)
		a.run()
		require.Equal(b.t, events.TaskStateError, b.task("t1").State)
	}
	for name, f := range map[string]func(t *testing.T, b *bench, a *candidate){
		"a retry reopens a parked task": func(t *testing.T, b *bench, a *candidate) {
			parked(b, a)
			b.request(events.RequestRetry, "q1", "t1")
			a.run()
			require.Equal(t, events.StepStateRunning, b.task("t1").Step("only").State)
			b.done("t1", "only", 2)
			a.run()
			require.Equal(t, events.TaskStateProcessed, b.task("t1").State)
			b.request(events.RequestRetry, "q2", "t1")
			a.run()
			require.Equal(t, events.RejectRefused, last[*events.InputRejected](b).Reason, "INV9")
		},
		"a retry of a step that waits starts it at once": func(t *testing.T, b *bench, a *candidate) {
			b.submit("t1", "one", "")
			a.run()
			b.failed("t1", "only", 1, events.ClassRetryable, events.EffectNone)
			a.run()
			require.Equal(t, events.StepStateWaiting, b.task("t1").Step("only").State)
			b.request(events.RequestRetry, "q1", "t1")
			a.run()
			require.Equal(t, 2, b.task("t1").Step("only").Attempt)
		},
		"a retry of a running step is refused": func(t *testing.T, b *bench, a *candidate) {
			b.submit("t1", "one", "")
			a.run()
			b.request(events.RequestRetry, "q1", "t1")
			a.run()
			require.Contains(t, last[*events.RequestRefused](b).Reason, "nothing can be retried")
		},
		"a retry that names another attempt is refused": func(t *testing.T, b *bench, a *candidate) {
			parked(b, a)
			r, err := events.EncodeRequest(events.Request{ID: "q1", Kind: events.RequestRetry, Task: "t1", Step: "only", Attempt: 7}, events.Subject{ID: "q1", Source: "/op"})
			require.NoError(t, err)
			b.put(events.Reports, r)
			a.run()
			require.Equal(t, `attempt 7 of step "only" is not the latest, which is 1`, last[*events.RequestRefused](b).Reason)
		},
		"a cancel of a parked task undoes it": func(t *testing.T, b *bench, a *candidate) {
			parked(b, a)
			b.request(events.RequestCancel, "q1", "t1")
			a.run()
			require.Equal(t, events.TaskStateUndone, b.task("t1").State, "there was nothing to undo")
		},
		"a cancel of a task that is parked in its undo is refused": func(t *testing.T, b *bench, a *candidate) {
			b.submit("t1", "one", "")
			a.run()
			b.request(events.RequestCancel, "q1", "t1")
			b.done("t1", "only", 1)
			a.run()
			for range 100 {
				if b.task("t1").State == events.TaskStateError {
					break
				}
				a.pass(time.Minute)
			}
			require.Equal(t, events.TaskStateUndoing, b.task("t1").ParkedFrom)
			b.request(events.RequestCancel, "q2", "t1")
			a.run()
			require.Equal(t, events.RefusedUndoParked, last[*events.RequestRefused](b).Reason)
		},
		"a cancel of an undoing task is refused": func(t *testing.T, b *bench, a *candidate) {
			b.submit("t1", "one", "")
			a.run()
			b.request(events.RequestCancel, "q1", "t1")
			b.request(events.RequestCancel, "q2", "t1")
			a.run()
			require.Equal(t, 1, count[*events.CancelRequested](b))
			require.Equal(t, &events.RequestRefused{Request: "q2", Verb: events.RequestCancel, Reason: events.RefusedUndoing}, last[*events.RequestRefused](b))
			facts := b.task("t1").Facts
			b.request(events.RequestCancel, "q2", "t1")
			a.run()
			require.Equal(t, 1, count[*events.RequestRefused](b), "the same request again is answered by the same fact")
			known, ok := b.task("t1").Request("q2")
			require.True(t, ok)
			require.Equal(t, events.RefusedUndoing, known.Refused)
			require.Equal(t, facts, b.task("t1").Facts)
			require.Zero(t, count[*events.InputRejected](b), "it is no dead letter")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep)
			a := b.candidate("A").own()
			f(t, b, a)
			sameEverywhere(t, b, a)
		})
	}
}

func TestLimitsBecomeFactsAndNeverProduceErrors(t *testing.T) {
	t.Parallel()
	small := func(c *candidate) { c.cfg.Settings.PayloadBytes, c.cfg.Settings.TaskFacts = 64, 8 }
	t.Run("the input of a step", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, oneStep)
		a := b.candidate("A", small).own()
		b.submit("t1", "one", `,"input":"`+strings.Repeat("x", 100)+`"`)
		a.run()
		require.Equal(t, events.TaskStateError, b.task("t1").State)
		require.Equal(t, events.ClassLimit, last[*events.StepFailed](b).Error.Class)
		require.Empty(t, a.work())
	})
	t.Run("the output of a step", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, oneStep)
		a := b.candidate("A", small).own()
		b.submit("t1", "one", "")
		a.run()
		b.report(events.Report{Task: "t1", Step: "only", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: json.RawMessage(`"` + strings.Repeat("x", 100) + `"`)})
		a.run()
		require.Equal(t, events.ClassLimit, last[*events.StepFailed](b).Error.Class)
		require.Equal(t, events.EffectDoneUnknown, last[*events.StepFailed](b).Effect)
	})
	t.Run("the output of the workflow", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, oneStep+"output: {all: \"${ [steps.only.output, steps.only.output, steps.only.output] }\"}\n")
		a := b.candidate("A", small).own()
		b.submit("t1", "one", "")
		a.run()
		b.report(events.Report{Task: "t1", Step: "only", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: json.RawMessage(`"` + strings.Repeat("x", 50) + `"`)})
		a.run()
		require.Equal(t, events.TaskStateError, b.task("t1").State)
		require.Contains(t, b.task("t1").Reason, "output")
	})
	t.Run("the facts of a task", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, strings.Replace(oneStep, "attempts: 2", "attempts: 100", 1))
		a := b.candidate("A", small).own()
		b.submit("t1", "one", "")
		a.run()
		for i := range 20 {
			b.failed("t1", "only", i+1, events.ClassRetryable, events.EffectNone)
			a.pass(30 * time.Second)
			a.pass(30 * time.Second)
		}
		require.Equal(t, events.TaskStateError, b.task("t1").State)
		require.Contains(t, b.task("t1").Reason, "task_facts")
		require.LessOrEqual(t, b.task("t1").Facts, 8+2, "the failure and the parking are allowed beyond the limit")
	})
}

func TestDataFromOutsideIsBounded(t *testing.T) {
	t.Parallel()
	small := func(c *candidate) { c.cfg.Settings.PayloadBytes = 64 }
	t.Run("a trace context", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, oneStep)
		a := b.candidate("A").own()
		for i, trace := range []string{strings.Repeat("x", 1<<20), "\xff"} {
			b.put(events.Submissions, events.Record{Value: []byte(`{"id":"t` + string(rune('1'+i)) + `","workflow":"one"}`), Headers: []events.Header{{Key: events.HeaderTraceparent, Value: []byte(trace)}}})
		}
		a.run()
		for i := range b.log {
			require.Less(t, b.log[i].Size(), 4<<10)
		}
		require.Empty(t, b.task("t1").Traceparent)
		require.Empty(t, b.task("t2").Traceparent)
	})
	t.Run("an error from an agent", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, oneStep)
		a := b.candidate("A", small).own()
		b.submit("t1", "one", "")
		a.run()
		long := strings.Repeat("é", 100_000)
		b.report(events.Report{Task: "t1", Step: "only", Operation: events.Do, Attempt: 1, Result: events.ResultFailed, Instance: long, Error: &events.Error{Class: "odd", Code: long, Message: long, Detail: json.RawMessage(`"` + long + `"`)}})
		a.run()
		f := last[*events.StepFailed](b)
		require.Equal(t, events.ClassRetryable, f.Error.Class)
		require.Empty(t, f.Error.Detail)
		for i := range b.log {
			require.Less(t, b.log[i].Size(), 16<<10)
		}
	})
}

func TestOutcomesOfEndedAttemptsMakeNoFacts(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	b.submit("t1", "one", "")
	a.run()
	b.done("none", "only", 1)
	b.done("t1", "only", 2)
	b.done("t1", "other", 1)
	b.undone("t1", "only", 1)
	b.report(events.Report{Task: "t1", Run: 2, Step: "only", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted})
	a.run()
	require.Equal(t, []string{"Submitted", "StepStarted"}, b.names())
	b.done("t1", "only", 1)
	b.failed("t1", "only", 1, events.ClassPermanent, "")
	a.run()
	require.Equal(t, []string{"Submitted", "StepStarted", "StepCompleted", "TaskProcessed"}, b.names(), "INV7: the first outcome wins")
	s, _, _ := b.read()
	require.EqualValues(t, len(b.inputs[events.Reports]), s.Partition.Inputs[events.Reports].Next)
}

func TestInputsWithoutFactsArePassed(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.PassEvery = 10 }).own()
	b.submit("t1", "one", "")
	a.run()
	a.hold["Append"] = true
	for range 35 {
		b.submit("t1", "one", "")
	}
	b.put(events.Submissions, events.Record{Control: true})
	a.run()
	require.NotEmpty(t, held[supervisor.Append](a))
	a.hold["Append"] = false
	a.run()
	s, _, _ := b.read()
	require.EqualValues(t, 37, s.Partition.Inputs[events.Submissions].Next)
	b.done("t1", "only", 1)
	a.run()
	n := len(b.log)
	for range 10 {
		a.pass(2 * time.Second)
	}
	require.LessOrEqual(t, len(b.log), n+3, "an idle partition stops writing")
}
