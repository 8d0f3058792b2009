package verify

import (
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

// story is a live task according to the log.
type story struct {
	// began is where the schedule began that started the task, and stranger says that a later one of its name asks in vain.
	began    int64
	stranger bool
	// parent is that of a child, and asked the number of the latest request of it to undo the task.
	parent *events.ParentLink
	asked  int
	// tries are those of its steps whose children it has not released.
	tries map[string][]try
	id    string
	// incarnation is the position of its Submitted: the ticket of all its work.
	incarnation string
	workflow    string
	def         *definition
	accepted    int64 // offset of its Submitted
	at          int64 // offset of its latest fact
	time        events.Instant
	number      int // how many facts the partition had accepted by then
	submittedAt events.Instant
	deadline    events.Instant
	// deadlineWithin is how long it had until its deadline when it could begin.
	deadlineWithin time.Duration
	early          early
	soft           soft
	expired        bool
	back           bool // it turned back: undoing
	parked         bool
	parkDue        bool
	parkedAt       events.Instant
	paused         bool
	haltedAt       events.Instant // since when it is parked or paused: the deadline counts on from there
	reopenedAt     events.Instant // when the deadline was moved
	reminders      int
	remindAt       events.Instant // zero if no reminder is to come
	quiet          events.Instant
	completed      int
	requests       map[string]bool // those that were judged
	kept           []kept
	permit         *permit // nil if it needs none
	limits         stepPermits
	cancelHeld     bool
	steps          []*step
	stepIndex
	end events.Name
	// run is the latest run, and again what runs once more when it is undone. earlier counts the attempts of steps in earlier runs.
	run     int
	again   *again
	earlier map[string]earlier
	undos   map[string]*afterUndos // by step: what outlasts its runs
}

// work is the do or the undo of a step.
type work struct {
	agent                 string
	attempts, earlier     int // in all runs, and before this one
	running               bool
	waiting               bool
	waitsFor              events.Waiting // for what it waits until retryAt
	started               int64          // offset of the running attempt's start
	position              events.Position
	startedAt, completeBy events.Instant
	heartbeat             events.Duration // zero if the running attempt need not show progress
	capBy, progressedAt   events.Instant
	retryAt               events.Instant
	askedAt               events.Instant // when another attempt was asked for
	startBy, timedFrom    events.Instant // when no attempt starts any more, and since when the time until then counts
	child                 string         // the task that makes the running attempt, "" if an agent does
	cancelled             bool           // which was asked to turn back
}

type step struct {
	id              string
	run             int
	do, undo        work
	items           *items // nil unless it is a fan-out
	of              *step  // the fan-out of which it is an item, nil if it is not one
	closed          bool   // an item of which nothing becomes but that it is undone
	pivot, undoable bool
	touched         bool // some attempt may have had an effect
	done, skipped   bool
	queued          bool // it must start in time, and has not started
	continued       bool // its time was over, and the task went on without it
	undone          bool
	undoFailed      bool
	failed          bool
	wait            *wait // nil unless it waits, and nobody does it
	soft            soft
	completion      int
	// doneAt and undoneAt are when an agent reported that it did or undid it; zero if it waited, or an operator decided.
	doneAt, undoneAt events.Instant
	given            map[events.Operation][]byte // the inputs that an operator gave
}

// over says whether the steps that need this one may start.
func (st *step) over() bool { return st != nil && (st.done || st.skipped || st.continued) }

// work returns the step's do or its undo.
func (st *step) work(op events.Operation) *work {
	if op == events.Undo {
		return &st.undo
	}
	return &st.do
}

// unmet returns the first step needed by a step that is not over yet, or "".
func (s *story) unmet(r *stepRule) string {
	for _, need := range r.Needs {
		if !s.step(need).over() {
			return need
		}
	}
	return ""
}

func (s *story) open(id string) *step {
	st := s.step(id)
	if st == nil {
		before := s.earlier[id]
		st = &step{id: id, run: s.run, do: work{attempts: before.do, earlier: before.do}, undo: work{attempts: before.undo, earlier: before.undo}}
		s.add(st)
	}
	return st
}

func (s *story) running() (*step, events.Operation) {
	for _, st := range s.steps {
		if st.do.running {
			return st, events.Do
		}
		if st.undo.running {
			return st, events.Undo
		}
	}
	return nil, ""
}

// telling is a fact of a task while it is being added to the task's story.
type telling struct {
	*partition
	*story
	fact  *events.Fact
	place Place
}

func (t *telling) wrong(check, kind, step, format string, args ...any) {
	t.book.add(Finding{Check: check, Kind: kind, Place: t.place, Task: t.story.id, Step: step, What: fmt.Sprintf(format, args...)})
}

// tell adds an accepted fact of a live task.
func (t *telling) tell() {
	last := t.story.time
	usesPermit(t, t.fact.Body)
	t.story.at, t.story.time, t.story.number = t.place.Offset, max(t.story.time, t.fact.Time), t.partition.accepted
	switch b := t.fact.Body.(type) {
	case *events.StepQueued:
		t.queued(b)
	case *events.StepStarted:
		t.started(b)
	case *events.StepProgressed:
		t.progressed(b)
	case *events.WaitStarted, *events.FanOutStarted:
		waits(t)
	case *events.SignalReceived:
		signalled(t, b)
	case *events.ChildAsked, *events.ChildUndoRequested:
		relative(t, last)
	case *events.PermitAsked, *events.PermitGranted, *events.PermitReleased, *events.PermitBlocked:
		permitted(t)
	case *events.StepCompleted:
		t.finished(b)
	case *events.StepFailed:
		t.failed(b)
	case *events.Timeout:
		t.timeout(b)
	case *events.StepSkipped:
		t.skipped(b)
	case *events.CompensationStarted:
		t.undoStarted(b)
	case *events.Compensated:
		compensated(t, b)
	case *events.CompensationFailed:
		if b.Request != "" {
			t.requested(b.Request)
		}
		t.undoFailed(b)
	case *events.CancelRequested, *events.RequestRefused, *events.TaskPaused, *events.TaskResumed, *events.TaskTerminated:
		t.answered()
	case *events.NotBeforePassed:
		begins(t, b)
	case *events.SoftLimitPassed:
		softPassed(t, b)
	case *events.DeadlinePassed:
		t.deadlinePassed(b)
	case *events.TaskParked:
		if !t.parked {
			t.parkedAt, t.reminders = t.fact.Time, 0
			t.halt()
			t.remindLater()
		}
		t.parked, t.parkDue = true, false
	case *events.TaskReminded:
		t.reminded(b)
	case *events.TaskReopened:
		t.reopened(b)
	case *events.TaskRerun, *events.RunBegun:
		rerunning(t, last)
	case *events.TaskProcessed:
		t.processed(b)
	case *events.TaskUndone:
		t.wasUndone(b)
	case *events.TimeCorrected:
		t.corrected(b.To, last)
	case *events.EffectFailed:
		unsent(t, b)
	default:
		t.wrong(CheckAttempts, "unknown_fact", "", "%s is not a fact of a task", t.fact.Body.Name())
	}
	follow(t.story, t.fact.Body)
}

// unsent ends an attempt whose work request is given up.
func unsent(t *telling, b *events.EffectFailed) {
	if b.Failed != nil {
		t.failed(b.Failed)
	} else if b.CompensationFailed != nil {
		t.undoFailed(b.CompensationFailed)
	}
}

// begin records the start of an attempt.
func (t *telling) begin(w *work, o starting) {
	switch {
	case w.running:
		t.wrong(CheckAttempts, "two_at_once", o.step, "attempt %d of the %s begins while attempt %d runs", o.attempt, o.op, w.attempts)
	case o.attempt != w.attempts+1:
		t.wrong(CheckAttempts, "attempt_numbers", o.step, "attempt %d of the %s begins after attempt %d", o.attempt, o.op, w.attempts)
	case w.made() > 0 && !w.waiting:
		t.wrong(CheckAttempts, "not_asked_for", o.step, "attempt %d of the %s begins although no verdict and no operator asked for another", o.attempt, o.op)
	case w.retryAt > t.fact.Time:
		t.wrong(CheckAttempts, "too_early", o.step, "attempt %d of the %s begins at %s, before the %s that the verdict gave", o.attempt, o.op, t.fact.Time, w.retryAt)
	}
	if o.completeBy == 0 && o.child == "" {
		t.wrong(CheckMovers, "no_complete_by", o.step, "attempt %d of the %s has no complete-by time, so nothing would end it", o.attempt, o.op)
	}
	if o.run = events.RunOf(o.run); o.run != t.step(o.step).run {
		t.wrong(CheckAttempts, "wrong_run", o.step, "attempt %d of the %s begins in run %d, but the step is of run %d", o.attempt, o.op, o.run, t.step(o.step).run)
	}
	t.limits(w, o)
	*w = work{agent: o.agent, startBy: o.startBy, timedFrom: w.timedFrom, attempts: o.attempt, earlier: w.earlier, running: true, started: t.place.Offset, position: t.fact.Position(), startedAt: t.fact.Time, completeBy: o.completeBy}
	if w.child = o.child; w.child == "" {
		t.expectWork(t.fact, t.story)
	}
	t.partition.count.Attempts++
}

type starting struct {
	step       string
	op         events.Operation
	agent      string
	attempt    int
	run        int
	completeBy events.Instant
	startBy    events.Instant
	child      string
}

func (t *telling) started(b *events.StepStarted) {
	st := t.open(b.Step)
	r := t.def.step(b.Step)
	switch {
	case r == nil:
		t.wrong(CheckAttempts, "unknown_step", b.Step, "the definition of workflow %s has no such step", t.workflow)
	case r.call(events.Do) != b.Call() || r.Pivot != b.Pivot || (r.Undo != nil) != b.Undoable:
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "its start (%s, pivot %t, undoable %t) differs from its definition", b.Call(), b.Pivot, b.Undoable)
	}
	if r != nil {
		if need := t.unmet(r); need != "" {
			t.wrong(CheckAttempts, "needs", b.Step, "it starts before step %s, which it needs, is over (INV6)", need)
		}
	}
	if st.of == nil && r.fans() {
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "an attempt of it starts, and by its definition only its items have attempts")
	}
	if t.stands() {
		t.wrong(CheckAttempts, "start_not_forward", b.Step, "it starts although the task is %s", t.state())
	}
	if st.over() {
		t.wrong(CheckAttempts, "start_again", b.Step, "it starts again although it is over")
	}
	needsPermit(t, b.Step)
	waitedForUndos(t, b)
	startsWithGiven(t, st, events.Do, b.Input)
	st.pivot, st.undoable, st.failed, st.queued = b.Pivot, b.Undoable, false, false
	t.begin(&st.do, starting{b.Step, events.Do, b.Agent, b.Attempt, b.Run, b.CompleteBy, b.StartBy, childOf(b.Child)})
	startsChild(t, r, b)
	mustBeat(t, st, r, b)
	beginSoft(t, st, b.RemindAfter)
}

func (s *story) state() string {
	switch {
	case s.paused:
		return "paused"
	case s.parked:
		return "parked"
	case s.back:
		return "being undone"
	case s.early.until != 0:
		return "waiting for its time"
	}
	return "processing"
}

func (t *telling) finished(b *events.StepCompleted) {
	if b.Request != "" {
		t.completedByHand(b)
		return
	} else if b.Attempt == 0 {
		woke(t, b)
		return
	}
	st := t.outcome(b.Step, events.Do, b.Attempt)
	if st == nil {
		return
	}
	saysOfChild(t, b.Step, events.Do, b.Attempt)
	t.story.completed++
	st.completion, st.done, st.touched, st.doneAt = t.story.completed, true, true, t.fact.Time
	if st.do.child != "" {
		sure(t, st, events.Do, b.QuietAt)
		return
	}
	if twice := st.do.position.Epoch != t.fact.Epoch; b.QuietAt < st.do.lastEnd() && (b.QuietAt != 0 || twice && st.undoable) {
		t.wrong(CheckUndo, "doubt_too_short", b.Step, "attempt %d was sent in two epochs or is in doubt, but its undo waits until %s, before its end %s", b.Attempt, b.QuietAt, st.do.lastEnd())
	}
	t.quiet = max(t.quiet, b.QuietAt)
}

// outcome records the one outcome of a running attempt; it returns nil if the attempt is not running (INV7).
func (t *telling) outcome(id string, op events.Operation, attempt int) *step {
	st := t.step(id)
	if st == nil {
		t.wrong(CheckAttempts, "outcome_of_nothing", id, "%s of attempt %d of the %s, of a step that never started", t.fact.Body.Name(), attempt, op)
		return nil
	}
	w := st.work(op)
	switch {
	case attempt <= w.earlier || attempt > w.attempts:
		t.wrong(CheckAttempts, "outcome_of_nothing", id, "%s of attempt %d of the %s, which was never started (INV7)", t.fact.Body.Name(), attempt, op)
		return nil
	case attempt < w.attempts || !w.running:
		t.wrong(CheckAttempts, "second_outcome", id, "%s of attempt %d of the %s, which has its outcome already (INV7)", t.fact.Body.Name(), attempt, op)
		return nil
	}
	w.running = false
	return st
}

func (t *telling) failed(b *events.StepFailed) {
	if b.Request != "" {
		t.requested(b.Request)
	}
	var st *step
	if b.Attempt == 0 { // before any work was sent
		st = t.open(b.Step)
		if st.over() || st.do.running {
			t.wrong(CheckAttempts, "outcome_of_nothing", b.Step, "it fails before its start although it has started")
			return
		}
		if b.Signal != "" {
			takes(t, st, b.Signal, b.Output)
		}
	} else {
		if st = t.outcome(b.Step, events.Do, b.Attempt); st == nil {
			return
		}
		saysOfChild(t, b.Step, events.Do, b.Attempt)
		st.touched = st.touched || b.Effect != events.EffectNone
		if st.do.child != "" {
			sure(t, st, events.Do, b.QuietAt)
			if b.Effect == events.EffectNone {
				t.settle(b.Step)
			}
		}
		if b.Effect == events.EffectInDoubt && b.QuietAt < st.do.lastEnd() {
			t.wrong(CheckUndo, "doubt_too_short", b.Step, "attempt %d is in doubt until %s, before its end %s", b.Attempt, b.QuietAt, st.do.lastEnd())
		}
		t.quiet = max(t.quiet, b.QuietAt)
		checkRefused(t, b)
	}
	t.obey(st, b.Verdict)
}

// obey applies the verdict on a failed do.
func (t *telling) obey(st *step, v events.Verdict) {
	st.failed, st.do.waiting, st.queued, st.wait = true, false, false, nil
	switch v.Action {
	case events.ActionRetry, events.ActionCoolDown:
		st.do.waitsFor = events.WaitingAgain(failure(t.fact.Body), v.Action == events.ActionCoolDown)
		st.do.waiting, st.do.retryAt, st.do.askedAt, st.failed = true, v.At, t.fact.Time, false
		if v.At == 0 {
			t.wrong(CheckMovers, "no_retry_time", st.id, "its verdict asks for another attempt, but names no time")
		}
	case events.ActionUndo:
		mustTolerate(t, st)
		t.turn("the failure of step " + st.id + " undoes the task")
	case events.ActionPark:
		mustTolerate(t, st)
		t.parkDue = t.parkDue || !t.parked
	case events.ActionContinue:
		st.failed, st.continued = false, true
		if st.of != nil {
			tolerates(t, st)
		} else if r := t.def.step(st.id); r == nil || r.OnTimeout != string(v.Action) || r.Pivot {
			t.wrong(CheckAttempts, "not_as_defined", st.id, "the task goes on without it, but its definition does not say on_timeout: continue")
		}
	default:
		t.wrong(CheckAttempts, "no_verdict", st.id, "its verdict %q is unknown", v.Action)
	}
}

func (t *telling) skipped(b *events.StepSkipped) {
	if b.Why == events.SkipOperator {
		t.skippedByHand(b)
		return
	}
	st := t.open(b.Step)
	r := t.def.step(b.Step)
	switch {
	case t.paused:
		t.wrong(CheckAttempts, "skipped_paused", b.Step, "it is skipped while the task is paused")
	case st.do.made() > 0 || st.done || st.wait != nil:
		t.wrong(CheckAttempts, "skipped_late", b.Step, "it is skipped after attempt %d", st.do.attempts)
	case r == nil:
		t.wrong(CheckAttempts, "unknown_step", b.Step, "the definition of workflow %s has no such step", t.workflow)
	case b.Why == events.SkipCondition && r.If == "":
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "it is skipped by a condition, but its definition has none")
	}
	if r != nil {
		if need := t.unmet(r); need != "" {
			t.wrong(CheckAttempts, "needs", b.Step, "it is skipped before step %s, which it needs, is over", need)
		}
	}
	st.skipped, st.failed, st.do.waiting = true, false, false
}

func (t *telling) processed(b *events.TaskProcessed) {
	released(t, b.Release)
	answersParent(t, b.Answers)
	t.end = t.fact.Body.Name()
	if t.stands() {
		t.wrong(CheckAttempts, "ended_wrongly", "", "it ends processed although it is %s", t.state())
	}
	for i := range t.def.Steps {
		if id := t.def.Steps[i].ID; !t.step(id).over() {
			t.wrong(CheckAttempts, "ended_early", id, "the task ends processed, but this step is not over")
		}
	}
	noneRuns(t)
}

func noneRuns(t *telling) {
	if st, op := t.running(); st != nil {
		t.wrong(CheckAttempts, "ended_early", st.id, "the task ends with %s while an attempt of the %s runs", t.end, op)
	}
}
