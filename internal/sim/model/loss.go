package model

import "github.com/sagalog/sagalog/events"

// gone says whether the submissions that are read next are deleted.
func (x replica) gone(i int) bool {
	return topics[i] == events.Submissions && x.reads[i] >= 0 && x.reads[i] < x.part.start
}

// meetLoss tells the owner that submissions are deleted, and which loss has been accepted by now.
func (x replica) meetLoss(i int) {
	x.reads[i] = -1
	e := event{kind: evLost, in: topics[i], from: x.part.start}
	if a := x.part.accepted; a[1] > 0 {
		e.to = a[1] // stands for the offset of the acceptance, which differs from one to the next
		e.records = []int32{int32(a[0]), int32(a[1])}
	}
	x.deliver(&e)
}

// loss returns the bounds of what a partition has lost.
func (w *World) loss(p int) (from, to int64) {
	part := &w.s.parts[p]
	return w.sp.logs[part.log].state.Partition.Inputs[events.Submissions].Next, part.start
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
