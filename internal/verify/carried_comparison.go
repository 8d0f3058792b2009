package verify

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// unlike says in what the carried task differs from the story of its facts; "" if in nothing that both know.
func unlike(p *partition, carried *story, known accepted, ok bool, t *events.Task) string {
	switch {
	case !ok:
		return "no fact accepted it"
	case known.content != contentOf(t.Content):
		return fmt.Sprintf("its content is %s", t.Content)
	case known.ended != t.EndedAt && carried.end != "":
		return fmt.Sprintf("it ended at %s, and by its facts at %s", t.EndedAt, known.ended)
	}
	live := p.live[t.ID]
	if (live == nil) != (carried.end != "") {
		return fmt.Sprintf("it has ended: %t, and by its facts: %t", carried.end != "", live == nil)
	}
	if live == nil {
		return ""
	}
	a, b := live.sameFacets(), carried.sameFacets()
	for _, of := range slices.Sorted(maps.Keys(a)) {
		if a[of] != b[of] {
			return fmt.Sprintf("%s is %s, and by its facts %s", of, b[of], a[of])
		}
	}
	for of := range b {
		if _, ok := a[of]; !ok {
			return fmt.Sprintf("%s is %s, and its facts do not tell of it", of, b[of])
		}
	}
	return ""
}

// sameFacets returns what must be the same in the story of its facts and in the carried one.
func (s *story) sameFacets() map[string]string {
	all := map[string]string{}
	say := func(name string, values ...any) { all[name] = fmt.Sprintln(values...) }
	say("its incarnation", s.incarnation, s.workflow, s.began)
	say("its state", s.back, s.parked, s.paused, s.parkDue, s.run, s.completed, s.expired)
	say("its deadline", s.deadline, s.deadlineWithin, s.haltedAt, s.reopenedAt, s.early.until)
	say("its soft limit", s.soft)
	say("its quiet time", s.quiet)
	if s.parked {
		say("its reminders", s.parkedAt, s.reminders, s.remindAt)
	}
	say("its requests", slices.Sorted(maps.Keys(s.requests)))
	for _, k := range s.kept {
		say("the signal "+k.request, k.name)
	}
	if s.permit != nil {
		say("its permit", *s.permit)
	}
	for of, x := range s.limits.open {
		say("the permit of the "+string(of.op)+" of step "+of.step, x.limit, x.n, x.granted, x.used)
	}
	if s.parent != nil {
		say("its parent", *s.parent, s.asked)
	}
	if s.again != nil {
		say("its rerun", slices.Sorted(slices.Values(s.again.steps)))
	}
	for _, st := range s.steps {
		st.sameFacets(s, func(name string, values ...any) { say(name+" of step "+st.id, values...) })
	}
	return all
}

func (st *step) sameFacets(s *story, say func(name string, values ...any)) {
	say("the state", st.run, st.touched, st.completion, st.undone, st.undoFailed, st.queued)
	if !s.back {
		say("the end", st.over(), st.failed)
	}
	if tries := s.tries[st.id]; len(tries) > 0 {
		say("the children", tries)
	}
	if st.items != nil {
		say("the items", *st.items)
	}
	if st.wait != nil {
		say("the wait", *st.wait)
	}
	for _, op := range []events.Operation{events.Do, events.Undo} {
		w := st.work(op)
		say("the attempts of the "+string(op), w.attempts, w.earlier, w.running, w.waiting)
		switch {
		case w.running:
			say("the running "+string(op), w.agent, w.child, w.startedAt, w.completeBy, w.heartbeat, w.capBy, w.startBy)
		case w.waiting:
			say("the next "+string(op), w.retryAt, w.startBy)
		}
	}
	if x := s.undos[st.id]; x != nil && (x.left || x.quiet != 0) {
		say("the undo in doubt", *x)
	}
}
