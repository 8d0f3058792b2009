package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/namespacecopy"
)

// copyNamespace copies the namespace into one with another number of partitions, as `sagalog namespace copy` does: everybody stops, the old namespace is
// closed, and nodes without a store start in the new one. If it cannot be copied now, it tries again later.
func copyNamespace(w *World, tries int) {
	if why := uncopyable(w); why != "" {
		w.note("the namespace is not copied: %s", why)
		if tries > 1 {
			w.after(5000+w.rng.IntN(30_000), func() { copyNamespace(w, tries-1) })
		}
		return
	}
	old, lost := w.parts, drawLoss(w)
	for _, n := range w.nodes {
		n.leave(lost != nil)
	}
	x := namespacecopy.Partitions{
		From: "sim", To: "sim", ID: w.cfg.NamespaceID.String(), New: int32(1 + w.rng.IntN(mostPartitions)),
		Epoch: fmt.Sprintf("copy%d-%d", w.copies, w.rng.Uint64()), Made: w.now.Time(), Scheduler: planning(),
	}
	if x.Lost = lost != nil; x.Lost {
		x.Old = lost.old(w)
		lost.takeBack(w)
		w.saw(sawCopyLost)
	} else {
		x.Old = closed(old)
	}
	if w.violation != "" {
		return
	}
	w.note("the namespace of %d partitions is copied into one of %d", len(old), x.New)
	seeCopy(w, x)
	applyAgain(w, x)
	w.copies++
	w.opt.Partitions, w.cfg.Partitions = x.New, x.New
	w.parts = nil
	for p := range x.New {
		w.parts = append(w.parts, newPartition(w, p))
	}
	inherit(w, old)
	logs := newCopyLogs(w, old)
	if _, err := x.Copy(context.Background(), logs); err != nil {
		w.fail("the namespace cannot be copied: %v", err)
	}
	if lost != nil {
		lost.promise(w)
	} else {
		logs.complete()
	}
	goOn(w)
}

// drawLoss draws whether the log is lost, and the namespace is copied from checkpoints; nil if not.
func drawLoss(w *World) *checkpoints {
	if w.copies > 0 || w.rng.IntN(4) > 0 {
		return nil
	}
	return drawCheckpoints(w)
}

// closed closes the partitions and folds them.
func closed(old []*partition) (list []namespacecopy.Partition) {
	for _, p := range old {
		p.old = old
		closePartition(p)
	}
	for _, p := range old {
		list = append(list, refolded(p))
	}
	return list
}

// mostPartitions is how many partitions a copy has at most.
const mostPartitions = 6

// uncopyable says why a copy would be refused now, or would not end.
func uncopyable(w *World) string {
	switch {
	case w.healed, w.violation != "":
		return "the run is over"
	case w.outage.topic != "":
		return "a topic takes nothing"
	case w.levels.level > events.FormatVersion:
		return "the program is too old for the level of the simulated namespace"
	}
	for _, p := range w.parts {
		if p.state.Partition.Correcting != 0 {
			return "the time is being corrected"
		}
		for _, in := range bothInputs {
			t, next := p.inputs.of(in), p.state.Partition.Inputs[in].Next
			if t.start > next || len(t.open) > 0 {
				return "inputs are lost, or a transaction is open"
			}
			for o := next; o < t.end(); o++ {
				if t.records[o].Unread > 0 {
					return "a batch is too large to be read"
				}
			}
		}
	}
	return ""
}

// leave stops a node, as an operator does before a copy. Some are only cut off, and wake up when the copy has been made; those end soon. If the log is lost,
// nothing closes the old namespace, so an operator makes sure that all end.
func (n *node) leave(lost bool) {
	w := n.w
	if n.left = true; lost {
		n.gone()
		return
	}
	if n.up && !n.paused && w.rng.IntN(3) == 0 {
		n.paused, n.pausedAt = true, w.now
		life := n.life
		w.after(100+w.rng.IntN(20_000), func() {
			if n.life == life && n.paused {
				n.wake()
			}
		})
	}
	if n.up && n.paused {
		w.after(1000+w.rng.IntN(60_000), n.gone)
		return
	}
	n.gone()
}

// gone ends the process for good.
func (n *node) gone() {
	if !n.up {
		return
	}
	n.w.note("%s of the old namespace ends", n.name)
	n.up, n.paused, n.inbox = false, false, nil
	n.life++
	for _, s := range n.slots {
		s.release()
	}
}

// copier returns a producer that writes facts of a partition for a copy.
func copier(p *partition) *producer {
	return &producer{slot: &slot{node: &node{w: p.w, name: events.CopyOwner}, part: p}, time: &timeline{}}
}

// closePartition claims the partition and closes it.
func closePartition(p *partition) {
	id := fmt.Sprintf("close%d-%d-%d", p.w.copies, p.id, p.w.rng.Uint64())
	claim, err := namespacecopy.Claiming(p.state, id, "sim", p.w.now)
	if err != nil {
		p.w.fail("partition %d cannot be claimed by a copy: %v", p.id, err)
		return
	}
	c := copier(p)
	p.w.append(c, []events.Record{claim})
	records, err := namespacecopy.Closing(p.state, "sim", p.w.now)
	if err != nil {
		p.w.fail("partition %d cannot be closed: %v", p.id, err)
		return
	}
	p.w.append(c, records)
	if p.closed = true; p.w.violation == "" && !namespacecopy.Closed(p.state, id) {
		p.w.fail("partition %d is not closed", p.id)
	}
}

// refolded is the partition as a copy reads it: folded from the log, or what a cut left of it.
func refolded(p *partition) (x namespacecopy.Partition) {
	store := rebuild(p)
	snap, err := store.Snapshot()
	if err == nil {
		x.Stored = store
		x.State, err = events.OpenStateAt(newerBuild, p.id, snap, store.Load)
	}
	if err != nil {
		p.w.fail("partition %d cannot be opened for a copy: %v", p.id, err)
	}
	return x
}

// applyAgain applies the schedules and the limit once more whose latest records their old partition had not adopted. A real copy does it too, in the
// definitions, which the simulator keeps apart.
func applyAgain(w *World, x namespacecopy.Partitions) {
	s := w.schedules
	for i := range x.Old {
		for _, r := range s.of(int32(i), len(s.records)) {
			if r.Offset > x.Old[i].State.Partition.SchedulesOffset {
				r.Offset = int64(len(s.records)) + 1
				s.records = append(s.records, r)
				w.saw(sawCopyUnadopted)
			}
		}
	}
	l := w.namedLimits
	if r := l.records[len(l.records)-1]; r.Offset > x.Old[events.Home(gate, int32(len(x.Old)))].State.Partition.LimitsOffset {
		r.Offset++
		l.records = append(l.records, r)
	}
}

// goOn starts nodes with empty stores in the copy.
func goOn(w *World) {
	if w.violation != "" {
		return
	}
	clear(w.agents.recent) // agents start again, and read the topics of the copy
	w.nodes, w.group = nil, make([]int, len(w.parts))
	for i := range w.opt.Nodes {
		w.nodes = append(w.nodes, newNode(w, i))
	}
	for _, n := range w.nodes {
		n.boot()
	}
	copies := w.copies
	for p := range w.parts {
		w.group[p] = w.rng.IntN(len(w.nodes))
		w.after(100+w.rng.IntN(int(5*time.Second/time.Millisecond)), func() {
			if !w.healed && w.copies == copies {
				w.nodes[w.group[p]].assign(p, true)
			}
		})
	}
}

// seeCopy counts what a copy finds.
func seeCopy(w *World, x namespacecopy.Partitions) {
	w.saw(sawCopied)
	switch n := int32(len(x.Old)); {
	case x.New > n:
		w.saw(sawCopyWider)
	case x.New < n:
		w.saw(sawCopyNarrower)
	}
	for i, p := range w.parts {
		for _, in := range bothInputs {
			if p.inputs.of(in).end() > p.state.Partition.Inputs[in].Next {
				w.saw(sawCopyUnjudged)
			}
		}
		if len(p.state.Held()) > 0 {
			w.saw(sawCopyHeld)
		}
		if p.log.start > 0 {
			w.saw(sawCopyCut)
		}
		for range x.Old[i].State.Schedules {
			w.saw(sawCopySchedule)
		}
		for l := range p.state.Limits.All() {
			if len(l.Waiting()) > 0 {
				w.saw(sawCopyPermit)
			}
		}
		p.state.Loaded(func(t *events.Task) bool {
			if running, _ := t.RunningStep(); running != nil {
				w.saw(sawCopyBusy)
			}
			if t.State == events.TaskStateUndoing {
				w.saw(sawCopyUndoing)
			}
			return true
		})
	}
}
