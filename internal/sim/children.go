package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// What parents and children say to each other, and what must be true of them, read from their facts and without the owner's code.

// Relative is the input that a record of a parent or a child is. Type is empty for the submission of a child.
type Relative struct {
	Type   string
	Child  string
	Link   events.Link
	Cancel string
	Answer events.ChildAnswer
}

// RelativeOf returns the input that a record of a parent or a child is.
func RelativeOf(r *events.Record) (Input, error) {
	x := Relative{Type: r.Header(events.HeaderType)}
	switch x.Type {
	case events.TypeChildAnswer:
		err := json.Unmarshal(r.Value, &x.Answer)
		x.Child, x.Link = x.Answer.Child, x.Answer.Link
		return Input{Kind: InputRelative, Task: x.Link.Task, Relative: x}, err
	case events.TypeChildAsk, events.TypeChildUndo, events.TypeChildRelease:
		var m events.ChildMessage
		err := json.Unmarshal(r.Value, &m)
		x.Child, x.Link, x.Cancel = m.Child, m.Link, m.Cancel
		return Input{Kind: InputRelative, Task: m.Child, Relative: x}, err
	}
	x.Type = ""
	sub, err := events.ParseSubmission(r.Value)
	if err != nil {
		return Input{}, err
	}
	p, why := sub.ParentLink()
	if p == nil {
		return Input{}, fmt.Errorf("the submission of a child: %s", why)
	}
	x.Child, x.Link = sub.ID, p.Link
	return Input{Kind: InputRelative, Task: sub.ID, Relative: x}, nil
}

// String says what it is and of which link.
func (x *Relative) String() string {
	what := map[string]string{
		"": "submission", events.TypeChildAsk: "ask", events.TypeChildUndo: "wish to undo", events.TypeChildRelease: "release", events.TypeChildAnswer: "answer " + string(x.Answer.State),
	}[x.Type]
	if x.Cancel != "" && x.Type == events.TypeChildAsk {
		what = "cancel"
	}
	return fmt.Sprintf("the %s %d of %s", what, x.Link.N, x.Child)
}

// relativeEffectsOf lists the effects of a fact that parents and children learn of.
func relativeEffectsOf(f *events.Fact) []string {
	answers := func(l *events.Link) []string {
		if l == nil {
			return nil
		}
		return []string{events.EffectEnd}
	}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		if b.Child != nil {
			return []string{events.EffectStart}
		}
	case *events.CompensationStarted:
		if b.Child != nil {
			return []string{events.EffectChild}
		}
	case *events.ChildAsked, *events.ChildrenReleased, *events.ChildReturned:
		return []string{events.EffectChild}
	case *events.ChildRefused, *events.ChildAnswered:
		return []string{events.EffectEnd}
	case *events.Submitted:
		if b.Parent != nil && b.Parent.Detach {
			return []string{events.EffectEnd}
		}
	case *events.TaskProcessed:
		return answers(b.Answers)
	case *events.TaskUndone:
		return answers(b.Answers)
	case *events.TaskTerminated:
		return answers(b.Answers)
	}
	return nil
}

// needsRelativeFact says why an input of a parent or a child cannot be passed without a fact, or "" if it can.
func (j *Judge) needsRelativeFact(input *Input) string {
	x := &input.Relative
	if x.Type == events.TypeChildAnswer {
		t, _ := j.State.Task(x.Link.Task)
		switch {
		case (t == nil || !events.HasChild(t, x.Child, x.Link)) && x.Answer.State != events.ChildAccepted:
			return "its child must be released"
		case t != nil && events.AwaitsChild(t, x.Child, x.Link) && !nonsense(x):
			return "its step waits for the answer"
		}
		return ""
	}
	t, _ := j.State.Task(x.Child)
	own := t != nil && t.Parent != nil && t.Parent.Link.Task == x.Link.Task && t.Parent.Link.Incarnation == x.Link.Incarnation && t.Parent.Link.Path == x.Link.Path
	if x.Type == events.TypeChildRelease {
		if own && !t.Parent.Released {
			return "the child must be released"
		}
		return ""
	}
	if !own {
		return "its parent waits for an answer"
	}
	_, answer := events.AnswerAgain(t, x.Link)
	switch {
	case x.Link.Operation == events.Do && input.Early:
	case x.Link.Operation == events.Undo && x.Link.N > t.Parent.Undo, x.Link.Operation == events.Do && answer:
		return "its parent waits for an answer"
	case x.Link.Operation == events.Do && x.Cancel != "" && (!t.Undoing() || t.Rerun != nil) && !t.Irrevocable():
		return "the child must turn back"
	}
	return ""
}

// nonsense says whether an answer does not end what it names.
func nonsense(x *Relative) bool {
	switch x.Answer.State {
	case events.ChildUndone, events.ChildTerminated, events.ChildLost:
		return false
	case events.ChildRefuses:
		return x.Link.Operation == events.Do
	}
	return x.Link.Operation == events.Undo
}

// followsRelative says why a fact about an attempt does not follow from what its child answers, or "" if it does.
func followsRelative(f *events.Fact, id Attempt, x *Relative) string {
	if x.Type != events.TypeChildAnswer || x.Link.Path != id.Step || x.Link.Operation != id.Op || x.Link.N != id.N || x.Link.Task != id.Task {
		return "which is about something else"
	}
	state := x.Answer.State
	switch b := f.Body.(type) {
	case *events.StepCompleted:
		if state == events.ChildProcessed || state == events.ChildAccepted {
			return ""
		}
	case *events.StepFailed:
		if state == events.ChildLost && b.Verdict.Action != events.ActionPark {
			return "which says lost, and the task does not park"
		}
		if b.Effect == events.EffectNone && (state == events.ChildUndone && !x.Answer.Left || state == events.ChildRejected) || b.Effect != events.EffectNone && (state != events.ChildUndone || x.Answer.Left) {
			return ""
		}
	case *events.Compensated:
		if state == events.ChildUndone && b.Left == x.Answer.Left {
			return ""
		}
	case *events.CompensationFailed:
		if state != events.ChildUndone {
			return ""
		}
	}
	return "which says " + string(state)
}

// Relatives checks a fact about a parent or a child against all states.
func (j *Judge) Relatives(f *events.Fact, states []*events.State) {
	switch b := f.Body.(type) {
	case *events.Submitted:
		if b.Parent == nil {
			return
		}
		p := find(states, b.Parent.Link.Task)
		if p == nil || p.Incarnation != b.Parent.Link.Incarnation {
			j.Fail("%s begins as the child of %s, which is forgotten or another task", f.Task, b.Parent.Link.Task)
			return
		}
		if !events.AwaitsChild(p, f.Task, b.Parent.Link) && !wasTaken(p, b.Parent.Link.Path) {
			j.Fail("%s begins although its parent %s does not wait for it any more", f.Task, p.ID)
		}
	case *events.ChildAnswered:
		if a := &b.Answer; a.State == events.ChildProcessed || a.State == events.ChildUndone || a.State == events.ChildTerminated || a.State == events.ChildAccepted {
			if t, _ := j.State.Task(f.Task); t == nil || t.Parent == nil || t.Parent.Link.Task != a.Link.Task || t.Parent.Link.Incarnation != a.Link.Incarnation {
				j.Fail("%s answers as the child of %s, and is another task", f.Task, a.Link.Task)
			}
		}
	case *events.TasksSwept:
		for _, id := range b.Tasks {
			t, _ := j.State.Task(id)
			if t == nil {
				continue
			}
			if t.Parent != nil && !t.Parent.Released && !t.Parent.Detach {
				j.Fail("the child %s is forgotten before its parent has released it", id)
			}
			if events.ReleaseChildren(t) != nil {
				j.Fail("%s is forgotten before it has released its children", id)
			}
		}
	case *events.TaskUndone:
		t, _ := j.State.Task(f.Task)
		if t == nil {
			return
		}
		for _, s := range t.Steps {
			if s.ByChild == nil || s.Left || !s.Undoable || s.Undo != nil && s.Undo.Agent != "" || undoneByAgent(t, s.Path) { // an agent undid what the child did
				continue
			}
			for _, try := range s.ByChild.Tries {
				if c := childOf(states, t, try.Task); c != nil && c.State != events.TaskStateUndone && c.State != events.TaskStateRejected && c.State != events.TaskStateTerminated { // an operator left it
					j.Fail("%s is undone, and its child %s is %s", t.ID, c.ID, c.State)
				}
			}
		}
	}
}

// RelativesRest says what a family owes although nothing is under way, or "". It leaves out what concerns the tasks that are excepted, by ID.
func RelativesRest(states []*events.State, excepted func(id string) bool) (owes string) {
	for _, s := range states {
		s.Loaded(func(t *events.Task) bool {
			if excepted(t.ID) {
				return true
			}
			if why := cmp.Or(childRest(t, states), parentRest(t, states, excepted)); why != "" && (owes == "" || why < owes) { // tasks have no order
				owes = why
			}
			return true
		})
	}
	return owes
}

func childRest(t *events.Task, states []*events.State) string {
	if t.Parent == nil || t.Parent.Released || t.Parent.Detach {
		return ""
	}
	p := find(states, t.Parent.Link.Task)
	if p == nil || p.Incarnation != t.Parent.Link.Incarnation {
		return fmt.Sprintf("orphan: the parent of %s is forgotten, and has not released it", t.ID)
	}
	if !t.State.Ended() && !events.AwaitsChild(p, t.ID, *events.OpenParent(t)) {
		return fmt.Sprintf("orphan: %s is %s, and its parent does not wait for it", t.ID, t.State)
	}
	return ""
}

func parentRest(t *events.Task, states []*events.State, excepted func(id string) bool) string {
	for _, s := range t.Steps {
		op := events.Do
		if s.DoneByChild(op) == "" {
			op = events.Undo
		}
		id := s.DoneByChild(op)
		if id == "" || excepted(id) {
			continue
		}
		switch c := childOf(states, t, id); {
		case c == nil:
			return fmt.Sprintf("%s waits for %s, which is not known", t.ID, id)
		case c.State.Ended():
			return fmt.Sprintf("%s waits for %s, which is %s", t.ID, id, c.State)
		case op == events.Do && t.Undoing() && t.Paused == nil && !c.Undoing() && !c.Irrevocable(): // a paused task asks for nothing
			return fmt.Sprintf("%s, which is %s, does not turn back with %s", id, c.State, t.ID)
		case op == events.Undo && !c.Undoing():
			return fmt.Sprintf("%s waits until %s is undone, which is %s", t.ID, id, c.State)
		}
	}
	return ""
}

// childOf returns the child of a task with that ID, nil if no task with it is the child of that task.
func childOf(states []*events.State, t *events.Task, id string) *events.Task {
	if c := find(states, id); c != nil && c.Parent != nil && c.Parent.Link.Task == t.ID && c.Parent.Link.Incarnation == t.Incarnation {
		return c
	}
	return nil
}

func find(states []*events.State, id string) *events.Task {
	for _, s := range states {
		if events.Home(id, int32(len(states))) == s.Partition.Partition {
			t, _ := s.Task(id)
			return t
		}
	}
	return nil
}

// undoneByAgent says whether an agent undoes what children do for a step. (The state of the step says so only of its latest run.)
func undoneByAgent(t *events.Task, path string) bool {
	d := definitionOf(t.Definition)
	if d == nil {
		return false
	}
	for i := range d.Steps {
		if s := &d.Steps[i]; s.ID == events.DefinedStep(path) {
			return s.Undo != nil && s.Undo.Agent != ""
		}
	}
	return false
}

// wasTaken says whether the ID of the child was that of another task when the parent's step asked for it. Once that task is forgotten, a late copy of the
// submission begins the child: the ID is free, and no row says that it was refused.
func wasTaken(p *events.Task, path string) bool {
	s := p.Step(path)
	return s != nil && s.Error != nil && s.Error.Code == "child_rejected" && strings.Contains(s.Error.Message, "(conflict)")
}
