package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// atRest says whether nothing is left to do: the time of late appends is over, and every promise is kept.
func (w *World) atRest() bool {
	return w.healed && w.agenda.onlyTicks(w) && w.unrest() == ""
}

// onlyTicks says whether nothing but ticks is planned.
func (a agenda) onlyTicks(w *World) bool {
	up := 0
	for _, n := range w.nodes {
		if n.up {
			up++
		}
	}
	return len(a) <= up
}

// unrest says what is still to be done.
func (w *World) unrest() string {
	var left []string
	for i, p := range w.parts {
		s := w.nodes[w.group[i]].slots[i]
		if !s.owner.Status().Owning {
			left = append(left, fmt.Sprintf("partition %d is not owned: %+v", i, s.owner.Status()))
			continue
		}
		for _, in := range bothInputs {
			if next := p.state.Partition.Inputs[in].Next; next != p.inputs.of(in).end() {
				left = append(left, fmt.Sprintf("partition %d has passed %s up to %d of %d", i, in, next, p.inputs.of(in).end()))
			}
		}
		if s.store.Next() != p.log.end() {
			left = append(left, fmt.Sprintf("partition %d is committed up to %d of %d", i, s.store.Next(), p.log.end()))
		}
		if key := p.unsettled(); key != "" {
			left = append(left, fmt.Sprintf("partition %d has its watermark below %s", i, key))
		}
		if _, offset := w.settings.last(); p.state.Partition.SettingsOffset != offset {
			left = append(left, fmt.Sprintf("partition %d has the settings of offset %d and not of %d", i, p.state.Partition.SettingsOffset, offset))
		}
		if level := w.levels.level; level > olderBuild && p.barrier != level {
			left = append(left, fmt.Sprintf("partition %d has the barrier %d and not %d", i, p.barrier, level))
		}
		for to := range p.state.Partition.Delayed {
			if !w.outage.holds(to) {
				left = append(left, fmt.Sprintf("partition %d has delayed effects for %s", i, to))
			}
		}
		if at := p.state.Partition.Time; w.clocks.compared && (p.state.Partition.Correcting != 0 || at.Sub(w.now) > events.TimeCorrectable+5*time.Second) {
			left = append(left, fmt.Sprintf("partition %d has the time %s, which is not corrected", i, at))
		}
		for _, h := range p.state.Held() {
			if h.Request.Kind == events.RequestSignal {
				continue // it may wait for a day
			}
			left = append(left, fmt.Sprintf("a request of %q is held", h.Request.Task))
		}
		left = append(left, p.schedules.unrest()...)
		p.state.Loaded(func(t *events.Task) bool {
			if !w.families.mayRest(t) {
				left = append(left, fmt.Sprintf("task %q is %s", t.ID, t.State))
			}
			// (A deadline may be hours away.)
			for _, m := range t.Timers() {
				if w.clocks.compared && (m.Kind != events.TimerReminder || p.state.Partition.Settings.RemindAfter > 0) && m.Kind != events.TimerDeadline && m.Due.Sub(w.now) > 4*time.Hour {
					left = append(left, fmt.Sprintf("task %q has the timer %s at %s", t.ID, m.Kind, m.Due))
				}
			}
			return true
		})
	}
	if why := PermitRest(statesOf(w), lastly); why != "" {
		left = append(left, why)
	}
	if why := w.families.unrest(); why != "" {
		left = append(left, why)
	}
	slices.Sort(left) // parts of it come from maps
	return strings.Join(left, "; ")
}

// finish checks what must hold when the world is at rest.
func (w *World) finish() {
	for _, p := range w.parts {
		w.report.Digest ^= p.digest
		if w.violation != "" {
			continue
		}
		p.inputs.accounted()
		p.undoneForGood()
		p.doneForGood()
		p.stores()
		p.sumsUp(p.state.Sum())
		if w.opt.Twin || w.aside.IntN(16) == 0 { // it costs as much as all other checks together
			p.replays()
		}
	}
	if w.violation == "" {
		w.schedules.started()
	}
}

// accounted checks INV12: every acknowledged input had an outcome.
func (q *inputs) accounted() {
	for _, in := range bothInputs {
		t := q.of(in)
		for o := range t.records {
			if q.p.closed && int64(o) >= q.p.state.Partition.Inputs[in].Next {
				break // it is an input of the copy
			}
			q.account(in, int64(o), t.meta[o])
		}
	}
}

func (q *inputs) account(in events.Input, o int64, m *meta) {
	cause := events.CauseInput(in, q.p.id, o)
	f := q.facts[cause]
	if f == nil && q.givenUp(in, o) {
		return
	}
	if f == nil {
		if m.Kind == InputSubmission && events.Home(m.Task, q.p.rules.Partitions) != q.p.id {
			if !q.arrivedAtHome(cause, in, m) {
				q.w.fail("INV12: the misplaced submission %s of %q has no outcome", cause, m.Task)
			}
			return
		}
		if m.Kind == InputSubmission && !q.content[m.Task][m.Content] {
			q.w.fail("INV12: the submission %s of %q has no outcome", cause, m.Task)
		}
		return
	}
	switch f.Body.(type) {
	case *events.InputRejected:
		_, _, first, _ := f.Cause.Input()
		if !q.deadLettered(in, first, events.FactID(f, q.p.id)) {
			q.w.fail("INV12: %s was rejected and has no dead letter with its bytes", cause)
		}
	case *events.InputForwarded:
		if !q.arrivedAtHome(cause, in, m) && !q.deadLettered(in, o, "") {
			q.w.fail("INV12: %s was forwarded and arrived nowhere", cause)
		}
	case *events.RequestHeld:
		// It was consumed by the acceptance of its task, or expired with a dead letter, or is held again in a copy.
		if q.p.closed && slices.ContainsFunc(q.p.state.HeldFor(m.Task), func(h *events.HeldRequest) bool { return h.Cause == cause }) {
			return
		}
		if q.content[m.Task] == nil && m.Request.Kind != events.RequestSignal && !q.deadLettered(in, o, "") {
			q.w.fail("INV12: the held request %s has no outcome", cause)
		}
	}
}

// arrivedAtHome says whether a copy of the input landed in its home partition.
func (q *inputs) arrivedAtHome(cause events.Cause, in events.Input, m *meta) bool {
	for _, h := range peers(q.p)[events.Home(m.Task, q.p.rules.Partitions)].inputs.of(in).meta {
		if h.origin == cause {
			return true
		}
	}
	return false
}

// deadLettered says whether the dead letters contain the input with its bytes and coordinates.
func (q *inputs) deadLettered(in events.Input, o int64, fact string) bool {
	if q.w.outage.holds("dlq." + string(in)) {
		return true // as far as a reader can see
	}
	r := &q.of(in).records[o]
	for _, d := range q.dead {
		if d.in == in && d.record.Header(supervisor.DeadOffset) == fmt.Sprint(o) && (fact == "" || d.record.Header(supervisor.DeadFact) == fact) {
			if !bytes.Equal(d.record.Value, r.Value) || !bytes.Equal(d.record.Key, r.Key) {
				q.w.fail("the dead letter of %s offset %d has other bytes", in, o)
			}
			return true
		}
	}
	return false
}

// mustBeGone records which effects of an undone task must be gone.
func (p *partition) mustBeGone(t *events.Task) {
	g := p.sagas.byTask[t.ID]
	if g == nil {
		return // it is accepted nowhere, which is reported
	}
	if p.w.unpromised[lifeOf(p, t.ID)] {
		return
	}
	for _, s := range g.steps {
		if s.def.Undo != nil && !s.undoneByHand {
			mustBeUndone(p, t.ID, s)
		}
	}
}

// mustBeUndone records that the effect of a step, in its run, must be gone from the agents. A child that undoes it is judged as a task.
func mustBeUndone(p *partition, task string, s *sagaStep) {
	if s.undoneByChild() {
		return
	}
	do := events.Work{Task: task, Ticket: p.ticket(task), Run: s.run, Step: s.def.ID}
	p.undone[p.w.doKey(&do)] = fmt.Sprintf("step %q of run %d of task %q", s.def.ID, s.run, task)
}

// lifeOf names a task and its ticket.
func lifeOf(p *partition, task string) string { return task + " " + p.ticket(task) }

// mustBeThere records which effects of a processed task must be there, as long as it is not rerun.
func (p *partition) mustBeThere(t *events.Task) {
	if p.w.unpromised[lifeOf(p, t.ID)] {
		return
	}
	done := map[string]string{}
	p.done[lifeOf(p, t.ID)] = done
	for _, s := range t.Steps {
		if g := p.sagas.byTask[t.ID]; s.Completion > 0 && s.ByChild == nil && s.Attempted() && (g == nil || !g.steps[s.Path].doneByHand) {
			do := events.Work{Task: t.ID, Ticket: t.Incarnation, Run: events.RunOf(s.Run), Step: s.Path}
			done[p.w.doKey(&do)] = fmt.Sprintf("step %q of task %q", s.Path, t.ID)
		}
	}
}

// doneForGood checks that the effects of a processed task are there.
func (p *partition) doneForGood() {
	for _, effects := range p.done {
		for key, step := range effects {
			if l := p.w.agents.entry(key); !l.applied && !l.lied {
				p.w.fail("the task is processed, but an effect is not there: %s", step)
			}
		}
	}
}

// undoneForGood checks that no effect of an undone task is left at the agents, even if the task has been forgotten since.
func (p *partition) undoneForGood() {
	for key, step := range p.undone {
		if l := p.w.agents.ledger[key]; l != nil && l.applied {
			p.w.fail("the task is undone, but an effect is still there: %s", step)
		}
	}
}

// stores checks that every node's store is the fold of the log up to its offset.
func (p *partition) stores() {
	for _, n := range p.w.nodes {
		s := n.slots[p.id]
		if s.store.Next() > 0 && s.store.Sum() != p.sums[s.store.Next()-1] {
			p.w.fail("INV2: the store of %s for partition %d is not the fold of the log", n.name, p.id)
		}
	}
}
