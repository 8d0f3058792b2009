package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"

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

// pauseLimits plans that operators pause limits, and let most of them go on. (It draws from a separate stream, so that other seeds stay as they are.)
func (c *clients) pauseLimits() {
	w := c.w
	dice := rand.New(rand.NewPCG(w.aside.Uint64(), 0x11417))
	for _, limit := range limitsOfClients {
		for dice.IntN(4) == 0 {
			at := dice.IntN(int(w.opt.Chaos.Milliseconds()))
			w.after(at, func() { c.askLimit(limit, events.RequestPause, dice.IntN(4)) })
			w.after(at+dice.IntN(8000), func() { c.askLimit(limit, events.RequestResume, dice.IntN(4)) })
		}
	}
}

// limitsOfClients are the limits that clients pause and resume.
var limitsOfClients = []string{"concurrency/lone/k", "concurrency/few/true", "concurrency/few/false", gate}

// askLimit sends a request about a limit, in a few cases to another partition or twice.
func (c *clients) askLimit(limit string, verb events.Verb, odd int) {
	w := c.w
	if w.healed {
		return
	}
	c.requests++
	x, r, err := OfLimit(fmt.Sprintf("q%d", c.requests), limit, verb, w.now)
	if err != nil {
		w.fail("a request about a limit cannot be encoded: %v", err)
		return
	}
	home := events.Home(limit, w.opt.Partitions)
	switch odd {
	case 0:
		home = (home + 1) % w.opt.Partitions
	case 1:
		w.parts[home].inputs.put(events.Reports, r, &meta{Input: x})
	}
	w.parts[home].inputs.put(events.Reports, r, &meta{Input: x})
}

// speaks checks that a record about a permit says what its fact says.
func (e *effects) speaks(f *events.Fact, a *supervisor.Send) {
	var m events.PermitMessage
	why := "it cannot be read"
	if err := json.Unmarshal(a.Record.Value, &m); err == nil {
		why = SaysPermit(f, &a.Record, m, int32(len(peers(e.p))))
	}
	if why != "" || a.Topic != string(events.Reports) {
		e.w.fail("INV8: the record about a permit of %s: %s (to %s)", events.FactID(f, e.p.id), why, a.Topic)
	}
}

// permits checks a fact about a permit, and counts what happens to permits.
func (p *partition) permits(f *events.Fact) {
	right := func(at events.Instant) events.Instant {
		if at == f.Time { // the owner's clock may be behind that of agents and services
			return max(at, p.w.now)
		}
		return at
	}
	if !p.w.clocks.hold() {
		right = func(events.Instant) events.Instant { return 0 } // which of two times is later says nothing
	}
	w := p.w
	if !w.limitless {
		p.rules.Permits(f, statesOf(p.w), right)
	}
	if events.Home(gate, w.opt.Partitions) == p.id {
		w.namedLimits.given.See(gate, f)
	}
	w.namedLimits.see(f, p.state)
	switch b := f.Body.(type) {
	case *events.Submitted:
		if why := p.sagas.byTask[f.Task].needsPermit(b); why != "" {
			w.fail("%s (task %q)", why, f.Task)
		}
	case *events.PermitAsked:
		if b.Repeat {
			w.saw(sawPermitRepeated)
		}
	case *events.PermitBlocked:
		w.saw(sawPermitBlocked)
	case *events.PermitReturned:
		w.saw(sawPermitReturned)
	case *events.PermitReleased:
		if b.Link.Path != "" {
			return
		}
		if g := p.sagas.byTask[f.Task]; g != nil && g.parked {
			w.saw(sawPermitParked)
		} else {
			w.saw(sawPermitUnused)
		}
	case *events.LimitPaused:
		if p.state.Limits.Get(b.Limit) != nil {
			w.saw(sawLimitPaused)
		}
	case *events.LimitResumed:
		if p.state.Limits.Get(b.Limit).Next() != nil {
			w.saw(sawLimitResumed)
		}
	case *events.PermitsDecided:
		switch {
		case b.Ending != nil:
			w.saw(sawPermitInDoubt)
		case b.Asked != nil && b.Asked.Link.Path != "":
		case b.Asked != nil && b.Granted == nil:
			w.saw(sawPermitWaits)
		case b.Released != nil && b.Granted != nil:
			w.saw(sawPermitGiven)
		}
	}
}

// keepsWaiting names a parked task that has a permit for which others wait, and about which no alert was raised since it was parked; "" without
// one.
func keepsWaiting(w *World) (id string) {
	for _, p := range w.parts {
		p.state.Loaded(func(t *events.Task) bool {
			x := t.Permit
			if t.State != events.TaskStateError || x == nil || x.State != events.PermitStateGranted || x.BlockedAt > t.ParkedAt {
				return true
			}
			if l := w.parts[events.Home(x.Limit, w.opt.Partitions)].state.Limits.Get(x.Limit); l != nil && l.Next() != nil {
				id = t.ID
			}
			return id == ""
		})
		if id != "" {
			return id
		}
	}
	return ""
}

// awaitBlocked waits until an alert is raised about each of these tasks: the limit tells it in time that others wait.
func awaitBlocked(w *World) {
	w.patient = true
	w.loop(w.now.Add(events.TellAfter+events.BlocksAfter+healing), func() bool { return keepsWaiting(w) == "" })
	if id := keepsWaiting(w); id != "" && w.violation == "" && w.clocks.hold() {
		w.fail("nobody says that others wait for the permit of %q, which is parked", id)
	}
	w.loop(w.now.Add(healing), w.atRest)
}
