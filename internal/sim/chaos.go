package sim

import (
	"time"
)

// chaos plans faults and changes of nodes, clocks, agents and definitions.
func (w *World) chaos() {
	x := w.faults
	for _, c := range []struct {
		mean float64
		do   func()
	}{
		{x.Crash, w.crash}, {x.Pause, w.pause}, {x.Reassign, w.reassign}, {x.Jump, w.jump},
		{x.Flood, w.clients.flood}, {x.AgentDown, w.agents.goDown}, {x.AgentRestart, w.agents.restart},
		{x.AgentGone, w.offers.leave}, {x.Settings, w.settings.change}, {x.Trim, w.trim}, {x.Levels, w.levels.change},
		{x.Transaction, w.clients.transaction}, {x.Wrong, w.clocks.misset}, {x.AgentPaused, w.offers.pause},
		{x.Copy, func() { copyNamespace(w, 5) }},
	} {
		for range w.count(c.mean) {
			w.chaosAt(c.do)
		}
	}
	for range len(applications) - appliedAtStart {
		chaosWithin(w, changing(w), func() {
			if next := catalog(w.catalogEnd + 1)[w.catalogEnd]; !w.levels.allows(&next) {
				return
			}
			w.catalogEnd++
			w.note("workflow %s is applied", catalog(w.catalogEnd)[w.catalogEnd-1].Workflow)
		})
	}
}

// chaosAt makes something happen at some time before the world heals.
func (w *World) chaosAt(do func()) { chaosWithin(w, w.opt.Chaos, do) }

// chaosWithin makes something happen at some time before that.
func chaosWithin(w *World, span time.Duration, do func()) {
	w.after(w.rng.IntN(int(span.Milliseconds())), func() {
		if !w.healed {
			do()
		}
	})
}

// count draws a whole number with roughly the given mean; a mean below one is a probability.
func (w *World) count(mean float64) int {
	switch {
	case mean <= 0:
		return 0
	case mean < 1:
		return w.bit(mean)
	}
	return int(mean/2 + w.rng.Float64()*mean + 0.5)
}

// crash makes a node lose its memory. Its store stays, is lost, or is replaced by an older copy.
func (w *World) crash() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !n.up {
		return
	}
	w.report.Crashes++
	n.crash(w.rng.IntN(10))
	w.after(100+w.rng.IntN(4000), func() {
		if !n.up {
			n.restart()
		}
	})
}

// pause stops a node's process: its messages wait, and it wakes up with its old view.
func (w *World) pause() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !n.up || n.paused {
		return
	}
	w.note("%s is paused", n.name)
	n.paused, n.pausedAt = true, w.now
	life, most := n.life, 6000
	if w.rng.IntN(6) == 0 {
		most = 40_000
	}
	w.after(100+w.rng.IntN(most), func() {
		if n.life == life && n.paused {
			n.wake()
		}
	})
}

// jump moves the wall clock of a node. Some jumps are reverted later.
func (w *World) jump() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	by := []time.Duration{3 * time.Second, time.Hour, tenYears, 30 * time.Second}[w.rng.IntN(4)]
	if w.rng.IntN(2) == 0 {
		by = -by
		w.saw(sawJumpBack)
	} else {
		w.saw(sawJumpAhead)
	}
	n.ahead = by
	w.note("the clock of %s jumps: it is %s ahead", n.name, n.ahead)
	if w.rng.IntN(2) == 0 {
		w.after(w.rng.IntN(20_000), func() {
			n.ahead = 0
			w.note("the clock of %s is corrected", n.name)
		})
	}
}

const tenYears = 10 * 365 * 24 * time.Hour

// reassign hands a partition over. The old owner may learn of it late, or in a short run not at all, so that two own it at once.
func (w *World) reassign() {
	p, copies := w.rng.IntN(len(w.parts)), w.copies
	old := w.group[p]
	w.group[p] = w.rng.IntN(len(w.nodes))
	w.note("partition %d is assigned to %s", p, w.nodes[w.group[p]].name)
	if old != w.group[p] && (w.rng.IntN(4) > 0 || w.opt.year()) {
		w.after(w.rng.IntN(2000), func() {
			if !w.healed && w.copies == copies && w.group[p] != old {
				w.nodes[old].assign(p, false)
			}
		})
	}
	now := w.group[p]
	w.after(w.rng.IntN(1000), func() {
		if !w.healed && w.copies == copies && w.group[p] == now {
			w.nodes[now].assign(p, true)
		}
	})
}

// owners counts the nodes that believe that they own the partition.
func (w *World) owners(p *partition) (n int) {
	for _, x := range w.nodes {
		if !p.closed && x.up && x.slots[p.id].owner.Status().Owning {
			n++
		}
	}
	return n
}
