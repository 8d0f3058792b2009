package events

import (
	"encoding/json"
	"unicode/utf8"
)

// The ce_types of the records by which parents and children speak. Those of the parent go to <ns>.submissions of the child's partition, as does the
// child's submission, so that none of them comes before it; those of the child to <ns>.reports of the parent's.
const (
	TypeChildAsk     = TypePrefix + "child.ask"
	TypeChildUndo    = TypePrefix + "child.undo"
	TypeChildRelease = TypePrefix + "child.release"
	TypeChildAnswer  = TypePrefix + "child.answer"
)

// ChildMessage is the value of a record of a parent. All of it stands in the fact whose effect it is, apart from the incarnation of the parent.
type ChildMessage struct {
	Child string `json:"child"`
	Link  Link   `json:"link"`
	// Cancel is that of ChildAsked. For TypeChildUndo it says why the child is undone.
	Cancel string `json:"cancel,omitempty"`
}

// ChildAnswer is the value of a record of a child.
type ChildAnswer struct {
	Child string `json:"child"`
	Link  Link   `json:"link"`
	// State says how the child stands.
	State  ChildEnd        `json:"state"`
	Output json.RawMessage `json:"output,omitempty"`
	// Left says that the child is undone, except for what an operator left.
	Left bool `json:"left,omitzero"`
	// Reason says why, except for a child that processed. Code is the reason of a rejection.
	Reason string `json:"reason,omitempty"`
	Code   string `json:"code,omitempty"`
}

// ChildEnd is what a child says about itself.
type ChildEnd string

// The kinds of answers.
const (
	// ChildAccepted is the answer of a child that is detached.
	ChildAccepted   ChildEnd = "accepted"
	ChildProcessed  ChildEnd = "processed"
	ChildUndone     ChildEnd = "undone"
	ChildTerminated ChildEnd = "terminated"
	// ChildRejected says that the child was never accepted.
	ChildRejected ChildEnd = "rejected"
	// ChildLost says that nobody knows of the child although it was asked before.
	ChildLost ChildEnd = "lost"
	// ChildRefuses says that the child does not undo itself.
	ChildRefuses ChildEnd = "refused"
)

var childEnds = []ChildEnd{ChildAccepted, ChildProcessed, ChildUndone, ChildTerminated, ChildRejected, ChildLost, ChildRefuses}

// Check says what is wrong with a message of a parent, "" if nothing is.
func (m *ChildMessage) Check(kind string) string {
	switch {
	case CheckTaskID(m.Child) != nil:
		return "child is not the ID of a task"
	case m.Link.checkChild() != "":
		return m.Link.checkChild()
	case kind == TypeChildUndo && m.Link.Operation != Undo:
		return "the operation of its link is another"
	case !utf8.ValidString(m.Cancel):
		return "cancel is not UTF-8"
	}
	return ""
}

// Check says what is wrong with an answer, "" if nothing is.
func (a *ChildAnswer) Check() string {
	switch {
	case CheckTaskID(a.Child) != nil:
		return "child is not the ID of a task"
	case a.Link.checkChild() != "":
		return a.Link.checkChild()
	case !utf8.ValidString(a.Reason + a.Code):
		return "reason or code is not UTF-8"
	}
	for _, s := range childEnds {
		if s == a.State {
			return ""
		}
	}
	return "state is not one that a child can have"
}

// ParentLink returns the parent of the submission, nil if it has none, or says what is wrong with it.
func (s *Submission) ParentLink() (p *ParentLink, why string) {
	if len(s.Parent) == 0 {
		return nil, ""
	}
	if json.Unmarshal(s.Parent, &p) != nil || p == nil {
		return nil, "is not the step of a task"
	}
	if why := p.Check(); why != "" {
		return nil, why
	}
	return p, ""
}

// Check says what is wrong with the link of a submission, "" if nothing is.
func (p *ParentLink) Check() string {
	if why := p.Link.checkChild(); why != "" {
		return why
	}
	if p.Link.Operation != Do || p.Depth < 1 || p.Depth > MaxDepth {
		return "the link must be one to do a step, and the depth from 1 to 10"
	}
	return ""
}

func (l *Link) checkChild() string {
	if CheckTaskID(l.Task) != nil || l.Incarnation == "" || l.Run != 1 || l.N < 1 || l.Path == "" || !utf8.ValidString(l.Incarnation+l.Path) || l.Operation != Do && l.Operation != Undo {
		return "the link must name the task, its incarnation, run 1, the path and operation of a step, and n"
	}
	return ""
}

// EncodeChildMessage returns the record of a message of that type. Topic and Partition are left to the caller.
func EncodeChildMessage(kind string, m ChildMessage, s Subject) (Record, error) {
	return encode(m, m.Child, kind, m.Child, s)
}

// EncodeChildAnswer returns the record of an answer. Topic and Partition are left to the caller.
func EncodeChildAnswer(a ChildAnswer, s Subject) (Record, error) {
	return encode(a, a.Link.Task, TypeChildAnswer, a.Link.Task, s)
}

// ChildMessagesOf returns what a fact says to children, and the type of the records; nil if it says nothing. t is the task of the fact; nil if it
// is forgotten, which only a fact about the links of a known task needs.
func ChildMessagesOf(t *Task, f *Fact) (kind string, list []ChildMessage) {
	switch b := f.Body.(type) {
	case *ChildAsked:
		return TypeChildAsk, []ChildMessage{{Child: b.Child, Link: b.Link, Cancel: b.Cancel}}
	case *CompensationStarted:
		if b.Child == nil || t == nil {
			return "", nil
		}
		return TypeChildUndo, []ChildMessage{{Child: b.Child.Task, Link: ChildLink(t, b.Step, Undo, b.Attempt), Cancel: t.Reason}}
	case *ChildrenReleased:
		for _, c := range b.Children {
			list = append(list, ChildMessage{Child: c.Child, Link: c.Link})
		}
		return TypeChildRelease, list
	case *ChildReturned:
		return TypeChildRelease, []ChildMessage{{Child: b.Child, Link: b.Link}}
	}
	return "", nil
}

// ChildSubmissionOf returns the submission of the child that a fact starts, nil if it starts none. A repeat has the same content. t is the task of
// the fact.
func ChildSubmissionOf(t *Task, f *Fact) *Submission {
	b, ok := f.Body.(*StepStarted)
	if !ok || b.Child == nil || t == nil {
		return nil
	}
	c := b.Child
	parent, err := Marshal(&ParentLink{Link: ChildLink(t, b.Step, Do, b.Attempt), Depth: c.Depth, Detach: c.Detach})
	if err != nil {
		return nil // it can be encoded
	}
	return &Submission{
		ID: c.Task, Workflow: c.Workflow, Version: c.Version, Input: b.Input, Priority: c.Priority, Labels: c.Labels, Deadline: c.Deadline,
		Parent: parent,
	}
}

// ChildAnswerOf returns what a fact of a child says to its parent; false if it says nothing. All of it stands in the fact.
func ChildAnswerOf(f *Fact) (a ChildAnswer, ok bool) {
	var to *Link
	switch b := f.Body.(type) {
	case *Submitted:
		if p := b.Parent; p != nil && p.Detach {
			to, a.State = &p.Link, ChildAccepted
		}
	case *ChildRefused:
		to, a.State, a.Reason, a.Code = &b.Parent.Link, ChildRejected, b.Detail, b.Reason
		if b.Reason == RejectLost {
			a.State = ChildLost
		}
	case *ChildAnswered:
		return b.Answer, true
	case *TaskProcessed:
		to, a.State, a.Output = b.Answers, ChildProcessed, b.Output
	case *TaskUndone:
		to, a.State, a.Left, a.Reason = b.Answers, ChildUndone, len(b.Left) > 0, b.Reason
	case *TaskTerminated:
		to, a.State, a.Reason = b.Answers, ChildTerminated, reasonOr(b.Reason, "terminated")
	}
	if to == nil {
		return ChildAnswer{}, false
	}
	a.Child, a.Link = f.Task, *to
	return a, true
}

// OpenParent returns the link that waits for the end of the task, nil if none does. A request to undo it takes the place of that which began it.
func OpenParent(t *Task) *Link {
	if t.Parent == nil || t.Parent.Detach {
		return nil
	}
	l := t.Parent.Link
	if t.Parent.Undo > 0 {
		l.Operation, l.N = Undo, t.Parent.Undo
	}
	return &l
}

// AnswerAgain returns the answer of a child to a link that it knows, from its state; false if it has no answer yet.
func AnswerAgain(t *Task, l Link) (a ChildAnswer, ok bool) {
	p := t.Parent
	a = ChildAnswer{Child: t.ID, Link: l, Reason: t.Reason}
	switch {
	case l.Operation == Undo && p.Refused != "" && p.Undo == l.N:
		a.State, a.Reason = ChildRefuses, p.Refused
	case t.State == TaskStateRejected && l.Operation == Undo:
		a.State = ChildUndone
	case t.State == TaskStateRejected:
		a.State, a.Code = ChildRejected, p.Refused
		if p.Refused == RejectLost {
			a.State = ChildLost
		}
	case t.State == TaskStateProcessed:
		a.State, a.Output, a.Reason = ChildProcessed, t.Output, ""
	case t.State == TaskStateUndone:
		a.State, a.Left = ChildUndone, len(LeftOf(t)) > 0
	case t.State == TaskStateTerminated:
		a.State = ChildTerminated
	case p.Detach && l.Operation == Do:
		a.State, a.Reason = ChildAccepted, ""
	default:
		return a, false
	}
	return a, true
}

// Depth returns how many ancestors a task has.
func Depth(t *Task) int {
	if t.Parent == nil {
		return 0
	}
	return t.Parent.Depth
}
