package sim

// crash takes a node's memory; its store stays, is lost, or is an older one that was found.
func (w *World) crash() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if w.healed || !n.up {
		return
	}
	w.report.Crashes++
	fate := w.rng.IntN(10)
	n.crash(fate)
	w.after(100+w.rng.IntN(4000), func() {
		if !n.up {
			n.restart()
		}
	})
}

// pause stops a node's process: what comes for it waits, and it wakes up with its old view.
func (w *World) pause() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if w.healed || !n.up || n.paused {
		return
	}
	w.note("%s is paused", n.name)
	n.paused = true
	life := n.life
	w.after(100+w.rng.IntN(6000), func() {
		if n.life == life {
			n.wake()
		}
	})
}

// reassign hands a partition over. The old owner may learn it late or not at all, so that two own it at once.
func (w *World) reassign() {
	if w.healed {
		return
	}
	p := w.rng.IntN(len(w.parts))
	old := w.group[p]
	w.group[p] = w.rng.IntN(len(w.nodes))
	w.note("partition %d is assigned to %s", p, w.nodes[w.group[p]].name)
	if old != w.group[p] && w.rng.IntN(4) > 0 {
		w.after(w.rng.IntN(2000), func() {
			if !w.healed && w.group[p] != old {
				w.nodes[old].assign(p, false)
			}
		})
	}
	now := w.group[p]
	w.after(w.rng.IntN(1000), func() {
		if !w.healed && w.group[p] == now {
			w.nodes[now].assign(p, true)
		}
	})
}
