package supervisor

import (
	"encoding/json"
	"sync"

	"github.com/sagalog/sagalog/events"
)

// sendAll passes the collected effects to the log, those of one generation at once. If the process may have slept since they
// were decided, the owner gets them back at the next look at the clock; but not twice in a row, or a machine on which every round
// takes that long would never send anything.
func (s *Shell) sendAll() {
	if len(s.sends) > 0 && !s.again && slept(s.seen, s.cfg.Now()) {
		s.again = true
		s.post(func(events.Instant) {})
		return
	}
	s.again = false
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
		if all[i].Kind == events.EffectAlert {
			logAlert(s, &all[i].Record)
		}
		list[i] = Outgoing{Topic: all[i].Topic, Record: all[i].Record, Within: all[i].Within}
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

// logAlert logs an alert, for operators who read only the log.
func logAlert(s *Shell, r *events.Record) {
	var a Alert
	if err := json.Unmarshal(r.Value, &a); err != nil {
		return // we have encoded it ourselves
	}
	if s.cfg.Alerted != nil {
		s.cfg.Alerted(a.Kind)
	}
	log := s.cfg.Logger
	if a.Schedule != "" {
		log = log.With("schedule", a.Schedule)
	}
	log.Info("an alert is raised", "kind", a.Kind, "task", a.Task, "workflow", a.Workflow, "step", a.Step, "reason", a.Reason)
}

// hear passes outcomes of effects to the owner.
func (s *Shell) hear(now events.Instant) {
	list := s.sent.drain()
	for i := range list {
		s.owner.Sent(now, list[i].gen, list[i].id, list[i].refused)
	}
	s.sent.give(list)
}

// sent collects the outcomes of effects, so that a thousand answers are one message.
type sent struct {
	mu sync.Mutex
	// mu guards the fields below.
	list, spare []outcome
}

// outcome is the outcome of one effect.
type outcome struct {
	gen, id uint64
	refused error
}

// add returns true when it is the first outcome since the last drain.
func (s *sent) add(o outcome) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, o)
	return len(s.list) == 1
}

func (s *sent) drain() []outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list, s.spare = s.spare, nil
	return list
}

// give returns a drained list for reuse.
func (s *sent) give(list []outcome) {
	clear(list)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = list[:0]
}
