package sim

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// sagaPermit is the judge's own account of the permit of a task.
type sagaPermit struct {
	limit, task    string
	incarnation    string
	n              int
	asked, granted bool
}

// newSagaPermit works out which limit a task has, nil if none, from its workflow and its input.
func newSagaPermit(f *events.Fact, b *events.Submitted) *sagaPermit {
	var in struct {
		Extra bool `json:"extra"`
	}
	p := &sagaPermit{task: f.Task, incarnation: f.Position().String()}
	_ = json.Unmarshal(b.Input, &in) // without the member, it is as if it were false
	switch {
	case b.Workflow == "lone" && in.Extra:
		p.limit = "concurrency/lone/k"
	case b.Workflow == "few" && in.Extra:
		p.limit = "concurrency/few/true"
	case b.Workflow == "few":
		p.limit = "concurrency/few/false"
	default:
		return nil
	}
	return p
}

// needsPermit checks the limit that a task was accepted with.
func (g *saga) needsPermit(b *events.Submitted) string {
	c := b.Concurrency
	if (c == nil) != (g.permit == nil) || c != nil && (c.Limit != g.permit.limit || c.Max != g.def.Concurrency.Max || string(c.Parked) != g.def.Concurrency.Parked) {
		return "a task has another limit than its workflow gives it"
	}
	return ""
}

// has says whether a step may start.
func (p *sagaPermit) has() bool { return p == nil || p.granted }

// agrees compares it with the folded task.
func (p *sagaPermit) agrees(t *events.Task) bool {
	if p == nil || t.Permit == nil {
		return p == nil && t.Permit == nil
	}
	return p.n == t.Permit.N && p.asked == (t.Permit.State == events.PermitStateAsked) && p.granted == (t.Permit.State == events.PermitStateGranted)
}

// permits adds a fact about the permit of a task, or says which promise it breaks.
func (g *saga) permits(f *events.Fact) string {
	if link := linkOf(f); link.Path != "" {
		return g.permitsOfStep(f)
	}
	p := g.permit
	if p == nil {
		return "a task without a limit has a permit"
	}
	switch b := f.Body.(type) {
	case *events.PermitAsked:
		switch {
		case p.granted || b.Repeat != p.asked || b.Limit != p.limit || b.Max != g.def.Concurrency.Max:
			return "a task asks for a permit that it has, or for another one"
		case !b.Repeat && (g.undoing || g.parked || g.paused || g.parkDue || g.early.until != 0):
			return "a task that does not go on asks for a permit"
		case !b.Repeat:
			p.n++
		}
		if p.asked = true; b.Link != p.link() {
			return "an ask is named wrong"
		}
	case *events.PermitGranted:
		if !p.asked || b.Link != p.link() {
			return "a task gets a permit for which it has not asked"
		}
		p.asked, p.granted = false, true
	case *events.PermitBlocked:
		if !p.granted || !g.parked || b.Link != p.link() || b.Waiting < 1 {
			return "others wait for a task that is not parked or has no permit"
		}
	case *events.PermitReleased:
		switch {
		case g.runs():
			return "a task gives its permit back while an attempt of it runs"
		case g.paused && g.fresh(), g.undoing && p.asked, g.parked && g.def.Concurrency.Parked == string(events.PermitRelease):
		default:
			return "a task gives back a permit that it needs"
		}
		return g.releases(b)
	}
	return ""
}

// link is the name of what the task asked for last.
func (p *sagaPermit) link() events.Link {
	return events.Link{Task: p.task, Incarnation: p.incarnation, Run: 1, N: p.n}
}

// fresh says whether no step has begun.
func (g *saga) fresh() bool {
	for _, s := range g.steps {
		if s.attempt > 0 || s.wait != nil || s.fans || s.over() || s.queued || s.failed || s.undone {
			return false
		}
	}
	return true
}

// releases checks that a permit is given back if there is one, until when nobody else may have it.
func (g *saga) releases(b *events.PermitReleased) string {
	p := g.permit
	open := p != nil && (p.asked || p.granted)
	switch {
	case open != (b != nil):
		return "a permit is not given back, or one that the task does not have"
	case open && (b.Limit != p.limit || b.Link != p.link() || b.QuietAt != g.quiet):
		return "another permit is given back, or too early"
	case open:
		p.asked, p.granted = false, false
	}
	return ""
}
