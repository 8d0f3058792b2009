package sim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// maxRounds is far above how often an owner decides before it waits for something: more is a livelock.
const maxRounds = 10_000

// execute executes the owner's actions, in order, until there are none, as the shell does.
func (s *slot) execute() {
	w := s.node.w
	s.noteTime()
	for rounds := 0; w.violation == ""; rounds++ {
		if rounds > maxRounds {
			w.fail("%s/%d decides without end", s.node.name, s.part.id)
			return
		}
		s.owner.Decide()
		if s.node.sched.ended { // the process ended while it decided: nothing of that is left
			s.node.end()
			return
		}
		actions := s.owner.TakeActions()
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			s.do(a)
		}
	}
}

func (s *slot) do(a supervisor.Action) {
	w := s.node.w
	switch a := a.(type) {
	case supervisor.Load:
		s.load(a)
	case supervisor.PauseLog:
		w.note("%s/%d pauses reading its log", s.node.name, s.part.id)
		w.saw(sawLogPaused)
		s.tail.over = true
	case supervisor.ResumeLog:
		w.note("%s/%d reads its log again from %d", s.node.name, s.part.id, a.From)
		w.saw(sawLogResumed)
		s.readLog(a.Generation, a.From)
	case supervisor.Claim:
		s.claim(a)
	case supervisor.Append:
		s.appendBatch(a)
	case supervisor.Commit:
		s.part.committed(s, a)
	case supervisor.ReadInputs:
		s.readInputs(a)
	case supervisor.ReadFacts:
		s.readFacts(a)
	case supervisor.FetchInput:
		s.fetchInput(a)
	case supervisor.Send:
		s.send(a)
	case supervisor.AskEnds:
		s.askEnds(a)
	case supervisor.AskEnd:
		s.askEnd(a)
	case supervisor.AskCatalog:
		s.askCatalog(a)
	case supervisor.TrimInputs:
		s.trim(a)
	case supervisor.Release:
		w.note("%s/%d releases generation %d", s.node.name, s.part.id, a.Generation)
		s.release()
	case supervisor.Stop:
		if errors.Is(a.Err, events.ErrReaderTooOld) && w.levels.builds[s.node.index] < w.levels.level {
			w.levels.stops(s)
			return
		}
		if errors.Is(a.Err, supervisor.ErrInputLost) && w.opt.Faults.Trim > 0 {
			s.stop(a.Err)
			return
		}
		if errors.Is(a.Err, supervisor.ErrClosed) && s.part.closed {
			w.note("%s stops partition %d of the old namespace: %v", s.node.name, s.part.id, a.Err)
			w.saw(sawCopyStops)
			return
		}
		w.fail("%s stops partition %d: %v", s.node.name, s.part.id, a.Err)
	default:
		w.fail("an unknown action %T", a)
	}
}

// release stops the reads and the producer.
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
	s.tail, s.inputs, s.producer, s.acked, s.stopped = nil, nil, nil, 0, false
}

func (s *slot) load(a supervisor.Load) {
	w := s.node.w
	w.note("%s/%d loads from %d, generation %d", s.node.name, s.part.id, a.From, a.Generation)
	s.release()
	from := a.From
	if from == 0 && s.part.log.start > 0 {
		w.saw(sawLoadFromCut)
		from = s.part.log.start
	}
	s.readLog(a.Generation, from)
	tell := s.line()
	w.after(w.lag(), func() {
		end, err := s.part.log.end(), w.fault(w.faults.AskFails/4)
		tell(w.lag(), func(o *supervisor.Owner, now events.Instant) { o.LogEnd(now, a.Generation, 0, end, err) })
	})
}

func (s *slot) readLog(gen uint64, from int64) {
	w := s.node.w
	s.tail = w.startReading(&reading{slot: s, topic: &s.part.log, next: from, lost: s.rebuilds,
		give: func(o *supervisor.Owner, now events.Instant, records []events.Record, next int64) {
			o.LogRecords(now, gen, records, next)
		}})
}

func (w *World) fault(p float64) error {
	if w.chance(p) {
		return errBroker
	}
	return nil
}

func (s *slot) claim(a supervisor.Claim) {
	w := s.node.w
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

func (s *slot) appendBatch(a supervisor.Append) {
	w := s.node.w
	p := s.producer
	if p == nil || p.gen != a.Generation {
		w.fail("%s/%d appends without a producer of generation %d", s.node.name, s.part.id, a.Generation)
		return
	}
	s.startsNothingMissing(a.Generation, a.Records)
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
			if o.Status().Generation == a.Generation && err == nil && len(offsets) > 0 {
				s.acked = max(s.acked, offsets[len(offsets)-1]+1)
			}
			o.Appended(now, a.Generation, a.Batch, offsets, err)
		})
	})
}

// describe returns a fact in one line.
func describe(r *events.Record) string {
	v := string(r.Value)
	if len(v) > 160 {
		v = v[:160] + "..."
	}
	name := strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix)
	return name + " " + r.Header(events.HeaderID) + " task=" + string(r.Key) + " cause=" + r.Header(events.HeaderCause) + " watermark=" + r.Header(events.HeaderWatermark) + " " + v
}

func (s *slot) readInputs(a supervisor.ReadInputs) {
	w := s.node.w
	if s.inputs == nil {
		s.inputs = map[events.Input]*reading{}
	}
	for _, in := range bothInputs {
		from, ok := a.From[in]
		if !ok {
			continue
		}
		if r := s.inputs[in]; r != nil {
			r.over = true
		}
		s.inputs[in] = w.startReading(&reading{slot: s, topic: &s.part.inputs.of(in).topic, next: from,
			lost: func() { s.meetLoss(a.Generation, in) },
			give: func(o *supervisor.Owner, now events.Instant, records []events.Record, next int64) {
				o.Input(now, a.Generation, in, records, next)
			}})
	}
}

func (s *slot) readFacts(a supervisor.ReadFacts) {
	w := s.node.w
	if a.Destination != "" {
		w.saw(sawDelayedRead)
	} else if s.acked = a.To; len(s.part.state.Partition.Delayed) > 0 {
		w.saw(sawDelayedTaken)
	}
	if a.From < s.part.log.start && s.owner.Status().Epoch == s.part.epoch {
		w.fail("%s/%d needs the facts from %d on, and the log is cut at %d", s.node.name, s.part.id, a.From, s.part.log.start)
		return
	}
	records := append([]events.Record(nil), s.part.log.records[a.From:a.To]...)
	if len(records) > 1 && w.rng.IntN(2) == 0 {
		records = records[:1+w.rng.IntN(len(records)-1)]
		w.saw(sawFactsInPages)
	}
	s.tell(w.lag(), func(o *supervisor.Owner, now events.Instant) {
		o.Replayed(now, a.Generation, a.Destination, records, a.From+int64(len(records)))
	})
}

func (s *slot) fetchInput(a supervisor.FetchInput) {
	w := s.node.w
	in, p, offset, ok := a.Cause.Input()
	if !ok || p != s.part.id || offset >= s.part.inputs.of(in).end() {
		w.fail("%s/%d fetches %q, which is not an input of its partition", s.node.name, s.part.id, a.Cause)
		return
	}
	r := s.part.inputs.of(in).records[offset]
	var err error
	if offset < s.part.inputs.of(in).trimmed {
		err = supervisor.ErrPosition
	}
	s.tell(w.lag()+w.lag(), func(o *supervisor.Owner, now events.Instant) { o.Fetched(now, a.Generation, a.Cause, r, err) })
}

func (s *slot) askEnds(a supervisor.AskEnds) {
	w := s.node.w
	tell := s.line()
	w.after(w.lag(), func() {
		ends := map[events.Input]int64{}
		for _, in := range bothInputs {
			ends[in] = s.part.inputs.of(in).end()
		}
		err := w.fault(w.faults.AskFails)
		tell(w.lag(), func(o *supervisor.Owner, now events.Instant) { o.Ends(now, a.Generation, a.Question, ends, err) })
	})
}

func (s *slot) askEnd(a supervisor.AskEnd) {
	w := s.node.w
	tell := s.line()
	w.after(w.lag(), func() {
		if w.fault(w.faults.AskFails) != nil {
			s.askEnd(a)
			return
		}
		end := s.part.log.end()
		tell(w.lag(), func(o *supervisor.Owner, now events.Instant) { o.LogEnd(now, a.Generation, a.Question, end, nil) })
	})
}

func (s *slot) askCatalog(a supervisor.AskCatalog) {
	w := s.node.w
	tell := s.line()
	w.after(w.lag(), func() {
		c, err := w.levels.catalog(), w.fault(w.faults.AskFails)
		tell(1+w.lag(), func(o *supervisor.Owner, now events.Instant) {
			if err != nil {
				o.Definitions(now, a.Generation, a.Question, nil, err)
				return
			}
			o.Definitions(now, a.Generation, a.Question, c, nil)
		})
	})
}

// send produces an effect. Effects of a generation that crashed or was released may still land.
func (s *slot) send(a supervisor.Send) {
	w := s.node.w
	if a.Kind == events.EffectStop {
		s.part.stops(&a)
		return
	}
	s.sends(&a)
	s.part.effects.goes(&a)
	key := s.part.effects.leaves(s, a)
	if w.violation != "" || s.sendLost(a, key) {
		return
	}
	if a.Kind != "" && w.chance(w.faults.Refuse) && a.ID != 0 {
		w.note("the broker refuses %s", key)
		switch a.Kind {
		case events.EffectDeadLetter:
			w.saw(sawDeadRefused)
		case events.EffectReply:
			w.saw(sawReplyRefused)
		}
		s.tell(w.lag(), func(o *supervisor.Owner, now events.Instant) { o.Sent(now, a.Generation, a.ID, errRefused) })
		return
	}
	if s.part.effects.arrived[key] && a.ID != 0 {
		if w.saw(sawEffectResent); a.Kind == events.EffectForward {
			w.saw(sawForwardResent)
		}
	}
	life, p, tell := s.node.life, s.producer, s.line()
	twice := w.bit(w.faults.EffectTwice)
	if twice > 0 {
		w.saw(sawEffectTwice)
	}
	for copies := range 1 + twice {
		wait := w.lag() + w.muted(a.Topic, a.Record.Partition)
		if again := a.Kind == events.EffectStart || sendsRelative(&a); copies > 0 && again && w.chance(w.faults.LateStarts) {
			wait += w.rng.IntN(60_000)
		}
		w.after(wait, func() {
			if gone := s.node.life != life || p == nil || p.closed; gone {
				if w.rng.IntN(2) == 0 {
					return
				}
				w.saw(sawLeftBehind)
			}
			if s.node.left {
				return // it lands in the old namespace, where nobody reads it
			}
			s.part.effects.arrives(key)
			w.note("%s lands in %s", key, a.Topic)
			w.arrive(s.part.id, a)
			tell(w.lag(), func(o *supervisor.Owner, now events.Instant) {
				s.takes(&a)
				o.Sent(now, a.Generation, a.ID, nil)
			})
		})
	}
}

// takes notes that the owner knows that a request was acknowledged.
func (s *slot) takes(a *supervisor.Send) {
	if a.Kind != events.EffectWork {
		return
	}
	work, _, err := events.DecodeWork(&a.Record)
	if err != nil {
		return // the agents report it
	}
	if s.taken == nil {
		s.taken = map[taken]bool{}
	}
	s.taken[taken{s.node.life, a.Generation, work.Ticket, Attempt{work.Task, work.Step, work.Operation, work.Attempt}}] = true
}

// muted returns how long a topic takes no effect, in milliseconds. Its records land when it takes effects again. A single
// partition of an agent's topic may be mute.
func (w *World) muted(topic string, partition int32) int {
	if w.healed {
		return 0
	}
	one := fmt.Sprintf("%s/%d", topic, partition)
	if w.chance(w.faults.Mute) {
		which := topic
		if strings.HasPrefix(topic, "work.") && w.rng.IntN(2) == 0 {
			which = one
			w.saw(sawMutePartition)
		}
		w.mute[which] = max(w.mute[which], w.now+events.Instant(w.rng.IntN(60_000)))
		w.saw(sawMute)
	}
	return int(max(w.mute[topic]-w.now, w.mute[one]-w.now, 0))
}

// arrive delivers an effect to its destination.
func (w *World) arrive(from int32, a supervisor.Send) {
	r := a.Record
	switch {
	case strings.HasPrefix(a.Topic, "work."):
		w.agents.receive(r)
	case strings.HasPrefix(a.Topic, "dlq."):
		w.parts[from].inputs.dead = append(w.parts[from].inputs.dead, deadLetter{events.Input(strings.TrimPrefix(a.Topic, "dlq.")), r})
	case isReplies(a.Topic):
		w.parts[from].answers.arrives(a.Topic, r)
	case a.Topic == "alerts":
	case a.Kind == events.EffectPermit:
		permitLands(w, &r)
	case isRelative(&r):
		w.families.lands(&r)
	case a.Kind == events.EffectStart:
		w.schedules.startLands(&r)
	case a.Kind == events.EffectCancel:
		w.schedules.cancelLands(&r)
	case a.Kind == events.EffectEnd:
		w.schedules.endLands(&r)
	default:
		in, p := events.Input(a.Topic), w.parts[r.Partition]
		p.inputs.put(in, r, w.parts[from].inputs.forwarded(&r, in))
	}
}
