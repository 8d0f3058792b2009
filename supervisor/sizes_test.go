package supervisor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// recordBytes is the limit of a fact in the tests of this file.
const recordBytes = 3000

// small makes the log of a candidate take facts of recordBytes only.
func small(c *candidate) { c.cfg.RecordBytes = recordBytes }

// pad is a JSON string of some bytes.
func pad(n int) json.RawMessage { return json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", n))) }

// fits checks that every fact in the log is within the limit, and that no epoch ended.
func fits(t *testing.T, a *candidate) {
	t.Helper()
	for i := range a.b.log {
		require.LessOrEqual(t, a.b.log[i].Size(), recordBytes)
	}
	require.NoError(t, a.stopped)
	require.EqualValues(t, 1, a.o.Status().Stats.Epochs)
}

func TestASubmissionWhoseFactDoesNotFitIsRejected(t *testing.T) {
	t.Parallel()
	large := strings.Replace(oneStep, "workflow: one", "workflow: large\noutput: "+strings.Repeat("x", recordBytes), 1)
	for name, submit := range map[string]func(b *bench){
		"the task":       func(b *bench) { b.submit("t1", "one", `,"input":`+string(pad(recordBytes))) },
		"the definition": func(b *bench) { b.submit("t1", "large", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, oneStep, large)
			a := b.candidate("A", small).own()
			submit(b)
			b.submit("t2", "one", "")
			a.run()
			require.Equal(t, events.RejectTooLarge, last[*events.InputRejected](b).Reason)
			require.Len(t, a.sentTo("dlq.submissions"), 1)
			require.Equal(t, events.TaskStateProcessing, b.task("t2").State)
			fits(t, a)
		})
	}
}

func TestAReportWhoseFactDoesNotFitParksItsTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A", small).own()
	b.submit("t1", "one", "")
	a.run()
	b.report(events.Report{Task: "t1", Run: 1, Step: "only", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: pad(recordBytes)})
	a.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	require.Contains(t, b.task("t1").Reason, "StepCompleted would have")
	fits(t, a)
}

// The undo of a step carries what its do got and what it returned.
func TestAnUndoWhoseFactDoesNotFitParksItsTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(twoSteps, "first: {", `first: {with: "${ input }", `, 1))
	a := b.candidate("A", small).own()
	b.submit("t1", "two", `,"input":`+string(pad(recordBytes/2)))
	a.run()
	b.report(events.Report{Task: "t1", Run: 1, Step: "first", Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: pad(recordBytes / 2)})
	a.run()
	b.failed("t1", "second", 1, events.ClassPermanent, events.EffectNone)
	a.run()
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	require.Contains(t, b.task("t1").Reason, "CompensationStarted would have")
	fits(t, a)
}

func TestAnOutputWhoseFactDoesNotFitParksItsTask(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoSteps+"output: {a: \"${ steps.first.output }\", b: \"${ steps.second.output }\"}\n")
	a := b.candidate("A", small).own()
	b.submit("t1", "two", "")
	a.run()
	for _, step := range []string{"first", "second"} {
		b.report(events.Report{Task: "t1", Run: 1, Step: step, Operation: events.Do, Attempt: 1, Result: events.ResultCompleted, Output: pad(recordBytes / 2)})
		a.run()
	}
	require.Equal(t, events.TaskStateError, b.task("t1").State)
	require.Contains(t, b.task("t1").Reason, "TaskProcessed would have")
	fits(t, a)
}

// An operator has set the limit of the topic below what a batch takes. The owner says so, and does not claim four times a second.
func TestAnOwnerWhoseBatchIsTooLargeWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.tooLarge = true
	b.submit("t1", "one", "")
	a.run()
	for range 60 {
		a.pass(time.Second)
		require.NoError(t, a.stopped)
	}
	require.LessOrEqual(t, a.o.Status().Stats.Epochs, uint64(4))
	require.ErrorIs(t, a.o.Status().Refused, events.ErrTooLarge)
	a.tooLarge = false
	for range 40 {
		a.pass(time.Second)
	}
	require.NoError(t, a.o.Status().Refused)
	require.Equal(t, "t1", b.task("t1").ID)
}

// What was too large is not appended any more: here the topic was recreated without it.
func TestARefusalIsOverWhenNothingIsLeftToAppend(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.tooLarge = true
	b.submit("t1", "one", "")
	a.run()
	require.ErrorIs(t, a.o.Status().Refused, events.ErrTooLarge)
	b.inputs[events.Submissions] = nil
	for range 33 {
		a.pass(time.Second)
	}
	require.True(t, a.o.Status().Owning)
	require.ErrorIs(t, a.o.Status().Refused, events.ErrTooLarge, "the inputs may not be read yet")
	a.pass(5 * time.Second)
	require.NoError(t, a.o.Status().Refused)
}

func TestAnOwnerThatGaveUpKeepsNoRefusal(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.tooLarge = true
	b.submit("t1", "one", "")
	a.run()
	a.o.Revoke(b.now)
	require.NoError(t, a.o.Status().Refused)
}

func TestADeadLetterThatIsRefusedForItsSizeIsCut(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.refuseAs = events.ErrTooLarge
	a.refuse = func(s supervisor.Send) bool { return s.Topic == "dlq.submissions" && s.Record.Size() > 1000 }
	b.put(events.Submissions, events.Record{Key: []byte("t1"), Value: pad(recordBytes), Headers: []events.Header{{Key: supervisor.DeadTopic, Value: pad(2000)}}})
	a.run()
	require.Empty(t, a.sentTo("dlq.submissions"))
	a.pass(10 * time.Second)
	letters := a.sentTo("dlq.submissions")
	require.Len(t, letters, 1)
	require.Equal(t, "sagalog.submissions", letters[0].Header(supervisor.DeadTopic))
	require.Equal(t, fmt.Sprint(recordBytes+2), letters[0].Header(events.HeaderCut))
}

// A new owner takes over more than fits in one page. It sends all of it again, and owns only when it has seen all of it.
func TestATakeOverReadsInPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	a := b.candidate("A").own()
	a.hold["Send"] = true
	for i := range 10 {
		b.submit(fmt.Sprintf("t%d", i), "one", "")
		b.put(events.Submissions, events.Record{Value: []byte("{")})
	}
	a.run()
	c := b.candidate("C", func(c *candidate) { c.page = 3 }).own()
	require.Greater(t, c.pages, 5)
	require.Len(t, c.sentTo("dlq.submissions"), 10)
	require.Len(t, c.sentTo("work.alpha"), 10)
}

// Large dead letters that nobody takes stay in the log and not in memory, with the first owner and with the next.
func TestLargeEffectsThatNobodyTakesAreBounded(t *testing.T) {
	t.Parallel()
	const room, size, many = 64 << 10, 8 << 10, 200
	b := newBench(t, oneStep)
	limited := func(c *candidate) { c.cfg.UnacknowledgedBytes = room }
	a := b.candidate("A", limited).own()
	dead := func(s supervisor.Send) bool { return s.Kind == events.EffectDeadLetter }
	a.silent = dead
	for i := range many {
		b.put(events.Submissions, events.Record{Value: pad(size)})
		b.submit(fmt.Sprintf("t%03d", i), "one", "")
		a.run()
		if i == 4 {
			a.pass(time.Second) // the dead letters are delayed from here on
		}
	}
	require.Equal(t, many, count[*events.InputRejected](b))
	require.Equal(t, many, count[*events.Submitted](b), "everything else goes on")
	require.Less(t, a.o.Status().UnsentBytes, room+9*size)
	s, _, _ := b.read()
	require.Contains(t, s.Partition.Delayed, "dlq.submissions")

	c := b.candidate("C", limited)
	c.silent = dead
	c.own()
	for range 30 {
		c.pass(time.Second)
		require.Less(t, c.o.Status().UnsentBytes, room+9*size)
	}
	c.silent = nil
	for _, s := range c.unanswered {
		c.sent = append(c.sent, s)
		c.o.Sent(b.now, s.Generation, s.ID, nil)
	}
	c.run()
	require.Len(t, c.sentTo("dlq.submissions"), many, "all of them get there in the end")
}

// Of the requests for an agent whose topic takes nothing, most wait in the log and not in memory. No broker has those either.
func TestWorkThatWaitsInTheLogIsUnacknowledged(t *testing.T) {
	t.Parallel()
	const many = 20
	b := newBench(t, oneStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.UnacknowledgedBytes, c.cfg.DelayAfter = 16<<10, 500*time.Millisecond }).own()
	a.silent = silentPartition(0)
	b.submit("first", "one", "")
	a.run()
	a.pass(900 * time.Millisecond)
	for i := range many {
		b.submit(fmt.Sprintf("t%02d", i), "one", "")
	}
	a.run()
	require.Equal(t, many+1, count[*events.StepStarted](b))
	s, _, _ := b.read()
	require.Contains(t, s.Partition.Delayed, "work.alpha")
	require.Less(t, a.o.Status().Unsent, many)
	a.pass(1100 * time.Millisecond)
	_, accepted, _ := b.read()
	timeouts := 0
	for _, f := range accepted {
		if x, ok := f.Body.(*events.Timeout); ok {
			timeouts++
			require.True(t, x.Verdict.Uncounted, "%s: %s", f.Task, x.Verdict.Reason)
		}
	}
	require.Equal(t, many+1, timeouts)
}

func TestABatchThatEndedProcessesIsRejectedAsAWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, oneStep)
	at := b.put(events.Submissions, events.Record{Unread: 5})
	for range 4 {
		b.put(events.Submissions, events.Record{Unread: 1})
	}
	suspect := supervisor.Suspect{Input: events.CauseInput(events.Submissions, 0, at), Hash: events.HashInput(&b.inputs[events.Submissions][0]), Ended: 3}
	b.candidate("A", func(c *candidate) {
		c.cfg.Marked = supervisor.Mark{Owning: true, Suspects: []supervisor.Suspect{suspect}}
	}).own().pass(2 * time.Second)
	r := last[*events.InputRejected](b)
	require.Equal(t, events.RejectEnded, r.Reason)
	require.Equal(t, at+4, r.Last)
}

// Repeats of submissions make the owner look at tasks that it changes nothing about.
func TestTasksThatAreOnlyLookedAtAreBoundedByTheirBytes(t *testing.T) {
	t.Parallel()
	const size, many, room = 8 << 10, 50, 64 << 10
	b := newBench(t, longStep)
	a := b.candidate("A", func(c *candidate) { c.cfg.TaskBytes = room }).own()
	for range 2 {
		for i := range many {
			b.submit(fmt.Sprintf("t%02d", i), "long", fmt.Sprintf(`,"input":{"text":%s}`, pad(size)))
		}
		a.run()
		a.pass(time.Second)
		require.Less(t, a.o.Status().InMemory, room/size+1)
		a.restart()
		a.own()
	}
	require.Equal(t, many, count[*events.Submitted](b))
}

// An owner holds whole tasks in memory, so no step of a task starts while what it holds is too much. It can be undone.
func TestATaskThatHoldsTooMuchIsParked(t *testing.T) {
	t.Parallel()
	b := newBench(t, "workflow: one\nsteps: {send: {agent: alpha, for: {each: \"${ input }\"}, with: 1, undo: {}}}\n")
	a := b.candidate("A", func(c *candidate) { c.cfg.Settings.PayloadBytes = 64 }).own()
	b.submit("t1", "one", `,"input":[`+strings.Repeat("1,", 499)+`1]`)
	a.run()
	done := 0
	for ; b.task("t1").State != events.TaskStateError && done < 500; done++ {
		b.done("t1", fmt.Sprintf("send[%d]", done), 1)
		a.run()
		a.pass(time.Second) // the store is written
	}
	require.Contains(t, b.task("t1").Reason, "no step starts beyond 16384, which is 256 times payload_bytes")
	require.Less(t, done, 200)
	b.request(events.RequestCancel, "c1", "t1")
	for range done + 20 {
		a.run()
		for _, s := range b.task("t1").Live() {
			switch {
			case s.State == events.StepStateRunning:
				b.failed("t1", s.Path, 1, events.ClassPermanent, events.EffectNone)
			case s.Undo != nil && s.Undo.State == events.StepStateRunning:
				b.undone("t1", s.Path, 1)
			}
		}
	}
	require.Equal(t, events.TaskStateUndone, b.task("t1").State, "undos have no such limit")
}
