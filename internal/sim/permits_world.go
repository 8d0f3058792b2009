package sim

import (
	"encoding/json"
	"math"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// lastly is later than every time of a permit.
const lastly events.Instant = math.MaxInt64

// statesOf returns the folds of all partitions.
func statesOf(w *World) (all []*events.State) {
	for _, p := range w.parts {
		all = append(all, p.state)
	}
	return all
}

// permitLands lands a record about a permit.
func permitLands(w *World, r *events.Record) {
	var m events.PermitMessage
	if err := json.Unmarshal(r.Value, &m); err != nil {
		w.fail("a record about a permit cannot be read: %v", err)
		return
	}
	x := OfPermit(r, m)
	w.parts[r.Partition].inputs.put(events.Reports, *r, &meta{Input: x})
}

// speaks checks that a record about a permit says what its fact says.
func (e *effects) speaks(f *events.Fact, a *supervisor.Send) {
	var m events.PermitMessage
	why := "it cannot be read"
	if err := json.Unmarshal(a.Record.Value, &m); err == nil {
		why = SaysPermit(f, &a.Record, m, e.w.opt.Partitions)
	}
	if why != "" || a.Topic != string(events.Reports) {
		e.w.fail("INV8: the record about a permit of %s: %s (to %s)", events.FactID(f, e.p.id), why, a.Topic)
	}
}

// permits checks a fact about a permit, and counts what happens to permits.
func (p *partition) permits(f *events.Fact) {
	right := func(at events.Instant) events.Instant { return at }
	if !p.w.clocks.hold() {
		right = func(events.Instant) events.Instant { return 0 } // which of two times is later says nothing
	}
	p.rules.Permits(f, statesOf(p.w), right)
	w := p.w
	switch b := f.Body.(type) {
	case *events.Submitted:
		if why := p.sagas.byTask[f.Task].needsPermit(b); why != "" {
			w.fail("%s (task %q)", why, f.Task)
		}
	case *events.PermitAsked:
		if b.Repeat {
			w.saw(sawPermitRepeated)
		}
	case *events.PermitReturned:
		w.saw(sawPermitReturned)
	case *events.PermitReleased:
		if g := p.sagas.byTask[f.Task]; g != nil && g.parked {
			w.saw(sawPermitParked)
		} else {
			w.saw(sawPermitUnused)
		}
	case *events.PermitsDecided:
		switch {
		case b.Ending != nil:
			w.saw(sawPermitInDoubt)
		case b.Asked != nil && b.Granted == nil:
			w.saw(sawPermitWaits)
		case b.Released != nil && b.Granted != nil:
			w.saw(sawPermitGiven)
		}
	}
}
