package sim

import (
	"bytes"
	"fmt"
	"strings"

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

// unrest says what is left to do.
func (w *World) unrest() string {
	var left []string
	for i, p := range w.parts {
		s := w.nodes[w.group[i]].slots[i]
		if !s.owner.Owning() {
			left = append(left, fmt.Sprintf("partition %d is not owned: %+v", i, s.owner.Status()))
			continue
		}
		for _, in := range bothInputs {
			if next := p.state.Partition.Inputs[in].Next; next != p.input(in).end() {
				left = append(left, fmt.Sprintf("partition %d has passed %s up to %d of %d", i, in, next, p.input(in).end()))
			}
		}
		if s.store.Next() != p.log.end() {
			left = append(left, fmt.Sprintf("partition %d is committed up to %d of %d", i, s.store.Next(), p.log.end()))
		}
		if len(p.owed) > 0 {
			left = append(left, fmt.Sprintf("partition %d has not settled %s", i, p.owed[0].key))
		}
		for _, h := range p.state.Held() {
			left = append(left, fmt.Sprintf("a request of %q is held", h.Request.Task))
		}
		p.state.Loaded(func(t *events.Task) bool {
			if !t.State.Ended() && t.State != events.Parked {
				left = append(left, fmt.Sprintf("task %q is %s", t.ID, t.State))
			}
			return true
		})
	}
	return strings.Join(left, "; ")
}

// finish checks what must hold when the world is at rest.
func (w *World) finish() {
	for _, p := range w.parts {
		w.report.Digest ^= p.digest
		if w.violation != "" {
			continue
		}
		p.accounted()
		p.undoneForGood()
		p.stores()
		p.sumsUp(p.state.Sum())
		if w.opt.Twin || w.aside.IntN(16) == 0 { // it costs as much as all the rest
			p.replays()
		}
	}
}

// accounted checks INV12: every input that was acknowledged came to something.
func (p *partition) accounted() {
	for _, in := range bothInputs {
		t := p.input(in)
		for o := range t.records {
			p.account(in, int64(o), t.meta[o])
		}
	}
}

func (p *partition) account(in events.Input, o int64, m *meta) {
	cause := events.CauseInput(in, p.id, o)
	f := p.byCause[cause]
	if f == nil {
		if m.kind == metaSubmission && events.Home(m.task, p.w.opt.Partitions) != p.id {
			if !p.arrivedAtHome(cause, in, m) {
				p.w.fail("INV12: the misplaced submission %s of %q came to nothing", cause, m.task)
			}
			return
		}
		if m.kind == metaSubmission && !p.content[m.task][m.content] {
			p.w.fail("INV12: the submission %s of %q came to nothing", cause, m.task)
		}
		return
	}
	switch f.Body.(type) {
	case *events.InputRejected:
		if !p.deadLettered(in, o, events.FactID(f, p.id)) {
			p.w.fail("INV12: %s was rejected and has no dead letter with its bytes", cause)
		}
	case *events.InputForwarded:
		if !p.arrivedAtHome(cause, in, m) && !p.deadLettered(in, o, "") {
			p.w.fail("INV12: %s was forwarded and arrived nowhere", cause)
		}
	case *events.RequestHeld:
		// Consumed by the acceptance of its task, or expired with a dead letter.
		if p.content[m.task] == nil && !p.deadLettered(in, o, "") {
			p.w.fail("INV12: the held request %s came to nothing", cause)
		}
	}
}

// arrivedAtHome says whether a copy of the input landed in its home partition.
func (p *partition) arrivedAtHome(cause events.Cause, in events.Input, m *meta) bool {
	for _, h := range p.w.parts[events.Home(m.task, p.w.opt.Partitions)].input(in).meta {
		if h.origin == cause {
			return true
		}
	}
	return false
}

// deadLettered says whether the input stands in the dead letters with its bytes and coordinates.
func (p *partition) deadLettered(in events.Input, o int64, fact string) bool {
	r := &p.input(in).records[o]
	for _, d := range p.dead {
		if d.in == in && d.record.Header(supervisor.DeadOffset) == fmt.Sprint(o) && (fact == "" || d.record.Header(supervisor.DeadFact) == fact) {
			if !bytes.Equal(d.record.Value, r.Value) || !bytes.Equal(d.record.Key, r.Key) {
				p.w.fail("the dead letter of %s offset %d has other bytes", in, o)
			}
			return true
		}
	}
	return false
}

// undoneForGood checks that nothing of an undone task is left outside.
func (p *partition) undoneForGood() {
	for id := range p.undone {
		t, _ := p.state.Task(id)
		if t == nil {
			continue
		}
		for _, s := range definitionOf(t.Definition).Steps {
			if l := p.w.agents.ledger[ledgerKey(id, s.ID)]; s.Undo != nil && l != nil && l.applied {
				p.w.fail("task %q is undone, and what its step %q did is still there", id, s.ID)
			}
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
