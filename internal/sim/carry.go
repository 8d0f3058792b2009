package sim

import (
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// carry does what the slot's owner says, in order, until it says nothing more: what the shell does.
func (w *World) carry(s *slot) {
	s.tellTime()
	for w.violation == "" {
		actions := s.owner.Actions()
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			w.do(s, a)
		}
	}
}

func (w *World) do(s *slot, a supervisor.Action) {
	switch a := a.(type) {
	case supervisor.Load:
		w.load(s, a)
	case supervisor.RestTail:
		w.note("%s/%d rests its tail", s.node.name, s.part.id)
		w.saw(sawTailRests)
		s.tail.over = true
	case supervisor.FollowTail:
		w.note("%s/%d follows its tail again from %d", s.node.name, s.part.id, a.From)
		w.saw(sawTailAgain)
		w.followTail(s, a.Generation, a.From)
	case supervisor.Claim:
		w.claim(s, a)
	case supervisor.Append:
		w.appendBatch(s, a)
	case supervisor.Commit:
		s.part.committed(s, a)
	case supervisor.ReadInputs:
		w.readInputs(s, a)
	case supervisor.ReadFacts:
		w.readFacts(s, a)
	case supervisor.FetchInput:
		w.fetchInput(s, a)
	case supervisor.Send:
		w.send(s, a)
	case supervisor.AskEnds:
		w.askEnds(s, a)
	case supervisor.AskCatalog:
		w.askCatalog(s, a)
	case supervisor.Release:
		w.note("%s/%d releases generation %d", s.node.name, s.part.id, a.Generation)
		s.release()
	case supervisor.Stop:
		w.fail("%s stops partition %d: %v", s.node.name, s.part.id, a.Err)
	default:
		w.fail("an unknown action %T", a)
	}
}

// release ends the readings and the producer.
func (s *slot) release() {
	if s.tail != nil {
		s.tail.over = true
	}
	for _, r := range s.inputs {
		r.over = true
	}
	if s.producer != nil {
		s.producer.closed = true
	}
	s.tail, s.inputs, s.producer, s.acked = nil, nil, nil, 0
}

func (w *World) load(s *slot, a supervisor.Load) {
	w.note("%s/%d loads from %d, generation %d", s.node.name, s.part.id, a.From, a.Generation)
	s.release()
	w.followTail(s, a.Generation, a.From)
	tell := s.line()
	w.after(w.lag(), func() {
		end, err := s.part.log.end(), w.fault(w.faults.AskFails/4)
		tell(w.lag(), func(o *supervisor.Owner, now events.Instant) { o.Loaded(now, a.Generation, end, err) })
	})
}

func (w *World) followTail(s *slot, gen uint64, from int64) {
	s.tail = w.follow(&reading{slot: s, topic: &s.part.log, gen: gen, next: from,
		give: func(o *supervisor.Owner, now events.Instant, records []events.Record, next int64) {
			o.Tail(now, gen, records, next)
		}})
}

func (w *World) fault(p float64) error {
	if w.chance(p) {
		return errBroker
	}
	return nil
}

func (w *World) claim(s *slot, a supervisor.Claim) {
	if s.producer != nil {
		s.producer.closed = true
	}
	p := &producer{slot: s, gen: a.Generation, time: s.time}
	s.producer = p
	w.note("%s/%d claims: %s", s.node.name, s.part.id, a.Record.Value)
	tell := s.line()
	w.produce(p, []events.Record{a.Record}, func(offsets []int64, err error) {
		at := int64(-1)
		if len(offsets) > 0 {
			at = offsets[0]
		}
		tell(0, func(o *supervisor.Owner, now events.Instant) { o.Claimed(now, a.Generation, at, err) })
	})
}

func (w *World) appendBatch(s *slot, a supervisor.Append) {
	p := s.producer
	if p == nil || p.gen != a.Generation {
		w.fail("%s/%d appends without a producer of generation %d", s.node.name, s.part.id, a.Generation)
		return
	}
	if s.clock.Suspect() {
		w.fail("%s/%d decides while it suspects its clock", s.node.name, s.part.id)
	}
	if w.opt.Trace {
		for i := range a.Records {
			w.note("%s/%d decides %s", s.node.name, s.part.id, describe(&a.Records[i]))
		}
	}
	tell := s.line()
	w.produce(p, a.Records, func(offsets []int64, err error) {
		tell(0, func(o *supervisor.Owner, now events.Instant) {
			w.note("%s/%d has the answer to batch %d: %v %v", s.node.name, s.part.id, a.Batch, offsets, err)
			if o.Generation() == a.Generation && err == nil && len(offsets) > 0 {
				s.acked = max(s.acked, offsets[len(offsets)-1]+1)
			}
			o.Appended(now, a.Generation, a.Batch, offsets, err)
		})
	})
}

// describe is a fact in one line.
func describe(r *events.Record) string {
	v := string(r.Value)
	if len(v) > 160 {
		v = v[:160] + "..."
	}
	name := strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix)
	return name + " " + r.Header(events.HeaderID) + " task=" + string(r.Key) + " cause=" + r.Header(events.HeaderCause) + " settled=" + r.Header(events.HeaderSettled) + " " + v
}

func (w *World) readInputs(s *slot, a supervisor.ReadInputs) {
	for _, r := range s.inputs {
		r.over = true
	}
	s.inputs = map[events.Input]*reading{}
	for _, in := range bothInputs {
		s.inputs[in] = w.follow(&reading{slot: s, topic: &s.part.input(in).topic, gen: a.Generation, next: a.From[in],
			give: func(o *supervisor.Owner, now events.Instant, records []events.Record, next int64) {
				o.Input(now, a.Generation, in, records, next)
			}})
	}
}

// bothInputs are the inputs in a fixed order.
var bothInputs = [...]events.Input{events.Reports, events.Submissions}

func (w *World) readFacts(s *slot, a supervisor.ReadFacts) {
	s.acked = a.To
	records := append([]events.Record(nil), s.part.log.records[a.From:a.To]...)
	cut := 0
	if len(records) > 0 {
		cut = w.rng.IntN(len(records))
	}
	d := w.lag()
	s.tell(d, func(o *supervisor.Owner, now events.Instant) { o.Replayed(now, a.Generation, records[:cut], false) })
	s.tell(d, func(o *supervisor.Owner, now events.Instant) { o.Replayed(now, a.Generation, records[cut:], true) })
}

func (w *World) fetchInput(s *slot, a supervisor.FetchInput) {
	in, p, offset, ok := a.Cause.Input()
	if !ok || p != s.part.id || offset >= s.part.input(in).end() {
		w.fail("%s/%d fetches %q, which is no input of its partition", s.node.name, s.part.id, a.Cause)
		return
	}
	r := s.part.input(in).records[offset]
	s.tell(w.lag()+w.lag(), func(o *supervisor.Owner, now events.Instant) { o.Fetched(now, a.Generation, a.Cause, r, nil) })
}

func (w *World) askEnds(s *slot, a supervisor.AskEnds) {
	tell := s.line()
	w.after(w.lag(), func() {
		ends := map[events.Input]int64{}
		for _, in := range bothInputs {
			ends[in] = s.part.input(in).end()
		}
		err := w.fault(w.faults.AskFails)
		tell(w.lag(), func(o *supervisor.Owner, now events.Instant) { o.Ends(now, a.Generation, a.Question, ends, err) })
	})
}

func (w *World) askCatalog(s *slot, a supervisor.AskCatalog) {
	tell := s.line()
	w.after(w.lag(), func() {
		c, err := catalog(w.catalogEnd), w.fault(w.faults.AskFails)
		tell(1+w.lag(), func(o *supervisor.Owner, now events.Instant) {
			if err != nil {
				o.Definitions(now, a.Generation, a.Question, nil, err)
				return
			}
			o.Definitions(now, a.Generation, a.Question, c, nil)
		})
	})
}

// send produces an effect. What a crashed or released generation had on its way may still land.
func (w *World) send(s *slot, a supervisor.Send) {
	key := s.part.leaves(s, a)
	if w.violation != "" {
		return
	}
	if a.Kind != "" && w.chance(w.faults.Refuse) && a.ID != 0 {
		w.note("the broker refuses %s", key)
		if a.Kind == events.EffectDeadLetter {
			w.saw(sawDeadRefused)
		}
		s.tell(w.lag(), func(o *supervisor.Owner, now events.Instant) { o.Sent(now, a.Generation, a.ID, errRefused) })
		return
	}
	if s.part.arrived[key] && a.ID != 0 {
		if w.saw(sawEffectResent); a.Kind == events.EffectForward {
			w.saw(sawForwardResent)
		}
	}
	life, p, tell := s.node.life, s.producer, s.line()
	twice := w.bit(w.faults.EffectTwice)
	if twice > 0 {
		w.saw(sawEffectTwice)
	}
	for range 1 + twice {
		w.after(w.lag(), func() {
			if gone := s.node.life != life || p == nil || p.closed; gone {
				if w.rng.IntN(2) == 0 {
					return
				}
				w.saw(sawLeftBehind)
			}
			s.part.arrives(key)
			w.note("%s lands in %s", key, a.Topic)
			w.arrive(s.part.id, a)
			tell(w.lag(), func(o *supervisor.Owner, now events.Instant) { o.Sent(now, a.Generation, a.ID, nil) })
		})
	}
}

// arrive brings an effect to whom it is for.
func (w *World) arrive(from int32, a supervisor.Send) {
	r := a.Record
	switch {
	case strings.HasPrefix(a.Topic, "work."):
		w.agents.receive(r)
	case strings.HasPrefix(a.Topic, "dlq."):
		w.parts[from].dead = append(w.parts[from].dead, deadLetter{events.Input(strings.TrimPrefix(a.Topic, "dlq.")), r})
	case a.Topic == "alerts":
	default:
		in, p := events.Input(a.Topic), w.parts[r.Partition]
		p.put(in, r, w.parts[from].forwarded(&r, in))
	}
}
