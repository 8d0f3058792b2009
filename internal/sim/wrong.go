package sim

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// right says whether most brokers and nodes would find that the node's clock shows the time.
func (n *node) right() bool { return n.ahead.Abs() <= 5*time.Second }

// compares says whether the node knows that its clock is right, or knows that it is wrong.
func (n *node) compares() (agreed, doubted bool) {
	return n.w.clocks.compared && n.right(), n.w.clocks.compared && !n.right()
}

// misset replaces a node's process by one whose clock is ahead. It owns some partitions, and nobody notices until the clocks are compared.
func (c *clocks) misset() {
	w := c.w
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !n.up {
		return
	}
	n.crash(9) // its store is kept
	n.ahead = []time.Duration{10 * time.Minute, 5 * time.Hour, farAhead}[w.rng.IntN(3)]
	c.compared = false
	w.note("the clock of %s is %s ahead", n.name, n.ahead)
	for p, old := range w.group {
		if old != n.index && w.rng.IntN(3) > 0 {
			w.nodes[old].assign(p, false)
			w.group[p] = n.index
		}
	}
	w.after(100+w.rng.IntN(2000), func() {
		if !n.up {
			n.restart()
		}
	})
	w.after(2000+w.rng.IntN(20_000), func() {
		if !w.healed {
			c.compare()
		}
	})
}

const farAhead = 8 * 24 * time.Hour

// compare lets all nodes compare their clocks, after somebody has set those that were wrong.
func (c *clocks) compare() {
	c.w.note("the clocks are set and compared")
	c.compared = true
	for _, n := range c.w.nodes {
		if !n.right() {
			n.ahead = 0
		}
	}
}

// correction checks that the time is corrected to the right time, and to one at which the epoch had been claimed.
func (p *partition) correction(f *events.Fact, b *events.TimeCorrected) {
	w := p.w
	switch claimed := p.log.landedAt[p.claims[p.epoch.ID]]; {
	case f.Task != "" || b.Settled:
		if f.Task == "" && p.correctedIn != p.epoch {
			w.saw(sawCorrectedAgain)
		}
	case b.To.Sub(w.now) > 5*time.Second || claimed.Sub(b.To) > 5*time.Second:
		w.fail("the time is corrected to %s at %s, in an epoch that was claimed at %s", b.To, w.now, claimed)
	default:
		w.saw(sawCorrected)
		p.correctedIn = p.epoch
	}
}

// sagaTimes are the times of the latest attempt of a do or an undo: when it started, when it times out, when the next one was asked for, and when that may
// start.
type sagaTimes struct {
	startedAt, completeBy, askedAt, notBefore events.Instant
	// startBy is when no attempt starts any more, and timedFrom since when the time until then counts.
	startBy, timedFrom events.Instant
	// capBy and progressedAt are set if the attempt has a heartbeat.
	capBy, progressedAt events.Instant
}

// lastEnd returns when the attempt ends whatever progress it shows.
func (x *sagaTimes) lastEnd() events.Instant { return max(x.completeBy, x.capBy) }

// corrects takes a correction: what was set at the wrong time is as long after the right time as it was after that.
func (a *sagas) corrects(g *saga, to events.Instant) {
	var longest time.Duration
	for _, s := range g.steps {
		longest = max(longest, s.lastEnd().Sub(s.startedAt))
		wrong := max(s.startedAt, s.progressedAt) > to
		s.capBy, s.progressedAt = moved(s.capBy, s.startedAt, to), min(s.progressedAt, to)
		if s.running && s.startedAt > to {
			a.w.saw(sawCorrectedBusy)
		}
		if s.wait.corrects(to) {
			a.w.saw(sawCorrectedSleep)
		}
		s.soft.corrects(to)
		s.lastUndo.corrects(to)
		for _, x := range []*sagaTimes{&s.sagaTimes, &s.back} {
			x.completeBy = moved(x.completeBy, x.startedAt, to)
			if x.notBefore <= g.toldAt { // it was due
				x.notBefore = min(x.notBefore, to)
			}
			x.notBefore = moved(x.notBefore, x.askedAt, to)
			x.startBy, x.timedFrom = moved(x.startBy, x.timedFrom, to), min(x.timedFrom, to)
			x.startedAt, x.askedAt = min(x.startedAt, to), min(x.askedAt, to)
		}
		if s.capBy != 0 && wrong {
			s.completeBy = min(to.Add(2*s.def.Heartbeat.Std()), s.capBy)
		}
	}
	g.quiet = min(g.quiet, to.Add(longest+a.w.cfg.Settings.Grace.Std()))
	g.limits.corrects(g, to, a.w.cfg.Settings.Grace)
	if g.early.until == 0 {
		g.deadline = moved(g.deadline, g.datedAt, to)
		g.soft.corrects(to)
	} else {
		a.correctsEarly(g, to)
	}
	if wait := a.p.state.Partition.Settings.RemindAfter.Std(); wait > 0 {
		g.remindAt = min(g.remindAt, to.Add(wait))
	}
	g.haltedAt = min(g.haltedAt, to)
	g.datedAt, g.parkedAt = min(g.datedAt, to), min(g.parkedAt, to)
}

// moved returns an instant that was set at another one as it is after the time went back.
func moved(x, set, to events.Instant) events.Instant {
	if set > to && x > to {
		x = max(to, x-set+to)
	}
	return x
}
