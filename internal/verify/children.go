package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// try is a try of a step, whose child is remembered until its parent releases it.
type try struct {
	child string
	n     int
}

// childRule is the child of a step, as its definition gives it.
type childRule struct {
	Workflow string          `json:"workflow"`
	Version  int             `json:"version"`
	ID       json.RawMessage `json:"id"`
	Detach   bool            `json:"detach"`
}

// startsChild checks the child of an attempt, which no agent makes.
func startsChild(t *telling, r *stepRule, b *events.StepStarted) {
	c := b.Child
	if r == nil || (r.Child != nil) != (c != nil) {
		if r != nil {
			t.wrong(CheckAttempts, "not_as_defined", b.Step, "its start names the child %t, but its definition says %t", c != nil, r.Child != nil)
		}
		return
	}
	if c == nil {
		return
	}
	own := t.story.id + "/" + b.Step
	if b.Attempt > 1 {
		own += fmt.Sprintf("~%d", b.Attempt)
	}
	switch {
	case c.Workflow != r.Child.Workflow || c.Version != r.Child.Version || c.Detach != r.Child.Detach:
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "its child is of workflow %s, version %d, detached %t, which differs from its definition", c.Workflow, c.Version, c.Detach)
	case len(r.Child.ID) == 0 && c.Task != own && len(own) <= events.MaxTaskID:
		t.wrong(CheckAttempts, "child_id", b.Step, "its child is %s, and must be %s", c.Task, own)
	}
	if !c.Detach {
		t.story.tried(b.Step, try{c.Task, b.Attempt})
		t.keep(t.story.id, func(k *accepted) { k.tries++ })
	}
	t.relatives.starts(relation{t.story.id, t.story.incarnation, b.Step, b.Attempt}, &trial{child: c.Task, place: t.place, awaits: true, detached: c.Detach})
}

// undoesChild checks the child that is asked to undo itself.
func undoesChild(t *telling, r *stepRule, b *events.CompensationStarted) {
	if r != nil && r.Child != nil && (b.Child != nil) != (r.Undo.Agent == "") {
		t.wrong(CheckUndo, "not_as_defined", b.Step, "the child is asked to undo itself: %t, but its definition says %t", b.Child != nil, r.Undo.Agent == "")
	}
	if tries := t.tries[b.Step]; b.Child != nil && (len(tries) == 0 || tries[len(tries)-1].child != b.Child.Task) {
		t.wrong(CheckUndo, "child", b.Step, "task %s is asked to undo itself, which is not the child of the latest attempt", b.Child.Task)
	}
}

// keep changes what is known of a task.
func (p *partition) keep(id string, change func(*accepted)) {
	k, ok := p.known[digestOf(id)]
	if ok {
		change(&k)
		p.known[digestOf(id)] = k
	}
}

// childAsked checks that a step asks a child that does its running attempt.
func childAsked(t *telling, b *events.ChildAsked) {
	st := t.step(b.Link.Path)
	if st == nil || b.Link.Task != t.story.id || b.Link.Incarnation != t.story.incarnation || b.Link.Operation != events.Do && b.Link.Operation != events.Undo {
		t.wrong(CheckAttempts, "child", b.Link.Path, "task %s is asked for a step that never started, or that is of another task", b.Child)
		return
	}
	w := st.work(b.Link.Operation)
	if !w.running || w.attempts != b.Link.N || w.child != b.Child {
		t.wrong(CheckAttempts, "child", b.Link.Path, "task %s is asked about attempt %d of the %s, which it does not make", b.Child, b.Link.N, b.Link.Operation)
		return
	}
	if b.Link.Operation == events.Do && b.Cancel != "" {
		if !t.back && !b.Late && !w.cancelled {
			t.wrong(CheckAttempts, "child_cancel", b.Link.Path, "task %s is asked to turn back, but its parent is %s", b.Child, t.state())
		}
		if b.Late && (w.completeBy == 0 || t.fact.Time < w.completeBy) {
			t.wrong(CheckAttempts, "child_cancel", b.Link.Path, "task %s is asked to turn back at %s, before the time of the step is over at %q", b.Child, t.fact.Time, w.completeBy.String())
		}
		w.cancelled = true
	}
}

// answersParent checks that the fact that ends a task answers its parent.
func answersParent(t *telling, l *events.Link) {
	want := events.Link{}
	if p := t.story.parent; p != nil && !p.Detach {
		want = p.Link
		if t.asked > 0 {
			want.Operation, want.N = events.Undo, t.asked
		}
	}
	got := events.Link{}
	if l != nil {
		got = *l
	}
	if want != got {
		t.wrong(CheckAttempts, "parent", "", "the end of the task answers attempt %d of step %q of task %q, and its parent waits for attempt %d of step %q of task %q", got.N, got.Path, got.Task, want.N, want.Path, want.Task)
	}
	if p := t.story.parent; p != nil {
		t.relatives.ends(p.Link, t.story.id, t.fact.Body.Name(), t.place)
	}
}

// undoRequested turns a child to undoing, whether it has ended or not. last is the time of the fact before.
func undoRequested(t *telling, b *events.ChildUndoRequested, last events.Instant) {
	p := t.story.parent
	switch {
	case p == nil || p.Link.Task != b.Link.Task || p.Link.Incarnation != b.Link.Incarnation || p.Link.Path != b.Link.Path || b.Link.Operation != events.Undo || b.Link.N <= t.asked:
		t.wrong(CheckUndo, "parent", "", "it undoes itself for attempt %d of step %q of task %q, which is not its parent, or asked before", b.Link.N, b.Link.Path, b.Link.Task)
		return
	case t.end != "" && t.end != events.NameTaskProcessed:
		t.wrong(CheckUndo, "parent", "", "it undoes itself although it ended with %s", t.end)
	}
	if t.end != "" {
		for _, x := range t.undos {
			x.correct(t.fact.Time) // if the task ended at a wrong time
		}
		if last > t.fact.Time && t.quiet > t.fact.Time {
			t.quiet = t.fact.Time.Add(max(0, t.quiet.Sub(last)))
		}
	}
	t.asked, t.paused, t.end, t.again = b.Link.N, false, "", nil
	t.turn("its parent is undone")
}

// childUndo is the type of the record of a ChildUndoRequested, after which a task that has ended goes on.
const childUndo = events.TypePrefix + string(events.NameChildUndoRequested)

// related takes the facts of parents and children that may be about a task that has ended, or is not known. It returns false for any other fact.
func related(p *partition, f *events.Fact, at Place, input *events.Record) bool {
	wrong := func(format string, args ...any) {
		p.book.add(Finding{Check: CheckAttempts, Kind: "relatives", Place: at, Task: f.Task, What: fmt.Sprintf(format, args...)})
	}
	switch b := f.Body.(type) {
	case *events.ChildRefused:
		refusedChild(p, f, b, at)
		relatedInput(p, f, at, input, b.Parent.Link, "", events.TypeChildAsk, events.TypeChildUndo)
		return true
	case *events.ChildReturned:
		if s := p.live[f.Task]; s != nil && s.incarnation == b.Link.Incarnation && b.Link.Operation == events.Do && slices.Contains(s.tries[b.Link.Path], try{b.Child, b.Link.N}) {
			wrong("it releases task %s, which is its child", b.Child)
		}
		relatedInput(p, f, at, input, b.Link, events.TypeChildAnswer)
		return true
	case *events.ChildAnswered:
		answeredAgain(p, f, &b.Answer, wrong)
		if _, _, _, caused := f.Cause.Input(); caused {
			relatedInput(p, f, at, input, b.Answer.Link, "", events.TypeChildAsk, events.TypeChildUndo)
		}
	case *events.ChildReleased:
		if k, ok := p.known[digestOf(f.Task)]; ok && !k.kept {
			wrong("it is released a second time, or has no parent")
		}
		p.keep(f.Task, func(k *accepted) { k.kept = false })
		p.relatives.released(b.Link)
	case *events.ChildrenReleased:
		releasesChildren(p, f, b, wrong)
	default:
		return false
	}
	if u := p.carry.toCome(f.Task); u != nil && p.live[f.Task] == nil {
		u.tell(p, f, at)
	}
	return true
}

// refusedChild takes a child that was never accepted.
func refusedChild(p *partition, f *events.Fact, b *events.ChildRefused, at Place) {
	if _, ok := p.known[digestOf(f.Task)]; ok {
		p.book.add(Finding{Check: CheckInputs, Kind: "accepted_twice", Place: at, Task: f.Task, What: "the task is not accepted, although it was accepted before (INV12)"})
	}
	p.known[digestOf(f.Task)] = accepted{ended: f.Time, remember: b.RememberFor.Std(), scheduled: true, kept: !b.Parent.Detach}
	p.count.Ended["rejected"]++
	p.relatives.ends(b.Parent.Link, f.Task, f.Body.Name(), at)
}

// answeredAgain checks that what a task says about itself is true.
func answeredAgain(p *partition, f *events.Fact, a *events.ChildAnswer, wrong func(format string, args ...any)) {
	k, ok := p.known[digestOf(f.Task)]
	live := p.live[f.Task] != nil
	switch a.State {
	case events.ChildLost:
		if ok {
			wrong("it answers that nobody knows of it, and it was accepted")
		}
	case events.ChildProcessed, events.ChildUndone, events.ChildTerminated:
		if ok && (live || k.ended == 0) {
			wrong("it answers that it is %s, and it has not ended", a.State)
		}
	}
}

func releasesChildren(p *partition, f *events.Fact, b *events.ChildrenReleased, wrong func(format string, args ...any)) {
	k, ok := p.known[digestOf(f.Task)]
	if ok && (p.live[f.Task] != nil || k.ended == 0) {
		wrong("it releases its children, and has not ended")
	}
	if ok && k.tries < len(b.Children) {
		wrong("it releases %d children, and has %d", len(b.Children), k.tries)
	}
	p.keep(f.Task, func(k *accepted) { k.tries = max(0, k.tries-len(b.Children)) })
	for _, c := range b.Children {
		if x := p.relatives.trials[relationOf(c.Link)]; x != nil {
			if x.released || x.child != c.Child {
				wrong("it releases task %s, which is not its child of that attempt, or was released before", c.Child)
			}
			x.released = true
		}
	}
}

// relatedInput checks that a fact follows from a record of one of the types about the link.
func relatedInput(p *partition, f *events.Fact, at Place, input *events.Record, l events.Link, kinds ...string) {
	if input == nil {
		return
	}
	var got events.Link
	env, data, err := events.Open(input)
	if err == nil {
		var m struct {
			Link   events.Link        `json:"link"`
			Parent *events.ParentLink `json:"parent"`
		}
		if err = json.Unmarshal(data, &m); m.Parent != nil {
			m.Link = m.Parent.Link
		}
		got = m.Link
	}
	if err != nil || relationOf(got) != relationOf(l) && got.Operation == events.Do || got.Task != l.Task || !slices.Contains(kinds, childKind(env.Type)) {
		p.book.add(Finding{Check: CheckInputs, Kind: "not_its_input", Place: at, Task: f.Task, What: fmt.Sprintf("the fact follows from the input %s, which is about another child or cannot be read (%v)", f.Cause, err)})
	}
}

// childKind returns the type of a record about a child, "" for a submission.
func childKind(kind string) string {
	if isRelative(kind) {
		return kind
	}
	return ""
}

// endedByChild checks that the outcome of an attempt follows from the answer of its child.
func endedByChild(p *partition, f *events.Fact, data []byte, wrong func(format string, args ...any)) {
	var a events.ChildAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		wrong("which cannot be read: %v", err)
		return
	}
	s := p.live[f.Task]
	st := s.step(a.Link.Path)
	if st == nil || a.Link.Task != f.Task || a.Link.Incarnation != s.incarnation {
		wrong("which is about step %q of task %q", a.Link.Path, a.Link.Task)
		return
	}
	if w := st.work(a.Link.Operation); w.child != a.Child || w.attempts != a.Link.N {
		wrong("which is the answer of task %s about attempt %d", a.Child, a.Link.N)
	}
	fits := false
	switch b := f.Body.(type) {
	case *events.StepCompleted:
		fits = a.State == events.ChildProcessed || a.State == events.ChildAccepted
	case *events.StepFailed:
		fits = b.Effect == events.EffectNone && (a.State == events.ChildUndone || a.State == events.ChildRejected) || b.Effect != events.EffectNone && a.State != events.ChildUndone
	case *events.Compensated:
		fits = a.State == events.ChildUndone
	case *events.CompensationFailed:
		fits = a.State != events.ChildUndone
	}
	if !fits {
		wrong("which says that the child is %s", a.State)
	}
}

// saysOfChild notes what a parent records about a child.
func saysOfChild(t *telling, id string, op events.Operation, attempt int) {
	x := t.relatives.trials[relation{t.story.id, t.story.incarnation, id, attempt}]
	if op == events.Undo {
		x = nil
		if tries := t.tries[id]; len(tries) > 0 {
			x = t.relatives.trials[relation{t.story.id, t.story.incarnation, id, tries[len(tries)-1].n}]
		}
	}
	if x == nil {
		return
	}
	switch b := t.fact.Body.(type) {
	case *events.StepCompleted:
		x.awaits, x.processed = false, true
	case *events.StepFailed:
		x.awaits, x.undone, x.processed = false, b.Error.Code == "child_undone" || b.Effect == events.EffectNone && b.Output == nil, b.Output != nil
		x.never = b.Error.Code == "child_rejected"
	case *events.Compensated:
		if t.step(id).undo.child != "" {
			x.undone = true
		}
	}
}

// carriedRelatives takes over the children and the parent of a task that is carried at the beginning of the log.
func carriedRelatives(p *partition, s *story, t *events.Task, at Place) {
	if x := t.Parent; x != nil {
		p.relatives.children[relationOf(x.Link)] = &offspring{id: t.ID, place: at, end: s.end, processed: true, released: x.Released, carried: true}
	}
	for _, e := range t.Steps {
		if e.ByChild == nil {
			continue
		}
		for _, try := range e.ByChild.Tries {
			p.relatives.starts(relation{t.ID, t.Incarnation, e.Path, try.N}, &trial{child: try.Task, place: at, awaits: e.DoneByChild(events.Do) == try.Task, carried: true})
		}
	}
}

// triesOf counts the children of a task that it has not released.
func triesOf(t *events.Task) (n int) {
	for _, s := range t.Steps {
		if s.ByChild != nil && !(s.ByChild.Detach && s.DoneByChild(events.Do) != "") {
			n += len(s.ByChild.Tries)
		}
	}
	return n
}

// isRelative says whether a record is one of a parent or a child, other than a submission.
func isRelative(kind string) bool {
	switch kind {
	case events.TypeChildAsk, events.TypeChildUndo, events.TypeChildRelease, events.TypeChildAnswer:
		return true
	}
	return false
}

// silentRelative checks that a record of a parent or a child needed no fact.
func silentRelative(p *partition, j *join, kind string, data []byte, wrong func(task, format string, args ...any)) {
	var m events.ChildAnswer
	if err := json.Unmarshal(data, &m); err != nil {
		wrong("", "the record cannot be read (%v)", err)
		return
	}
	to := m.Child
	if kind == events.TypeChildAnswer {
		to = m.Link.Task
	}
	if home := events.Home(to, p.check.number); home != p.number {
		wrong(to, "the record belongs in partition %d", home)
		return
	}
	s := p.live[to]
	if kind != events.TypeChildAnswer || s == nil || s.incarnation != m.Link.Incarnation || s.step(m.Link.Path) == nil {
		return
	}
	if w := s.step(m.Link.Path).work(m.Link.Operation); w.running && w.child == m.Child && w.attempts == m.Link.N && w.started < j.since && (m.State == events.ChildUndone || m.State == events.ChildTerminated || m.State == events.ChildLost) {
		wrong(to, "the answer %s of task %s about attempt %d of step %s was not recorded", m.State, m.Child, m.Link.N, m.Link.Path)
	}
}

// findContinued finds the tasks of the partition that go on after they have ended.
func findContinued(ctx context.Context, p *partition, b Bounds) error {
	return p.cfg.Log.Read(ctx, Span{Topic: p.topics.Events, Partition: p.number, From: b.Start, To: b.End}, func(r events.Record) error {
		if kind := r.Header(events.HeaderType); kind == rerunType || kind == childUndo {
			p.reruns[string(r.Key)] = true
		}
		return nil
	})
}

// continues says whether a task that has ended goes on with the fact.
func continues(b events.Body) bool {
	switch b.(type) {
	case *events.TaskRerun, *events.ChildUndoRequested:
		return true
	}
	return false
}

// sameParent says whether a submission names the parent.
func sameParent(sub *events.Submission, p *events.ParentLink) bool {
	got, why := sub.ParentLink()
	if got == nil || p == nil {
		return got == nil && p == nil && why == ""
	}
	return *got == *p
}

// childOf returns the task that makes an attempt, "" if an agent does.
func childOf(c *events.ChildCall) string {
	if c == nil {
		return ""
	}
	return c.Task
}

// tried adds a try whose child must be released.
func (s *story) tried(path string, x try) {
	if s.tries == nil {
		s.tries = map[string][]try{}
	}
	s.tries[path] = append(s.tries[path], x)
}

// triedIn takes over the children of a carried step.
func triedIn(s *story, e *events.Step) {
	if x := e.ByChild; x != nil {
		for _, y := range x.Tries {
			if !x.Detach || y != x.Tries[len(x.Tries)-1] {
				s.tried(e.Path, try{y.Task, y.N})
			}
		}
	}
}

// staysEnded says whether a task that has ended stays so with the fact.
func staysEnded(b events.Body) bool {
	switch b.(type) {
	case *events.ChildAnswered, *events.ChildReleased, *events.ChildrenReleased:
		return true
	}
	return false
}

// startsRelative says whether a child makes the attempt that the fact starts.
func startsRelative(b events.Body) bool {
	switch b := b.(type) {
	case *events.StepStarted:
		return b.Child != nil
	case *events.CompensationStarted:
		return b.Child != nil
	}
	return false
}

// startsWith notes a start that has a work request as its effect.
func (u *uncarried) startsWith(f *events.Fact) {
	if !startsRelative(f.Body) {
		u.starts = append(u.starts, f)
	}
}
