package verify

import (
	"context"

	"github.com/sagalog/sagalog/events"
)

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

// staysEnded says whether a task that has ended stays so with the fact.
func staysEnded(b events.Body) bool {
	switch b.(type) {
	case *events.ChildAnswered, *events.ChildReleased, *events.ChildrenReleased:
		return true
	}
	return false
}
