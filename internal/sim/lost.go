package sim

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// trim deletes the oldest records of an input, usually including some that are not judged yet. (Effects that need the bytes of a
// judged record have already read them.)
func (w *World) trim() {
	p := w.parts[w.rng.IntN(len(w.parts))]
	in := bothInputs[w.rng.IntN(len(bothInputs))]
	t, next := p.inputs.of(in), p.state.Partition.Inputs[in].Next
	to := next
	if left := t.end() - next; left > 0 && w.rng.IntN(4) > 0 {
		to += 1 + w.rng.Int64N(left)
	}
	if to > t.start {
		t.start = to
		w.note("%s/%d loses everything below %d; judged is everything below %d", in, p.id, to, next)
	}
}

// meetLoss tells the owner where an input begins, and which loss of it was accepted last.
func (s *slot) meetLoss(gen uint64, in events.Input) {
	q := s.part.inputs
	loss := supervisor.Loss{Start: q.of(in).start}
	for i := range q.accepted {
		if a := q.accepted[i]; a.Input == in {
			loss.Accepted, loss.Offset = &a, int64(i)
			if a.From == s.part.state.Partition.Inputs[in].Next && loss.Start > a.To {
				s.node.w.saw(sawLostMore)
			}
		}
	}
	if q.of(in).trimmed > s.inputs[in].next {
		s.node.w.saw(sawTrimmedUnder)
	}
	s.tell(s.node.w.lag(), func(o *supervisor.Owner, now events.Instant) {
		o.Lost(now, gen, supervisor.Topic(in), loss, supervisor.ErrPosition)
	})
}

// stop notes that the owner has stopped. An operator sees it, and accepts the loss as of then.
func (s *slot) stop(err error) {
	w := s.node.w
	w.note("%s stops partition %d: %v", s.node.name, s.part.id, err)
	s.stopped = true
	w.after(100+w.rng.IntN(8000), func() {
		for _, in := range bothInputs {
			s.part.inputs.accept(in)
		}
		for _, n := range w.nodes {
			if s.part.closed {
				return
			}
			n.accepted(s.part.id)
		}
	})
}

// accept makes an operator give up whatever an input has lost by now.
func (q *inputs) accept(in events.Input) {
	from, to := q.p.state.Partition.Inputs[in].Next, q.of(in).start
	if to < from || to == 0 {
		return
	}
	q.w.permitsLost = true
	q.accepted = append(q.accepted, events.AcceptedLoss{Input: in, Partition: q.p.id, From: from, To: to})
	q.w.note("an operator gives up %s/%d from %d to before %d", in, q.p.id, from, to)
}

// accepted tells a node that a loss was accepted: an owner that had stopped tries again.
func (n *node) accepted(p int32) {
	life, s := n.life, n.slots[p]
	n.w.after(n.w.lag(), func() {
		n.receive(life, func() {
			if s.stopped {
				s.owner.Revoke(s.now())
				s.owner.Assign(s.now())
				s.execute()
			}
		})
	})
}

// givenUp says whether an input was deleted and its loss accepted afterwards.
func (q *inputs) givenUp(in events.Input, offset int64) bool {
	for _, a := range q.accepted {
		if a.Input == in && a.From <= offset && offset < a.To {
			return true
		}
	}
	return false
}
