package verify

import (
	"bytes"

	"github.com/sagalog/sagalog/events"
)

// What an operator decides about a step, of which no attempt runs.

// decided records the request of such a decision. A parked task goes on if the step had failed and no other has.
func (t *telling) decided(request string, failed bool) {
	t.requested(request)
	for _, st := range t.steps {
		if st.undoFailed || st.failed && !t.back {
			failed = false
		}
	}
	if failed {
		t.parked, t.parkDue = false, false
		t.goOn()
	}
}

// undoWaits says whether an operator may decide about the undo of a step.
func (t *telling) undoWaits(st *step) bool {
	return st != nil && (t.back || st.tolerated()) && !st.undone && !st.undo.running && (st.undo.waiting || st.undoFailed)
}

func (t *telling) skippedByHand(b *events.StepSkipped) {
	st := t.open(b.Step)
	failed := st.failed
	switch r := t.def.step(b.Step); {
	case r == nil:
		t.wrong(CheckAttempts, "unknown_step", b.Step, "the definition of workflow %s has no such step", t.workflow)
	case b.Left && !t.undoWaits(st):
		t.wrong(CheckAttempts, "by_hand", b.Step, "an operator skips its undo, which did not fail and does not wait")
	case b.Left:
	case t.back || st.do.running || st.over() || st.fans():
		t.wrong(CheckAttempts, "by_hand", b.Step, "an operator skips it although it runs or is over, or the task is being undone")
	case r.Pivot:
		t.wrong(CheckAttempts, "by_hand", b.Step, "an operator skips it although it is the pivot")
	}
	if b.Left {
		failed = st.undoFailed
		afterUndosOf(t.story, st.id).left = true
		undoneByHand(t, st, b.Child)
	} else {
		st.skipped, st.failed, st.do.waiting, st.queued, st.wait = true, false, false, false, nil
	}
	t.decided(b.Request, failed)
}

func (t *telling) completedByHand(b *events.StepCompleted) {
	st := t.open(b.Step)
	if t.back || st.do.running || st.over() || st.do.made() == 0 && st.wait == nil || st.do.attempts != b.Attempt {
		t.wrong(CheckAttempts, "by_hand", b.Step, "an operator completes attempt %d although it runs or is over, was never made, or the task is being undone", b.Attempt)
		return
	}
	failed := st.failed
	t.story.completed++
	st.completion, st.done, st.touched = t.story.completed, true, st.do.made() > 0
	st.failed, st.do.waiting, st.wait = false, false, nil
	t.decided(b.Request, failed)
}

func (t *telling) compensatedByHand(b *events.Compensated) {
	st := t.step(b.Step)
	if !t.undoWaits(st) || st.undo.attempts != b.Attempt {
		t.wrong(CheckAttempts, "by_hand", b.Step, "an operator completes attempt %d of its undo, which did not fail and does not wait", b.Attempt)
		return
	}
	failed := st.undoFailed
	undoneByHand(t, st, b.Child)
	t.decided(b.Request, failed)
}

// undoneByHand notes an operator's decision about the undo of a step, or about one of its children only. Then the child of an earlier try is asked next, if
// one is left.
func undoneByHand(t *telling, st *step, child string) {
	asked := ""
	if x := t.toUndo(st.id); x != nil && !x.settled && st.undo.agent == "" && st.undo.made() > 0 {
		asked = x.child
	}
	if child != "" && !st.undoFailed {
		t.wrong(CheckUndo, "child", st.id, "an operator decides about the undo of child %q, which has not refused it", child)
	}
	if child != asked {
		t.wrong(CheckUndo, "child", st.id, "an operator decides about the undo of child %q, but the child to undo is %q (empty: none)", child, asked)
	}
	st.undoFailed, st.undo.waiting = false, false
	if child != "" && t.settle(st.id) {
		asksEarlier(t, st)
		return
	}
	st.undone = true
	t.settleAll(st.id)
}

// leaves checks that a task that ends undone names the steps whose undo an operator skipped.
func (t *telling) leaves(b *events.TaskUndone) {
	named := map[string]bool{}
	for _, id := range b.Left {
		named[id] = true
	}
	for id := range t.undos {
		if t.left(id) && !named[id] {
			t.wrong(CheckUndo, "left", id, "the task ends undone without naming this step, whose undo an operator skipped")
		}
		if t.left(id) {
			delete(named, id)
		}
	}
	for id := range named {
		t.wrong(CheckUndo, "left", id, "the task ends undone and names this step as left, but no operator left anything of it or of its children")
	}
}

// requestOf returns the request by which an operator decided a fact that otherwise follows from a report, or "".
func requestOf(b events.Body) string {
	switch b := b.(type) {
	case *events.StepCompleted:
		return b.Request
	case *events.StepFailed:
		return b.Request
	case *events.Compensated:
		return b.Request
	case *events.CompensationFailed:
		return b.Request
	}
	return ""
}

// give notes the input that an operator gave with a retry.
func (st *step) give(with []byte) {
	if st == nil || len(with) == 0 {
		return
	}
	if st.given == nil {
		st.given = map[events.Operation][]byte{}
	}
	if st.undoFailed || st.undo.waiting {
		st.given[events.Undo] = with
	} else {
		st.given[events.Do] = with
	}
}

// startsWithGiven checks that an attempt starts with the input that an operator gave, if one did.
func startsWithGiven(t *telling, st *step, op events.Operation, input []byte) {
	if given := st.given[op]; given != nil && !bytes.Equal(given, input) {
		t.wrong(CheckAttempts, "not_the_given_input", st.id, "an attempt to %s it starts with another input than the operator gave with a retry", op)
	}
}

// compensated takes the end of an undo.
func compensated(t *telling, b *events.Compensated) {
	if b.Request != "" {
		t.compensatedByHand(b)
	} else if st := t.outcome(b.Step, events.Undo, b.Attempt); st != nil {
		saysOfChild(t, b.Step, events.Undo, b.Attempt)
		doubted(t, st, b.QuietAt, false)
		if b.Left {
			afterUndosOf(t.story, st.id).left = true
		}
		if undoneByChild(t, st) {
			return
		}
		t.settleAll(b.Step)
		st.undone, st.undoneAt = true, t.fact.Time
	}
}

func (t *telling) reopened(b *events.TaskReopened) {
	t.requested(b.Request)
	for _, id := range b.Steps {
		st := t.step(id)
		if _, before := t.story.earlier[id]; before && st == nil { // it runs once more, and has not begun yet
			st = t.story.open(id)
			st.do.waiting = true
		}
		st.give(b.With)
		switch {
		case st == nil:
			t.wrong(CheckAttempts, "reopened", id, "it is reopened although it never started")
		case st.undoFailed || st.undo.waiting:
			st.undoFailed, st.undo.waiting, st.undo.waitsFor, st.undo.retryAt, st.undo.askedAt = false, true, events.WaitingRetry, t.fact.Time, t.fact.Time
			st.undo.startBy, st.undo.timedFrom = 0, 0
		case (st.failed || st.do.waiting || st.queued) && st.wait == nil && !t.back:
			st.failed, st.do.waiting, st.do.waitsFor, st.do.retryAt, st.do.askedAt = false, true, events.WaitingRetry, t.fact.Time, t.fact.Time
			st.do.startBy, st.do.timedFrom, st.queued = 0, 0, false
		default:
			t.wrong(CheckAttempts, "reopened", id, "it is reopened although it did not fail")
		}
	}
	t.parked = false
	t.goOn()
}
