package supervisor

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/sagalog/sagalog/events"
)

// loading is the time before the owner decides.
type loading struct {
	// end is the end of the log that was asked for at the start; known says whether the answer is there.
	end   int64
	known bool
	// claim is the identifier of the claim on its way, sent at sentAt.
	claim   string
	sentAt  events.Instant
	retryAt events.Instant
	// again says that an epoch of this assignment has ended: a claim of another that is folded now ended it.
	again bool
	// folded counts records since the last commit.
	folded int
	last   events.Record
}

// commitEvery is the number of records after which a long fold is committed, so that a crash does not begin it anew.
const commitEvery = 5000

// Loaded answers Load with the end offset of the log at that time.
func (o *Owner) Loaded(now events.Instant, gen uint64, end int64, err error) {
	if !o.current(gen) || o.phase != phaseLoading {
		return
	}
	o.enter(now)
	if err != nil {
		o.endEpoch()
		return
	}
	o.load.end, o.load.known = end, true
	o.maybeClaim()
}

// Tail gives records of the owner's own partition, in order; next is the offset read up to.
func (o *Owner) Tail(now events.Instant, gen uint64, records []events.Record, next int64) {
	if !o.current(gen) {
		return
	}
	o.enter(now)
	for i := range records {
		if o.phase == phaseLoading || o.phase == phaseClaiming {
			if !o.foldTail(&records[i]) {
				return
			}
		} else if !o.watch(&records[i]) {
			return
		}
	}
	o.log.next = max(o.log.next, next)
	o.log.lagSince = 0
	if o.phase == phaseLoading {
		o.maybeClaim()
	}
	o.deciding = true
}

// TailLost says that the partition's own log does not hold the offset to be read next. What is committed here was
// folded from records that are gone: the partition stops, and the next start rebuilds it or refuses.
func (o *Owner) TailLost(now events.Instant, gen uint64, err error) {
	if o.current(gen) {
		o.enter(now)
		o.stop(errors.Join(ErrFold, err))
	}
}

// foldTail folds a record of the log before the owner decides. It returns false when its phase is over for good.
func (o *Owner) foldTail(r *events.Record) bool {
	if r.Offset < o.state.Next {
		return true
	}
	f, err := events.DecodeFact(r)
	if err != nil {
		o.stop(errors.Join(ErrFold, err))
		return false
	}
	fate, err := o.state.Apply(f, r.Offset)
	if err != nil {
		o.stop(errors.Join(ErrFold, err))
		return false
	}
	o.load.last = *r
	if o.load.folded++; o.load.folded >= commitEvery {
		if !o.commitFolded() {
			return false
		}
	}
	c, ok := f.Body.(*events.PartitionClaimed)
	switch {
	case !ok:
	case c.ID != o.load.claim:
		if o.load.again && fate == events.FateAccepted && c.Owner != o.cfg.Node {
			o.load.retryAt = o.now.Add(o.cfg.DeposedPause + o.pause())
		}
	case fate == events.FateAccepted:
		o.own()
		return o.phase != phaseStopped
	default:
		// Refused: somebody else's claim came first. Try again as long as the partition is assigned.
		o.load.claim = ""
		o.load.retryAt = o.now.Add(o.pause())
		o.phase = phaseLoading
	}
	return true
}

func (o *Owner) commitFolded() bool {
	d, err := o.state.Flush(nil)
	if err != nil {
		o.stop(err)
		return false
	}
	o.load.folded = 0
	o.do(Commit{Delta: d, Last: o.load.last})
	for _, row := range d.Tasks {
		o.cache.release(row.ID)
	}
	return true
}

// maybeClaim claims the partition when the log is folded to its end.
func (o *Owner) maybeClaim() {
	if o.phase != phaseLoading || !o.load.known || o.state.Next < o.load.end || o.now < o.load.retryAt {
		return
	}
	o.load.claim, o.load.sentAt = o.freshID(), o.now
	r, err := events.EncodeFact(o.claimFact(), o.cfg.Partition, o.source)
	if err != nil {
		o.stop(err)
		return
	}
	o.phase = phaseClaiming
	o.do(Claim{o.gen, r})
}

// claimFact is the claim on its way, over what is folded now.
func (o *Owner) claimFact() *events.Fact {
	return &events.Fact{Time: max(o.now, o.state.Partition.Time), Body: &events.PartitionClaimed{
		ID: o.load.claim, Prev: o.state.Partition.Epoch.ID, Owner: o.cfg.Node, Reader: events.FormatVersion,
	}}
}

// sourceOf names the partition and, last, the node that writes: so each fact tells its owner.
func sourceOf(c *Config) string {
	return fmt.Sprintf("/%s/events/%d/%s", c.Namespace, c.Partition, url.PathEscape(c.Node))
}

// Claimed answers Claim. The answer alone proves nothing: another claim may lie before this one. Only reading the
// claim back tells (reading/traces.md, b1).
func (o *Owner) Claimed(now events.Instant, gen uint64, offset int64, err error) {
	if !o.current(gen) || o.phase != phaseClaiming {
		return
	}
	o.enter(now)
	if err != nil {
		o.endEpoch()
		return
	}
	if o.cfg.Off.off(RuleReadBack) {
		o.ownUnread(offset)
	}
}

// ownUnread takes the answer to the claim for the epoch: what the rule forbids.
func (o *Owner) ownUnread(offset int64) {
	f := o.claimFact()
	r, err := events.EncodeFact(f, o.cfg.Partition, o.source)
	if err == nil {
		_, err = o.state.Apply(f, offset)
	}
	if err == nil {
		o.load.last = r
		o.load.last.Offset = offset
		o.own()
	}
}

// tickClaim sends a claim whose time has come, and gives up one that was never seen.
func (o *Owner) tickClaim() {
	if o.phase == phaseClaiming && o.now.Sub(o.load.sentAt) > o.cfg.UnknownAfter {
		o.endEpoch()
		return
	}
	o.maybeClaim()
}

// own begins the epoch whose claim was read back: commit what was folded, send again the effects that are not
// settled, and read the inputs from the folded resume points, whatever was read before (reading/traces.md, h4).
func (o *Owner) own() {
	o.stats.Epochs++
	o.phase = phaseResuming
	o.now = max(o.now, o.state.Partition.Time) // see advance
	o.pipe.confirmed = o.state.Next
	o.flush.last = o.load.last
	o.log.counted, o.log.tickedAt, o.log.quietSince = o.state.Next, o.now, o.now
	if !o.commitFolded() {
		return
	}
	o.unplanned = true
	o.running = map[string]int{}
	o.in = map[events.Input]*inputQueue{}
	from := map[events.Input]int64{}
	for _, in := range []events.Input{events.Reports, events.Submissions} {
		q := &inputQueue{}
		from[in] = q.resume(o.state.Partition.Inputs[in])
		if o.cfg.Off.off(RuleResume) && o.position[in] > from[in] {
			from[in], *q = o.position[in], inputQueue{judged: o.position[in], fetched: o.position[in]}
		}
		o.in[in] = q
	}
	for cause := range o.poison { // what is passed is never judged again
		if in, _, offset, ok := cause.Input(); ok && offset < o.state.Partition.Inputs[in].Next {
			delete(o.poison, cause)
		}
	}
	o.do(ReadInputs{o.gen, from})
	o.resend()
}

// settleIn completes the take-over once the effects to be sent again are known.
func (o *Owner) settleIn() {
	err := o.store.Live(func(id string) error {
		t, err := o.state.Task(id)
		if err != nil || t == nil {
			return err
		}
		t.RunningBy(o.running, 1)
		o.cache.note(id)
		o.evict() // a backlog whose tasks have deadlines is all alive, and far larger than memory
		return nil
	})
	if err == nil {
		err = o.queue.open(o.store)
	}
	if err != nil {
		o.stop(err)
		return
	}
	o.phase = phaseOwning
	o.deciding = true
}
