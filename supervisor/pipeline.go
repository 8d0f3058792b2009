package supervisor

import (
	"github.com/sagalog/sagalog/events"
)

// pipeline is the appends on their way. While they travel, the next batch is decided on the state that they will
// leave.
type pipeline struct {
	// seq numbers the batches, over all generations.
	seq uint64
	// confirmed is the offset behind the last fact that is known to be durable, contiguous and ours.
	confirmed int64
	// flying are the appends without an answer that has been taken, the oldest first.
	flying []*batch
}

// batch is the facts of one append.
type batch struct {
	seq     uint64
	facts   []*events.Fact
	records []events.Record
	bytes   int
	// submissions counts those that made a fact, whatever else followed.
	submissions int
	// inputs are the bytes that effects of the facts need, by index in facts.
	inputs map[int]events.Record
	// delta is what the store is to write with the facts and those since the last one; nil while it may wait.
	delta  *events.Delta
	sentAt events.Instant
	// answered, offsets and err are the answer, once it is there.
	answered bool
	offsets  []int64
	err      error
}

// emit decides one fact: it is folded ahead of the log's answer and put into the batch. input is the record that the
// fact's effect needs, nil if none.
func (o *Owner) emit(b *batch, f *events.Fact, input *events.Record) error {
	p := &o.state.Partition
	f.Epoch, f.Sequence = p.Epoch, p.NextSequence
	f.Time = max(o.now, p.Time)
	if s := o.settled(); p.Settled.Before(s) {
		f.Settled = s
	}
	if f.Traceparent == "" && f.Task != "" {
		if t, err := o.state.Task(f.Task); err == nil && t != nil {
			f.Traceparent = t.Traceparent
		}
	}
	o.countRunning(f)
	if _, err := o.state.Apply(f, o.state.Next); err != nil {
		return err
	}
	r, err := events.EncodeFact(f, o.cfg.Partition, o.source)
	if err != nil {
		return err
	}
	if input != nil {
		if b.inputs == nil {
			b.inputs = map[int]events.Record{}
		}
		b.inputs[len(b.facts)] = *input
	}
	b.facts = append(b.facts, f)
	b.records = append(b.records, r)
	b.bytes += r.Size()
	o.box.folded(p.Settled)
	o.stats.Facts++
	return nil
}

// full says whether the batch takes no more.
func (o *Owner) full(b *batch) bool {
	return len(b.facts) >= o.cfg.BatchFacts || b.bytes >= o.cfg.BatchBytes
}

// decide fills batches while there is something to decide and room in flight.
func (o *Owner) decide() {
	for o.canDecide() && (o.settling() || o.box.failed) {
		b := &batch{seq: o.pipe.seq + 1}
		if !o.fill(b) || len(b.facts) == 0 {
			return
		}
		if !o.sendOff(b) {
			return
		}
	}
}

func (o *Owner) canDecide() bool {
	return o.phase == phaseOwning && !o.suspended && !o.lagging() &&
		(len(o.pipe.flying) == 0 || len(o.pipe.flying) < o.inFlight() && o.waiting() >= o.cfg.BatchFacts/4)
}

// waiting returns how many inputs wait to be judged. While an append travels, a few of them wait for its answer, and share
// a batch with what comes in the meantime: ten appends of one fact each cost everybody on their way ten times as much as
// one of ten. Many go at once, since then it is the way that is long. Submissions that are held back are not counted.
func (o *Owner) waiting() int {
	n := 0
	for in, q := range o.in {
		if in == events.Submissions && o.working() {
			n += min(len(q.items), o.beside())
		} else {
			n += len(q.items)
		}
	}
	return n
}

// lagging says whether reading has been behind one's own acknowledged writes for too long: an owner that can write
// and not read would decide on an old view for ever.
func (o *Owner) lagging() bool {
	return o.log.lagSince != 0 && o.now.Sub(o.log.lagSince) > o.cfg.LagMax
}

// sendOff closes a batch and appends it.
func (o *Owner) sendOff(b *batch) bool {
	if !o.flushBatch(b) {
		return false
	}
	o.pipe.seq, b.sentAt = b.seq, o.now
	o.pipe.flying = append(o.pipe.flying, b)
	o.do(Append{Generation: o.gen, Batch: b.seq, Records: b.records})
	if o.cfg.Off.off(RuleDurable) {
		o.release(b)
		o.sendEffects()
	}
	return true
}

// Appended answers Append. offsets are in the order of the records.
func (o *Owner) Appended(now events.Instant, gen, seq uint64, offsets []int64, err error) {
	if !o.current(gen) {
		return
	}
	o.enter(now)
	for _, b := range o.pipe.flying {
		if b.seq == seq && !b.answered {
			b.answered, b.offsets, b.err = true, offsets, err
		}
	}
	// Answers are taken in the order of the batches: an effect of a later one must not overtake (traces, d3).
	for len(o.pipe.flying) > 0 && o.pipe.flying[0].answered {
		if !o.acknowledge(o.pipe.flying[0]) {
			return
		}
	}
	o.sendEffects()
	o.deciding = true
}

// acknowledge takes the answer to the oldest append: if the offsets are contiguous, nobody else wrote, so the facts
// are valid in every reader's fold; state and offset are committed, now or with a later batch, and the effects may leave
// (INV3, INV8).
func (o *Owner) acknowledge(b *batch) bool {
	if b.err != nil || !o.contiguous(b) {
		o.endEpoch()
		return false
	}
	o.pipe.flying[0] = nil // the batch would stay alive for as long as the slice's memory
	o.pipe.flying = o.pipe.flying[1:]
	o.pipe.confirmed += int64(len(b.facts))
	if o.cfg.Off.off(RuleContiguous) && len(b.offsets) > 0 {
		o.pipe.confirmed = b.offsets[len(b.offsets)-1] + 1
	}
	if o.log.next < o.pipe.confirmed && o.log.lagSince == 0 && !o.log.resting {
		o.log.lagSince = o.now
	}
	o.flush.last = b.records[len(b.records)-1]
	o.flush.last.Offset = o.pipe.confirmed - 1
	if b.delta != nil {
		o.do(Commit{Delta: b.delta, Last: o.flush.last})
		o.cache.commit(b)
	}
	o.forgive(b)
	if !o.cfg.Off.off(RuleDurable) {
		o.release(b)
	}
	o.box.confirm(b)
	return true
}

// contiguous says whether the batch lies right behind the last confirmed fact. A gap means that somebody else wrote
// in between; an offset below one's own position, that the log lost records.
func (o *Owner) contiguous(b *batch) bool {
	if o.cfg.Off.off(RuleContiguous) {
		return true
	}
	for i, at := range b.offsets {
		if at != o.pipe.confirmed+int64(i) {
			return false
		}
	}
	return len(b.offsets) == len(b.facts)
}

// tickEpoch ends the epoch when an append has been without an answer for too long: its outcome is unknown.
func (o *Owner) tickEpoch() bool {
	if len(o.pipe.flying) == 0 || o.now.Sub(o.pipe.flying[0].sentAt) <= o.cfg.UnknownAfter {
		return true
	}
	if o.cfg.Off.off(RuleUnknown) { // taken as success: what the rule forbids
		b := o.pipe.flying[0]
		b.answered = true
		for i := range b.facts {
			b.offsets = append(b.offsets, o.pipe.confirmed+int64(i))
		}
		o.acknowledge(b)
		o.sendEffects()
		return true
	}
	o.endEpoch()
	return false
}

// countRunning keeps the number of running attempts of each agent, before the fact is folded.
func (o *Owner) countRunning(f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.StepStarted:
		o.running[b.Agent]++
	case *events.UndoStarted:
		o.running[b.Agent]++
	case *events.StepCompleted:
		o.attemptEnded(f.Task, b.Step, events.Do, b.Attempt)
	case *events.StepFailed:
		o.attemptEnded(f.Task, b.Step, events.Do, b.Attempt)
	case *events.Timeout:
		o.attemptEnded(f.Task, b.Step, b.Operation, b.Attempt)
	case *events.Compensated:
		o.attemptEnded(f.Task, b.Step, events.Undo, b.Attempt)
	case *events.UndoFailed:
		o.attemptEnded(f.Task, b.Step, events.Undo, b.Attempt)
	case *events.EffectFailed:
		if b.Failed != nil {
			o.attemptEnded(f.Task, b.Failed.Step, events.Do, b.Failed.Attempt)
		} else if b.UndoFailed != nil {
			o.attemptEnded(f.Task, b.UndoFailed.Step, events.Undo, b.UndoFailed.Attempt)
		}
	}
}

func (o *Owner) attemptEnded(task, path string, op events.Operation, attempt int) {
	t, err := o.state.Task(task)
	if err != nil || t == nil || !t.Running(path, op, attempt) {
		return
	}
	s := t.Step(path)
	agent := s.Agent
	if op == events.Undo {
		agent = s.Undo.Agent
	}
	o.running[agent]--
	o.endedAt = o.now
	o.routing.ended(attemptKey{task, path, op, attempt})
}

// inFlight is one while tasks of a take-over are unplanned: the store must have answered the batch before.
func (o *Owner) inFlight() int {
	if o.unplanned {
		return 1
	}
	return o.cfg.InFlight
}
