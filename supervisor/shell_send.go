package supervisor

import (
	"sync"

	"github.com/sagalog/sagalog/events"
)

// sendAll hands over the effects that were said, those of one generation at once.
func (s *Shell) sendAll() {
	all := s.sends
	s.sends = nil
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Generation == all[0].Generation {
			n++
		}
		s.send(all[:n])
		all = all[n:]
	}
}

func (s *Shell) send(all []Send) {
	gen := all[0].Generation
	if s.gen == nil || s.gen.id != gen {
		return
	}
	list := make([]Outgoing, len(all))
	for i := range all {
		list[i] = Outgoing{Topic: all[i].Topic, Record: all[i].Record}
	}
	s.cfg.Log.Send(s.gen.ctx, list, func(i int, refused error) {
		a := &all[i]
		if refused != nil {
			s.cfg.Logger.Error("an effect was refused by the broker", "topic", a.Topic, "kind", a.Kind, "error", refused)
		}
		if s.sent.add(outcome{gen, a.ID, refused}) {
			s.post(s.hear)
		}
	})
}

// hear tells the owner what became of its effects since it was told last.
func (s *Shell) hear(now events.Instant) {
	list := s.sent.take()
	for i := range list {
		s.owner.Sent(now, list[i].gen, list[i].id, list[i].refused)
	}
	s.sent.give(list)
}

// sent collects what became of effects, so that a thousand answers are one message.
type sent struct {
	mu sync.Mutex
	// mu guards the fields below.
	list, spare []outcome
}

// outcome is what became of one effect.
type outcome struct {
	gen, id uint64
	refused error
}

// add returns true when somebody must be told that there is something.
func (s *sent) add(o outcome) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, o)
	return len(s.list) == 1
}

func (s *sent) take() []outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list, s.spare = s.spare, nil
	return list
}

// give takes a list back for the next outcomes.
func (s *sent) give(list []outcome) {
	clear(list)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = list[:0]
}
