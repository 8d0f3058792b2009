package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

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
		if hasChild(p, f.Task, b) {
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
		if k, ok := p.known[digestOf(f.Task)]; ok && (!k.child || k.parent != printStep(b.Link)) {
			wrong("it is released a second time, or by a task that is not its parent")
		}
		keep(p, f.Task, func(k *accepted) { k.child, k.kept = false, false })
		p.relatives.released(b.Link)
		releasedByInput(p, f, at, input, b.Link)
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

// relative takes a fact of a live task, or one that goes on, about its parent or a child. last is the time of the fact before.
func relative(t *telling, last events.Instant) {
	switch b := t.fact.Body.(type) {
	case *events.ChildAsked:
		childAsked(t, b)
	case *events.ChildUndoRequested:
		undoRequested(t, b, last)
	}
}

// hasChild says whether a task that answers a child by a release has that child, and so may still need it.
func hasChild(p *partition, id string, b *events.ChildReturned) bool {
	if b.Link.Operation == events.Do {
		x := p.relatives.trials[relationOf(b.Link)]
		return x != nil && x.child == b.Child && !x.released && !x.detached
	}
	s := p.live[id]
	return s != nil && s.incarnation == b.Link.Incarnation && slices.ContainsFunc(s.tries[b.Link.Path], func(x try) bool { return x.child == b.Child })
}

// keep changes what is known of a task.
func keep(p *partition, id string, change func(*accepted)) {
	k, ok := p.known[digestOf(id)]
	if ok {
		change(&k)
		p.known[digestOf(id)] = k
	}
}

// refusedChild takes a child that was never accepted.
func refusedChild(p *partition, f *events.Fact, b *events.ChildRefused, at Place) {
	if _, ok := p.known[digestOf(f.Task)]; ok {
		p.book.add(Finding{Check: CheckInputs, Kind: "accepted_twice", Place: at, Task: f.Task, What: "the task is not accepted, although it was accepted before (INV12)"})
	}
	p.known[digestOf(f.Task)] = accepted{ended: f.Time, remember: b.RememberFor.Std(), scheduled: true, never: true}.of(&b.Parent)
	p.count.Ended["rejected"]++
	p.relatives.ends(b.Parent.Link, f.Task, f.Body.Name(), at)
}

// of notes the parent of a task, which may be nil.
func (k accepted) of(p *events.ParentLink) accepted {
	if p != nil {
		k.parent, k.child, k.kept = printStep(p.Link), true, !p.Detach
	}
	return k
}

// ofCarried notes the parent of a task that is carried, which may be nil.
func (k accepted) ofCarried(p *events.Parent) accepted {
	if p == nil {
		return k
	}
	k = k.of(&p.ParentLink)
	k.child, k.kept = !p.Released, p.Kept()
	return k
}

// printStep stands for the step that a link is of: a hash, and never zero.
func printStep(l events.Link) uint64 {
	sum := sha256.Sum256([]byte(l.Task + "\x00" + l.Incarnation + "\x00" + l.Path))
	return binary.BigEndian.Uint64(sum[:]) | 1
}

// answeredAgain checks that what a task says about itself is true.
func answeredAgain(p *partition, f *events.Fact, a *events.ChildAnswer, wrong func(format string, args ...any)) {
	k, ok := p.known[digestOf(f.Task)]
	own := ok && k.parent == printStep(a.Link)
	switch a.State {
	case events.ChildLost:
		if own && !k.never {
			wrong("it answers that nobody knows of it, and it was accepted")
		}
	case events.ChildProcessed, events.ChildUndone, events.ChildTerminated, events.ChildRefuses, events.ChildAccepted:
		if ok && !own {
			wrong("it answers step %q of task %q as its child, and is not", a.Link.Path, a.Link.Task)
		}
	}
	if live := p.live[f.Task] != nil || k.ended == 0; ok && live && (a.State == events.ChildProcessed || a.State == events.ChildUndone || a.State == events.ChildTerminated) {
		wrong("it answers that it is %s, and it has not ended", a.State)
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
	keep(p, f.Task, func(k *accepted) { k.tries = max(0, k.tries-len(b.Children)) })
	for _, c := range b.Children {
		if x := p.relatives.trials[relationOf(c.Link)]; x != nil {
			if x.released || x.child != c.Child {
				wrong("it releases task %s, which is not its child of that attempt, or was released before", c.Child)
			}
			x.released = true
		}
	}
}
