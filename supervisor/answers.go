package supervisor

import (
	"errors"

	"github.com/sagalog/sagalog/events"
)

// LogEnd answers Load, and AskEnd by the number of the question, with the end offset of the log at the time of the request.
func (o *Owner) LogEnd(now events.Instant, gen, question uint64, end int64, err error) {
	loading := o.epoch.phase == phaseLoading && question == 0
	if !loading && (question == 0 || !o.waking.question.answer(question)) || !o.epoch.accepts(now, gen) {
		return
	}
	switch {
	case err != nil:
		o.conclude(errEpochOver)
	case loading:
		o.epoch.end = end
		o.conclude(o.epoch.claimWhenLoaded())
	default:
		o.waking.end = end
		if o.conclude(o.waking.learn()) {
			o.outbox.send()
		}
	}
}

// LogRecords gives records of the owner's own partition, in order; reading continues at next.
func (o *Owner) LogRecords(now events.Instant, gen uint64, records []events.Record, next int64) {
	if !o.epoch.accepts(now, gen) {
		return
	}
	for i := range records {
		if o.epoch.phase == phaseLoading || o.epoch.phase == phaseClaiming {
			won, err := o.epoch.load(&records[i])
			if won && err == nil {
				err = o.epoch.own()
			}
			if !o.conclude(err) {
				return
			}
		} else if !o.epoch.watch(&records[i]) {
			o.conclude(errEpochOver)
			return
		}
	}
	o.epoch.log.next = max(o.epoch.log.next, next)
	o.epoch.log.lagSince = 0
	if o.conclude(o.epoch.claimWhenLoaded()) {
		o.deciding = true
	}
}

// Lost says that a topic does not hold the offset to be read next, or that it could not be read there. If it is the
// partition's own log, the committed state was folded from records that are gone: the partition stops, and the next
// start rebuilds it or refuses. If it is an input, the partition stops too, unless an operator accepted that loss.
func (o *Owner) Lost(now events.Instant, gen uint64, t Topic, loss Loss, err error) {
	if !o.epoch.accepts(now, gen) {
		return
	}
	if t == EventsTopic {
		o.conclude(errors.Join(ErrFold, err))
		return
	}
	in := events.Input(t)
	err = o.inbox.lose(in, loss, err)
	if o.conclude(misses(o.inbox, events.CauseInput(in, o.cfg.Partition, o.state.Partition.Inputs[in].Next), err)) {
		o.deciding = true
	}
}

// Claimed answers Claim. The answer alone proves nothing: another claim may come before this one. Only reading
// the claim back does. docs/protocol.md, "The claim is read back".
func (o *Owner) Claimed(now events.Instant, gen uint64, offset int64, err error) {
	if o.epoch.phase != phaseClaiming || !o.epoch.accepts(now, gen) {
		return
	}
	switch {
	case err != nil:
		o.conclude(errEpochOver)
	case o.cfg.Off.off(RuleReadBack) && o.epoch.ownUnread(offset):
		o.conclude(o.epoch.own())
	}
}

// Appended answers Append. offsets are in the order of the records.
func (o *Owner) Appended(now events.Instant, gen, seq uint64, offsets []int64, err error) {
	if !o.epoch.accepts(now, gen) {
		return
	}
	if o.conclude(o.epoch.answered(seq, offsets, err)) && o.conclude(o.waking.learn()) {
		o.outbox.send()
		o.deciding = true
	}
}

// Input gives records of an input topic in order; reading continues at next, which is also past transaction markers.
func (o *Owner) Input(now events.Instant, gen uint64, in events.Input, records []events.Record, next int64) {
	if !o.inbox.reading() || !o.epoch.accepts(now, gen) {
		return
	}
	if o.conclude(o.inbox.read(in, records, next)) && o.conclude(o.timers.moveHorizon()) {
		o.deciding = true
	}
}

// Replayed answers ReadFacts for the destination with records in order; reading continues at next.
func (o *Owner) Replayed(now events.Instant, gen uint64, destination string, records []events.Record, next int64) {
	if !o.epoch.accepts(now, gen) {
		return
	}
	if destination != "" {
		if destination == o.delays.reading && o.conclude(o.delays.replay(records, next)) {
			o.deciding = true
		}
		return
	}
	if o.epoch.phase != phaseResuming {
		return
	}
	if !o.conclude(o.outbox.replay(records)) {
		return
	}
	//mutant:all-pages-are-read
	if next < o.state.Next {
		o.say(ReadFacts{Generation: gen, From: next, To: o.state.Next})
		return
	}
	//mutant:resent-work-is-kept
	o.outbox.keepWork()
	if !o.conclude(o.dispatch.open()) {
		return
	}
	o.epoch.phase, o.deciding = phaseOwning, true
	if o.conclude(o.timers.ask()) {
		o.outbox.send()
	}
}

// Fetched answers FetchInput. An error means that the record no longer exists: see misses.
func (o *Owner) Fetched(now events.Instant, gen uint64, cause events.Cause, r events.Record, err error) {
	if !o.epoch.accepts(now, gen) {
		return
	}
	if o.conclude(misses(o.inbox, cause, err)) {
		o.outbox.fetched(cause, &r)
	}
}

// Sent answers Send. refused says that the broker refused the record for good; the shell itself retries whatever may
// still succeed.
func (o *Owner) Sent(now events.Instant, gen, id uint64, refused error) {
	if !o.epoch.accepts(now, gen) {
		return
	}
	if o.outbox.answered(id, refused) {
		o.deciding = true
	}
}

// Ends answers AskEnds. After an error the owner asks again at the next tick.
func (o *Owner) Ends(now events.Instant, gen, question uint64, ends map[events.Input]int64, err error) {
	if !o.epoch.accepts(now, gen) || !o.timers.ends.answer(question) {
		return
	}
	if err != nil {
		return
	}
	o.alone.learnEnds(ends)
	o.timers.learnEnds(ends)
	if o.conclude(o.timers.moveHorizon()) {
		o.deciding = true
	}
}

// Definitions answers AskCatalog. After an error the inputs keep waiting, and the owner asks again.
func (o *Owner) Definitions(now events.Instant, gen, question uint64, c Catalog, err error) {
	if !o.epoch.accepts(now, gen) || !o.inbox.catalog.question.answer(question) {
		return
	}
	o.inbox.catalog.learn(c, err)
	o.deciding = true
}
