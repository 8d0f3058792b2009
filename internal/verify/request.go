package verify

import (
	"encoding/json"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// answered takes a fact that answers a request and is about the task as a whole.
func (t *telling) answered() {
	switch b := t.fact.Body.(type) {
	case *events.CancelRequested:
		if b.Request != "" { // otherwise its parent wants it
			t.requested(b.Request)
		}
		t.cancelHeld = false
		if t.back {
			t.wrong(CheckAttempts, "granted_in_vain", "", "a cancel is granted although the task is being undone already")
		}
		t.paused = false
		t.turn("the task is cancelled")
	case *events.RequestRefused:
		t.refusedRequest(b)
	case *events.TaskPaused:
		t.pausing(b.Request, true)
	case *events.TaskResumed:
		t.pausing(b.Request, false)
	case *events.TaskTerminated:
		t.terminated(b)
	}
}

// requested notes a request that was judged: each is judged once.
func (t *telling) requested(id string) {
	if t.requests[id] {
		t.wrong(CheckInputs, "judged_twice", "", "the request %q is judged a second time", id)
	}
	if t.requests == nil {
		t.requests = map[string]bool{}
	}
	t.requests[id] = true
	t.cancelHeld = false
}

// refusedRequest checks that a refused request could not be granted.
func (t *telling) refusedRequest(b *events.RequestRefused) {
	t.requested(b.Request)
	st, _ := t.running()
	grantable := false
	switch b.Verb {
	case events.RequestCancel:
		grantable = !t.back && t.pivot() == nil && !t.stranger
	case events.RequestPause:
		grantable = !t.paused
	case events.RequestResume:
		grantable = t.paused
	case events.RequestTerminate:
		grantable = st == nil
	}
	if grantable {
		t.wrong(CheckAttempts, "refused_wrongly", "", "a request to %s the task is refused (%s) although nothing forbids it", b.Verb, b.Reason)
	}
}

// asksStranger says whether a schedule asks a task to cancel that it did not start.
func asksStranger(s *story, input *events.Record) bool {
	if input == nil {
		return false // that is already a finding
	}
	_, data, err := events.Open(input)
	var q events.Request
	return err == nil && json.Unmarshal(data, &q) == nil && q.ScheduleBegan != 0 && q.ScheduleBegan != s.began
}

// pausing notes that the task is paused, or resumed.
func (t *telling) pausing(request string, pause bool) {
	t.requested(request)
	if t.paused == pause {
		t.wrong(CheckAttempts, "granted_in_vain", "", "%s of a task that is %s", t.fact.Body.Name(), t.state())
	}
	if t.paused = pause; pause {
		t.halt()
		return
	}
	t.goOn()
}

// halt stops the clock of the deadline.
func (t *telling) halt() {
	if t.haltedAt == 0 {
		t.haltedAt = t.fact.Time
	}
}

// goOn starts it again once the task is neither parked nor paused.
func (t *telling) goOn() {
	if t.parked || t.paused || t.haltedAt == 0 {
		return
	}
	if t.deadline > t.haltedAt {
		t.deadline, t.expired, t.reopenedAt = t.deadline.Add(max(0, t.fact.Time.Sub(max(t.haltedAt, t.early.until)))), false, t.fact.Time
	}
	t.haltedAt = 0
}

// terminated checks that nothing runs when an operator ends the task, and that the fact names exactly what is left.
func (t *telling) terminated(b *events.TaskTerminated) {
	t.requested(b.Request)
	t.end, t.again, t.paused, t.parked, t.early.until = t.fact.Body.Name(), nil, false, false, 0
	released(t, b.Release)
	answersParent(t, b.Answers)
	noneRuns(t)
	if b.MoreNotUndone != 0 && len(b.NotUndone) != events.MaxNamed {
		t.wrong(CheckUndo, "not_undone", "", "the fact names %d steps that are not undone and counts %d more, which it has room to name", len(b.NotUndone), b.MoreNotUndone)
	}
	for i := range t.def.Steps {
		id := t.def.Steps[i].ID
		st := t.step(id)
		left, named := t.left(id) || st != nil && st.touched && !st.undone, slices.Contains(b.NotUndone, id)
		if left != named && (named || b.MoreNotUndone == 0) {
			t.wrong(CheckUndo, "not_undone", id, "the task is terminated; that what this step did may be left is %t, but the fact says %v", left, b.NotUndone)
		}
	}
}
