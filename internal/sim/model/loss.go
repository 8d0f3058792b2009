package model

import "github.com/sagalog/sagalog/events"

// gone says whether the inputs that are read next are deleted.
func (x replica) gone(i int) bool {
	return x.reads[i] >= 0 && x.reads[i] < x.part.start[i]
}

// trimMatters says whether something could be deleted that was not, or will be.
func (x replica) trimMatters() bool {
	r := x.sp.deliver(x.slot, &event{kind: evTrim, clock: x.w.s.clock})
	for i := range r.outs {
		if out := &r.outs[i]; out.kind == outTrim && out.from <= x.part.start[0] && out.to <= x.part.start[1] {
			return false
		}
	}
	return x.moved(r)
}

// trim deletes what an owner says that nobody needs any more.
func (x replica) trim(out *output) {
	for i, below := range [...]int64{out.from, out.to} {
		x.part.start[i] = max(x.part.start[i], below)
	}
	x.w.note("submissions begin at %d, reports at %d", x.part.start[0], x.part.start[1])
}

// meetLoss tells the owner that inputs are deleted, and which loss of submissions has been accepted by now.
func (x replica) meetLoss(i int) {
	x.reads[i] = -1
	e := event{kind: evLost, in: topics[i], from: x.part.start[i]}
	if a := x.part.accepted; a[1] > 0 && topics[i] == events.Submissions {
		e.to = a[1] // stands for the offset of the acceptance, which differs from one to the next
		e.records = []int32{int32(a[0]), int32(a[1])}
	}
	x.deliver(&e)
}

// loss returns the bounds of what a partition has lost.
func (w *World) loss(p int) (from, to int64) {
	part := &w.s.parts[p]
	return w.sp.logs[part.log].state.Partition.Inputs[events.Submissions].Next, part.start[0]
}

// refused says whether an owner has stopped and an operator can accept the current loss.
func (w *World) refused(p int) bool {
	from, to := w.loss(p)
	if from > to || w.s.parts[p].accepted == [2]int64{from, to} {
		return false
	}
	for n := p; n < len(w.s.nodes); n += int(w.sp.cfg.Full) {
		if w.s.nodes[n].stopped {
			return true
		}
	}
	return false
}

// accept makes an operator accept the current loss.
func (w *World) accept(p int) {
	from, to := w.loss(p)
	w.s.parts[p].accepted = [2]int64{from, to}
	for n := p; n < len(w.s.nodes); n += int(w.sp.cfg.Full) {
		w.s.nodes[n].news = w.s.nodes[n].stopped
	}
}

// tryAgain makes a stopped owner load its log again.
func (x replica) tryAgain() {
	x.stopped, x.news = false, false
	x.deliver(&event{kind: evRevoke})
	x.deliver(&event{kind: evAssign})
}
