package verify

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// relation names a try of a step.
type relation struct {
	task, incarnation, path string
	n                       int
}

func relationOf(l events.Link) relation { return relation{l.Task, l.Incarnation, l.Path, l.N} }

// trial is a try as the facts of the parent tell it.
type trial struct {
	child string
	place Place
	// awaits says that the attempt runs, processed and undone what the parent recorded, and never that the child was not accepted.
	awaits, processed, undone, never bool
	detached, released               bool
	// carried says that it began before the log.
	carried bool
}

// offspring is a child as its own facts tell it.
type offspring struct {
	id    string
	place Place
	// end is the fact that ended it last, "" while it is live, and processed says that it was processed once.
	end       events.Name
	processed bool
	released  bool
	carried   bool
}

// relatives compares what parents and children say about each other. They are in different partitions, so both are kept to the end.
type relatives struct {
	trials   map[relation]*trial
	children map[relation]*offspring
}

func newRelatives() relatives {
	return relatives{map[relation]*trial{}, map[relation]*offspring{}}
}

func (r relatives) starts(of relation, x *trial) {
	if r.trials[of] == nil {
		r.trials[of] = x
	}
}

// begins takes the acceptance of a child, and says what is wrong with it: a try has one child, which is accepted once, and never after it was refused.
func (r relatives) begins(l events.Link, id string, at Place) (wrong string) {
	if x := r.children[relationOf(l)]; x != nil {
		was := "accepted"
		if x.end == events.NameChildRefused {
			was = "refused"
		}
		wrong = fmt.Sprintf("it is accepted as the child of attempt %d of step %q of task %q, as which task %s was %s before", l.N, l.Path, l.Task, x.id, was)
	}
	r.children[relationOf(l)] = &offspring{id: id, place: at}
	return wrong
}

func (r relatives) ends(l events.Link, id string, by events.Name, at Place) {
	x := r.children[relationOf(l)]
	if x == nil {
		x = &offspring{id: id}
		r.children[relationOf(l)] = x
	}
	x.place, x.end = at, by
	x.processed = x.processed || by == events.NameTaskProcessed
}

func (r relatives) goesOn(l events.Link) {
	if x := r.children[relationOf(l)]; x != nil {
		x.end = ""
	}
}

func (r relatives) released(l events.Link) {
	if x := r.children[relationOf(l)]; x != nil {
		x.released = true
	}
}

// compare checks at the end of all logs that parents and children say the same.
func (r relatives) compare(c *check) {
	if c.partial() {
		return
	}
	for of, x := range r.children {
		wrong := func(format string, args ...any) {
			c.book.add(Finding{Check: CheckAttempts, Kind: "relatives", Place: x.place, Task: x.id, What: fmt.Sprintf(format, args...)})
		}
		switch t := r.trials[of]; {
		case t == nil && !x.carried && !c.parentCut(of) && x.end != events.NameChildRefused:
			wrong("it is the child of attempt %d of step %q of task %q, which no fact of that task starts", of.n, of.path, of.task)
		case t == nil:
		case t.child != x.id:
			wrong("it is the child of attempt %d of step %q of task %q, which started task %s", of.n, of.path, of.task, t.child)
		case c.cfg.AtRest && t.awaits && x.end != "":
			wrong("it ended with %s, and its parent %s still waits for it", x.end, of.task)
		}
	}
	for of, t := range r.trials {
		wrong := func(format string, args ...any) {
			c.book.add(Finding{Check: CheckAttempts, Kind: "relatives", Place: t.place, Task: of.task, Step: of.path, What: fmt.Sprintf(format, args...)})
		}
		x := r.children[of]
		switch {
		case x == nil && (t.carried || c.cuts[events.Home(t.child, c.number)] != nil || t.detached):
		case x == nil && (t.processed || t.undone && !t.never):
			wrong("attempt %d says how its child %s ended, which was never accepted", of.n, t.child)
		case x == nil && c.cfg.AtRest && t.awaits:
			wrong("attempt %d waits for its child %s, which was never accepted", of.n, t.child)
		case x == nil || x.carried || t.carried:
		case t.processed && !x.processed && !t.detached:
			wrong("attempt %d says that its child %s is processed, which it never was", of.n, t.child)
		case t.undone && !t.never && x.end != events.NameTaskUndone && x.end != events.NameChildRefused:
			wrong("attempt %d says that its child %s is undone, which ended with %q", of.n, t.child, x.end)
		case t.never && x.end != events.NameChildRefused:
			wrong("attempt %d says that its child %s was not accepted, which it was", of.n, t.child)
		}
	}
}

// parentCut says whether the facts that began the parent are gone.
func (c *check) parentCut(of relation) bool {
	pos, err := events.ParsePosition(of.incarnation)
	return err == nil && c.beforeCut(events.Home(of.task, c.number), pos)
}

// saysOfChild notes what a parent records about a child.
func saysOfChild(t *telling, id string, op events.Operation, attempt int) {
	x := t.relatives.trials[relation{t.story.id, t.story.incarnation, id, attempt}]
	if op == events.Undo {
		x = nil
		if y := t.toUndo(id); y != nil {
			x = t.relatives.trials[relation{t.story.id, t.story.incarnation, id, y.n}]
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
