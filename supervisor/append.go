package supervisor

import (
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// append sends the batch under construction. While it is in flight, the next batch is decided on the state after it.
func (e *epoch) append() {
	b := e.batch
	e.batch = nil
	e.seq = b.seq
	e.flying = append(e.flying, b)
	e.say(Append{Generation: e.gen, Batch: b.seq, Records: b.records})
	if e.cfg.Off.off(RuleDurable) {
		e.foldDurable(b)
	}
}

// answered takes the answer to an append. Answers are processed in the order of the batches, so that no effect of a
// later batch overtakes one of an earlier batch. docs/protocol.md, "Answers are taken in the order of the appends".
func (e *epoch) answered(seq uint64, offsets []int64, err error) error {
	for _, b := range e.flying {
		if b.seq == seq && !b.answered {
			b.answered, b.offsets, b.err = true, offsets, err
		}
	}
	//mutant:acknowledged-in-order
	for len(e.flying) > 0 && e.flying[0].answered {
		if err := e.acknowledge(e.flying[0]); err != nil {
			return err
		}
	}
	return nil
}

// acknowledge takes the answer to the oldest append: if the offsets are contiguous, nobody else wrote, so the facts
// are valid in every reader's fold; state and offset are committed, now or with a later batch, and the effects may leave
// (INV3, INV8).
func (e *epoch) acknowledge(b *batch) error {
	if errors.Is(b.err, events.ErrTooLarge) {
		e.refused = b.err
		return fmt.Errorf("%w: %w", errEpochOver, b.err)
	}
	//mutant:failed-append-ends-epoch
	if b.err != nil || !e.contiguous(b) {
		return errEpochOver
	}
	e.refused = nil
	e.flying[0] = nil // otherwise the slice's memory would keep the batch alive
	e.flying = e.flying[1:]
	e.confirmed += int64(len(b.facts))
	if e.cfg.Off.off(RuleContiguous) && len(b.offsets) > 0 {
		e.confirmed = b.offsets[len(b.offsets)-1] + 1
	}
	if e.log.next < e.confirmed && e.log.lagSince == 0 && !e.log.paused {
		e.log.lagSince = e.now
	}
	e.last = b.records[len(b.records)-1]
	e.last.Offset = e.confirmed - 1
	if b.delta != nil {
		e.say(Commit{Delta: b.delta, Last: e.last})
		e.cache.commit(b)
	}
	if !e.cfg.Off.off(RuleDurable) {
		e.foldDurable(b)
	}
	e.trimming.answer()
	//mutant:corrected-epoch-ends
	if e.ending && len(e.flying) == 0 {
		return errEpochOver
	}
	return nil
}

// foldDurable folds the facts of a durable batch into the parts that wait for durability.
func (e *epoch) foldDurable(b *batch) {
	for i, f := range b.facts {
		t := e.taskOf(f)
		e.stats.Durable++
		e.planner.fold(f)
		e.outbox.fold(t, f, e.confirmed-int64(len(b.facts)-i))
		stopWork(e.outbox, t, f)
		if e.cfg.Durable != nil {
			e.cfg.Durable(t, f)
		}
	}
}

// contiguous says whether the batch comes directly after the last confirmed fact. A gap means that somebody else wrote
// in between; an offset below the owner's position means that the log lost records.
func (e *epoch) contiguous(b *batch) bool {
	if e.cfg.Off.off(RuleContiguous) {
		return true
	}
	for i, at := range b.offsets {
		if at != e.confirmed+int64(i) {
			return false
		}
	}
	return len(b.offsets) == len(b.facts)
}
