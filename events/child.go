package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A step may be done by another task, its child. Then an attempt of the step, here called a try, starts the child, and the end of the child
// ends the try. Parent and child may live in different partitions, so each decides by its own log alone, and their messages to each other are
// effects: docs/protocol.md, "Children".
//
// The try is a link (see Link): N is the number of the attempt, counted across all runs, so Run is always 1. The step's state has the
// link as long as the task is remembered, and the child has it as Task.Parent from its acceptance on. A child is forgotten only after its
// parent has released it, and the parent does that when it is due to be forgotten itself. Until then the parent may ask the child to undo itself.

// ParentLink identifies the try that started a child. It is the member parent of a child's submission, so the content of that submission differs
// from that of any other.
type ParentLink struct {
	Link Link `json:"link"`
	// Depth is how many ancestors the child has, at most MaxDepth.
	Depth int `json:"depth"`
	// Detach says that the parent waits only until the child is accepted. Then the child is on its own: its parent never undoes it, and it is
	// forgotten like a task without a parent.
	Detach bool `json:"detach,omitzero"`
}

// MaxDepth bounds how many ancestors a task has, so that a workflow that starts itself comes to an end.
const MaxDepth = 10

// ChildCall belongs to an attempt that a child does, not an agent. It names the child and, for a do, what the child's submission says.
type ChildCall struct {
	// Task is the ID of the child.
	Task     string            `json:"task"`
	Workflow string            `json:"workflow,omitempty"`
	Version  int               `json:"version,omitzero"`
	Priority int               `json:"priority,omitzero"`
	Labels   map[string]string `json:"labels,omitempty"`
	Deadline string            `json:"deadline,omitempty" schema:"type:Duration|Instant"`
	Depth    int               `json:"depth,omitzero"`
	Detach   bool              `json:"detach,omitzero"`
}

// Parent is what a child knows of its parent.
type Parent struct {
	ParentLink
	// Undo is the number of the latest request to undo the task, and Refused says why the task refused it; empty if it did not.
	Undo    int    `json:"undo,omitzero"`
	Refused string `json:"refused,omitempty"`
	// Released says that the parent no longer needs the task.
	Released bool `json:"released,omitzero"`
	// ToldAt is when the task last repeated its answer.
	ToldAt Instant `json:"told_at,omitzero"`
}

// ChildAsked asks a child for its answer. Its effect is the ask. It repeats what the fact that began the attempt asked, unless Cancel says that
// the child is to turn back.
type ChildAsked struct {
	Child string `json:"child"`
	Link  Link   `json:"link"`
	// Cancel says why the child is to turn back; empty if it is not.
	Cancel string `json:"cancel,omitempty"`
	// Late says that the time of the step is over.
	Late bool `json:"late,omitzero"`
}

// ChildrenReleased says that an ended task, which is to be forgotten, no longer needs these children. Its effects are the releases. The task cannot
// be undone or rerun after that.
type ChildrenReleased struct {
	Children []ChildRelease `json:"children"`
}

// ChildRelease is the end of a link.
type ChildRelease struct {
	Child string `json:"child"`
	Link  Link   `json:"link"`
}

// ChildReturned answers a child whose link no task has: its parent is forgotten. Its effect is the release.
type ChildReturned struct {
	ChildRelease
}

// ChildRefused creates the child of a submission that cannot be accepted, as a task that has ended before it began. While it is remembered, no copy of
// the submission starts it. Its effect is the answer.
type ChildRefused struct {
	Parent   ParentLink `json:"parent"`
	Workflow string     `json:"workflow,omitempty"`
	Content  string     `json:"content,omitempty"`
	// Reason is one of the reasons of a dead letter, or RejectLost, and Detail says more.
	Reason      string   `json:"reason"`
	Detail      string   `json:"detail,omitempty"`
	RememberFor Duration `json:"remember_for"`
}

// ChildAnswered repeats the answer of a child, or says why it refuses to undo itself, or that another task has its ID. Its effect is the answer.
type ChildAnswered struct {
	Answer ChildAnswer `json:"answer"`
}

// ChildUndoRequested makes a child undo itself, whether it has ended or not, because its parent is undone.
type ChildUndoRequested struct {
	Link   Link   `json:"link"`
	Reason string `json:"reason,omitempty"`
}

// ChildReleased says that the parent no longer needs the task.
type ChildReleased struct {
	Link Link `json:"link"`
}

const (
	// TellParentAfter is how long a child waits for its release, after the time for which it is remembered, before it repeats its answer. It then
	// repeats the answer at this interval.
	TellParentAfter = 24 * RepeatAfter
	// releasedAtOnce bounds the children of one ChildrenReleased.
	releasedAtOnce = 500
)

// ChildID returns the ID of the child of a try. base is empty unless the definition gives the ID.
func ChildID(task, path, base string, try int) string {
	if base == "" {
		base = task + "/" + path
	}
	if try > 1 {
		base += "~" + strconv.Itoa(try)
	}
	if len(base) <= MaxTaskID {
		return base
	}
	digest := sha256.Sum256([]byte(base))
	sum := "~" + hex.EncodeToString(digest[:childHash])
	return strings.ToValidUTF8(base[:MaxTaskID-len(sum)], "") + sum
}

// childHash is how many bytes of a hash distinguish IDs of children that would be too long.
const childHash = 16

// ChildLink returns the link of an attempt that is done by a child.
func ChildLink(t *Task, path string, op Operation, attempt int) Link {
	return Link{Task: t.ID, Incarnation: t.Incarnation, Run: 1, Path: path, Operation: op, N: attempt}
}

// HasChild says whether the task has the link, whether it still waits for something or not.
func HasChild(t *Task, child string, l Link) bool {
	s := t.Step(l.Path)
	if s == nil || s.ByChild == nil || l.Task != t.ID || l.Incarnation != t.Incarnation {
		return false
	}
	for _, try := range s.ByChild.Tries {
		if try.Task == child && (l.Operation == Undo || try.N == l.N) {
			return true
		}
	}
	return false
}

// AwaitsChild says whether an attempt runs that the answer to this link ends.
func AwaitsChild(t *Task, child string, l Link) bool {
	if !HasChild(t, child, l) || !t.Running(l.Path, l.Operation, l.N) {
		return false
	}
	s := t.Step(l.Path)
	return l.Operation == Do && s.Child() == child || l.Operation == Undo && s.ChildToUndo() == child
}

// AskChild returns the fact by which the running attempt of an operation asks its child for its answer, or to turn back.
func AskChild(t *Task, s *Step, op Operation, cancel string, late bool) *ChildAsked {
	n, child := s.Attempt, s.Child()
	if op == Undo {
		n, child = s.Undo.Attempt, s.ChildToUndo()
	}
	return &ChildAsked{Child: child, Link: ChildLink(t, s.Path, op, n), Cancel: cancel, Late: late}
}

// CancelChildren returns the facts by which a task that turns back asks its running children to turn back too; none if it has asked all of them.
func CancelChildren(t *Task) (list []Body) {
	if t.State != TaskStateUndoing {
		return nil
	}
	for _, s := range t.Live() {
		//mutant:children-turn-back
		if s.State == StepStateRunning && s.ByChild != nil && s.ByChild.Cancelled == "" {
			list = append(list, AskChild(t, s, Do, reasonOr(t.Reason, "its parent is undone"), false))
		}
	}
	return list
}

// ReleaseChildren returns the fact by which an ended task releases its children, as many as one fact takes; nil if it has none.
func ReleaseChildren(t *Task) *ChildrenReleased {
	var list []ChildRelease
	for _, s := range t.Steps {
		if s.ByChild == nil {
			continue
		}
		for _, try := range s.ByChild.Tries {
			if len(list) == releasedAtOnce {
				break
			}
			list = append(list, ChildRelease{try.Task, ChildLink(t, s.Path, Do, try.N)})
		}
	}
	if len(list) == 0 {
		return nil
	}
	return &ChildrenReleased{list}
}

// Kept says whether the task must not be forgotten, because its parent may still need it.
func (p *Parent) Kept() bool { return p != nil && !p.Released && !p.Detach }

// afterEnd says whether a fact may be about a task that has ended (INV9).
func afterEnd(b Body) bool {
	switch b.(type) {
	case *TaskRerun, *ChildrenReleased, *ChildAnswered, *ChildUndoRequested, *ChildReleased:
		return true
	}
	return false
}

// forgetAt returns when an ended task may be forgotten whose definition, or parent, says for how long it is remembered. A child that its parent
// has not released repeats its answer then.
func forgetAt(t *Task) Instant {
	at := t.EndedAt.Add(t.RememberFor.Std())
	if t.Parent.Kept() {
		return max(at, t.Parent.ToldAt).Add(TellParentAfter)
	}
	return at
}

// childFact folds the facts of parents and children about each other.
func childFact(t *Task, f *Fact) error {
	switch b := f.Body.(type) {
	case *ChildAsked:
		if b.Cancel == "" {
			t.Facts-- // bounded, since it repeats once an hour
		}
		return askedChild(t, f, b)
	case *ChildrenReleased:
		return releasedChildren(t, f, b)
	case *ChildAnswered:
		t.Facts-- // bounded, by the asks of the parent and one a day
		if t.Parent != nil && t.Parent.Link.names(&b.Answer.Link) {
			answered(t, f, b)
		}
	case *ChildUndoRequested:
		return undoRequested(t, f, b)
	case *ChildReleased:
		if t.Parent == nil || t.Parent.Released || t.Parent.Link != b.Link {
			return fmt.Errorf("%w: %s of task %q, which no longer has that link", ErrImpossible, f.Body.Name(), t.ID)
		}
		t.Parent.Released = true
	}
	return nil
}

// names says whether two links name the same step of the same task. They may differ in what is asked.
func (l *Link) names(other *Link) bool {
	return l.Task == other.Task && l.Incarnation == other.Incarnation && l.Path == other.Path
}

// byChild takes note of an attempt that a child does.
func byChild(t *Task, s *Step, f *Fact, c *ChildCall) error {
	if c == nil {
		if s.ByChild != nil {
			s.ByChild.AskedAt = 0
		}
		return nil
	}
	if b, undo := f.Body.(*CompensationStarted); undo {
		if s.ChildToUndo() != c.Task {
			return fmt.Errorf("%w: attempt %d to undo step %q asks task %q, which is not the child to undo", ErrImpossible, b.Attempt, s.Path, c.Task)
		}
		s.ByChild.AskedAt = f.Time
		return nil
	}
	if s.ByChild == nil {
		s.ByChild = &ChildState{}
	}
	x := s.ByChild
	x.Tries = append(slices.Clip(x.Tries), ChildTry{Task: c.Task, N: s.Attempt})
	x.AskedAt, x.Cancelled, x.Late, x.Detach = f.Time, "", false, c.Detach
	return nil
}

// asking returns when the running attempt of an operation last asked its child; zero if no child does it.
func (s *Step) asking(op Operation) Instant {
	if s.ByChild == nil || s.ByChild.AskedAt == 0 || (op == Undo) != (s.Undo != nil && s.Undo.State == StepStateRunning) {
		return 0
	}
	return s.ByChild.AskedAt
}

// waitsForChild says that a child does the running attempt of the step; false if none does.
func (s *Step) waitsForChild() (w WaitReason, ok bool) {
	switch {
	case s.DoneByChild(Do) != "":
		return WaitReason{Step: s.Path, Kind: WaitingChild, Since: s.StartedAt, Until: s.CompleteBy}, true
	case s.DoneByChild(Undo) != "":
		return WaitReason{Step: s.Path, Kind: WaitingChild, Since: s.Undo.StartedAt}, true
	}
	return w, false
}

// ends says whether the running attempt to do the step has a complete-by time that still counts. Once its child is to turn back, it has none.
func (s *Step) ends() bool {
	return s.asking(Do) == 0 || s.CompleteBy != 0 && s.ByChild.Cancelled == ""
}

// DoneByChild returns the child that does the running attempt of an operation; empty if none does.
func (s *Step) DoneByChild(op Operation) string {
	switch {
	case s == nil || s.asking(op) == 0:
		return ""
	case op == Undo:
		return s.ChildToUndo()
	}
	return s.Child()
}

// askTimer returns when the running attempt asks its child again.
func (s *Step) askTimer(asked Instant) Timer {
	m := Timer{Due: asked.Add(RepeatAfter), Kind: TimerChild, Path: s.Path, Operation: Do, Attempt: s.Attempt}
	if s.asking(Undo) != 0 {
		m.Operation, m.Attempt = Undo, s.Undo.Attempt
	}
	return m
}

func askedChild(t *Task, f *Fact, b *ChildAsked) error {
	s := t.Step(b.Link.Path)
	if s == nil || s.asking(b.Link.Operation) == 0 || !AwaitsChild(t, b.Child, b.Link) || b.Link != ChildLink(t, s.Path, b.Link.Operation, b.Link.N) {
		return fmt.Errorf("%w: %s of step %q of task %q, which does not wait for %q", ErrImpossible, f.Body.Name(), b.Link.Path, t.ID, b.Child)
	}
	x := s.change().ByChild
	x.AskedAt = f.Time
	if b.Link.Operation == Do {
		x.Cancelled, x.Late = reasonOr(b.Cancel, x.Cancelled), x.Late || b.Late
	}
	return nil
}

func releasedChildren(t *Task, f *Fact, b *ChildrenReleased) error {
	want := ReleaseChildren(t)
	if !t.State.Ended() || want == nil || !slices.Equal(want.Children, b.Children) {
		return fmt.Errorf("%w: %s of task %q, which has not ended or has other children", ErrImpossible, f.Body.Name(), t.ID)
	}
	t.ChildrenReleased = true
	for _, c := range b.Children {
		s := t.Step(c.Link.Path).change()
		s.ByChild.Tries = slices.DeleteFunc(slices.Clone(s.ByChild.Tries), func(x ChildTry) bool { return x.N == c.Link.N })
		if len(s.ByChild.Tries) == 0 {
			s.ByChild = nil
		}
	}
	return nil
}

// childOutside folds the facts that are about no task, or about one that is not known.
func childOutside(s *State, f *Fact) error {
	switch b := f.Body.(type) {
	case *ChildRefused:
		return refusedChild(s, f, b)
	case *ChildAnswered:
		if t, err := s.Task(f.Task); t == nil { // a parent asks about a child that is not known
			return err
		}
		return s.foldTask(f)
	}
	return nil // of a task that is forgotten
}

// refusedChild adds the task of a child that was never accepted.
func refusedChild(s *State, f *Fact, b *ChildRefused) error {
	if known, err := s.Task(f.Task); err != nil {
		return err
	} else if known != nil {
		return fmt.Errorf("%w: task %q was accepted already", ErrImpossible, f.Task)
	}
	at := Position{s.Partition.Epoch, f.Sequence}
	t := &Task{
		ID: f.Task, Incarnation: at.String(), Run: 1, Workflow: b.Workflow, State: TaskStateRejected, Content: b.Content, Reason: b.Detail,
		SubmittedAt: f.Time, UpdatedAt: f.Time, EndedAt: f.Time, Facts: 1, Traceparent: f.Traceparent, Last: at, RememberFor: b.RememberFor,
		Parent: &Parent{ParentLink: b.Parent, Refused: b.Reason, ToldAt: f.Time},
	}
	s.tasks[f.Task], s.absent = t, ""
	s.touchTask(f.Task, t)
	s.Partition.Tasks++
	return nil
}

func answered(t *Task, f *Fact, b *ChildAnswered) {
	p := t.Parent
	p.ToldAt = f.Time
	if a := &b.Answer; a.Link.Operation == Undo && a.Link.N > p.Undo {
		p.Undo, p.Refused = a.Link.N, ""
		if a.State == ChildRefuses {
			p.Refused = a.Reason
		}
	}
}

// undoRequested makes the task undo itself. If the task ended while the clock was wrong, what was left of its quiet time counts from now on, as in a
// rerun.
func undoRequested(t *Task, f *Fact, b *ChildUndoRequested) error {
	p := t.Parent
	if p == nil || p.Released || !p.Link.names(&b.Link) || b.Link.Operation != Undo || b.Link.N <= p.Undo || t.ChildrenReleased ||
		t.State.Ended() && t.State != TaskStateProcessed || t.Irrevocable() {
		return fmt.Errorf("%w: task %q, which is %s, undoes itself for %q", ErrImpossible, t.ID, t.State, b.Link.Task)
	}
	p.Undo, p.Refused = b.Link.N, ""
	if t.Paused != nil {
		t.Paused = nil
		t.goOn(f.Time) // it may be undoing already
	}
	if t.State.Ended() {
		for _, s := range t.Steps {
			s.change().correctQuiet(f.Time)
		}
		t.UpdatedAt = f.Time
		t.QuietAt, t.StepsQuietAt = lasting(t.QuietAt, t.EndedAt, f.Time), lasting(t.StepsQuietAt, t.EndedAt, f.Time)
		t.EndedAt, t.State, t.softLimit = 0, TaskStateProcessing, softLimit{}
		t.replace(&t.Output, nil)
	}
	reason := reasonOr(b.Reason, "its parent is undone")
	abandonRerun(t, reason)
	t.beginUndoing(reason)
	return nil
}

// Check says what is wrong with what the definition gives for a child.
func (c *ChildCall) Check() error {
	s := &Submission{ID: c.Task, Workflow: c.Workflow, Version: c.Version, Priority: c.Priority, Labels: c.Labels, Deadline: c.Deadline}
	return s.check()
}
