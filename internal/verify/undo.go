package verify

import "github.com/sagalog/sagalog/events"

// mustUndo says whether a step has to be undone: it can be, and not every attempt of it was reported to have had no
// effect (docs/protocol.md, "Undo").
func (st *step) mustUndo() bool { return st.undoable && st.touched && !st.undone }

// turn makes the task undo, unless it is undoing already. why is the reason.
func (t *telling) turn(why string) {
	if t.back {
		return
	}
	if st := t.pivot(); st != nil {
		t.wrong(CheckUndo, "behind_the_pivot", st.id, "%s although its pivot is under way, or of unknown outcome, or completed", why)
	}
	for _, st := range t.steps {
		if st.do.waiting || st.queued || st.wait != nil || st.fans() {
			st.do.waiting, st.queued, st.wait, st.failed = false, false, nil, true
		}
	}
	t.back, t.parked, t.parkDue, t.early.until = true, false, false, 0
	if !t.paused {
		t.haltedAt = 0
	}
}

// pivot returns the pivot if it may have had an effect, nil otherwise.
func (s *story) pivot() *step {
	for _, st := range s.steps {
		if st.pivot && (st.touched || st.do.running) {
			return st
		}
	}
	return nil
}

func (t *telling) undoStarted(b *events.CompensationStarted) {
	st := t.open(b.Step)
	t.mayUndo(st)
	startsWithGiven(t, st, events.Undo, b.Input)
	if r := t.def.step(b.Step); r != nil && r.Undo != nil {
		if want := r.call(events.Undo); want != b.Call() {
			t.wrong(CheckUndo, "not_as_defined", b.Step, "its undo is the %s, but its definition asks for the %s", b.Call(), want)
		}
	}
	undoesChild(t, t.def.step(b.Step), b)
	t.begin(&st.undo, starting{b.Step, events.Undo, b.Agent, b.Attempt, b.Run, b.CompleteBy, b.StartBy, childOf(b.Child)})
	t.partition.count.Undos++
}

// mayUndo checks the rules of docs/protocol.md, "Undo", when an undo begins.
func (t *telling) mayUndo(st *step) {
	tolerated := st.tolerated() && !t.back
	if !t.back && !tolerated || t.parked || t.paused {
		t.wrong(CheckUndo, "not_undoing", st.id, "its undo begins although the task is %s", t.state())
	}
	if !t.again.has(st.id) {
		t.wrong(CheckUndo, "kept_by_rerun", st.id, "its undo begins although the task is rerun and keeps this step")
	}
	switch {
	case !st.undoable:
		t.wrong(CheckUndo, "nothing_to_undo", st.id, "its undo begins although its definition has none or it never started")
	case !st.touched:
		t.wrong(CheckUndo, "nothing_to_undo", st.id, "its undo begins although every attempt of it was reported without effect")
	case st.undone:
		t.wrong(CheckUndo, "twice", st.id, "its undo begins again although it is undone")
	}
	if t.fact.Time < t.quiet {
		t.wrong(CheckUndo, "not_quiet", st.id, "its undo begins at %s, but a request of an attempt may land until %s", t.fact.Time, t.quiet)
	}
	if tolerated {
		return // the others go on meanwhile
	}
	under := 0
	for _, other := range t.story.live {
		switch {
		case other.do.running:
			t.wrong(CheckUndo, "while_running", st.id, "its undo begins while attempt %d of step %s runs", other.do.attempts, other.id)
		case other != st && st.of != nil && other.of == st.of && other.undoes() && !other.undoFailed:
			under++
		case other != st && other.undoes():
			t.wrong(CheckUndo, "not_one_by_one", st.id, "its undo begins before that of step %s has ended", other.id)
		case t.again.has(other.id) && other.pivot && other.touched:
			t.wrong(CheckUndo, "behind_the_pivot", st.id, "its undo begins although the pivot %s completed or is of unknown outcome", other.id)
		}
	}
	if r := t.def.step(st.id); under > 0 && under >= r.parallel() {
		t.wrong(CheckUndo, "items_open", st.id, "its undo begins while those of %d other items are open, and the definition allows %d at a time", under, r.parallel())
	}
	if st.undo.waiting || st.undo.made() > 0 { // maybe for an earlier rerun that kept other steps
		return
	}
	switch next := t.nextUndone(t.again); {
	case next == nil || next == st || st.completion == 0:
	case next.completion == 0:
		t.wrong(CheckUndo, "order", st.id, "its undo begins before that of step %s, whose outcome is unknown and goes first", next.id)
	case next.completion > st.completion:
		t.wrong(CheckUndo, "order", st.id, "its undo begins before that of step %s, which completed later", next.id)
	}
}

// undoes says whether the undo of the step has begun and is not over.
func (st *step) undoes() bool { return st.undo.running || st.undo.waiting || st.undoFailed }

func (t *telling) undoFailed(b *events.CompensationFailed) {
	var st *step
	if b.Attempt == 0 { // before any work was sent
		if st = t.step(b.Step); st == nil || st.undo.running {
			t.wrong(CheckAttempts, "outcome_of_nothing", b.Step, "its undo fails before its start although it runs or the step never started")
			return
		}
	} else if st = t.outcome(b.Step, events.Undo, b.Attempt); st == nil {
		return
	}
	if b.Attempt > 0 {
		doubted(t, st, b.QuietAt, b.Request != "")
	}
	t.undoVerdict(st, b.Verdict)
}

func (t *telling) undoVerdict(st *step, v events.Verdict) {
	st.undo.waiting = false
	switch v.Action {
	case events.ActionRetry, events.ActionCoolDown:
		st.undo.waitsFor = events.WaitingAgain(failure(t.fact.Body), false)
		st.undo.waiting, st.undo.retryAt, st.undo.askedAt = true, v.At, t.fact.Time
	default:
		st.undoFailed = true
		t.parkDue = t.parkDue || !t.parked
	}
}

// wasUndone checks that nothing is left when a task ends undone.
func (t *telling) wasUndone(b *events.TaskUndone) {
	t.leaves(b)
	released(t, b.Release)
	answersParent(t, b.Answers)
	t.end = t.fact.Body.Name()
	if !t.back || t.parked || t.paused || t.again != nil {
		t.wrong(CheckUndo, "ended_wrongly", "", "it ends undone although it is %s", t.state())
	}
	for _, st := range t.steps {
		switch {
		case st.pivot && st.touched:
			t.wrong(CheckUndo, "behind_the_pivot", st.id, "the task ends undone although its pivot completed or is of unknown outcome")
		case st.mustUndo() && st.completion > 0:
			t.wrong(CheckUndo, "left", st.id, "the task ends undone, but this step completed and was not undone")
		case st.mustUndo():
			t.wrong(CheckUndo, "left", st.id, "the task ends undone, but this step may have had an effect and was not undone")
		}
	}
	noneRuns(t)
}
