package supervisor

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/sagalog/sagalog/events"
)

// phase is the state of an owner in the diagram of doc.go. It exists in memory only.
type phase int

const (
	phaseIdle phase = iota
	phaseOpening
	phaseLoading
	phaseClaiming
	phaseResuming
	phaseOwning
	phaseStopped
)

// String returns the phase as it is shown to people.
func (p phase) String() string {
	return [...]string{"idle", "loading", "loading", "claiming", "resuming", "owning", "stopped"}[p]
}

// epoch is the right to decide: the claim, the appends that prove it, and reading the partition's own log, which shows
// when it ends. A generation begins with each load; answers to requests of an older generation are ignored.
type epoch struct {
	*core
	phase phase
	// end is the end of the log when the generation began, negative until the answer arrives.
	end int64
	// claim is the identifier of the claim in flight, sent at sentAt.
	claim  string
	sentAt events.Instant
	// before is the node that owned the partition before the claim in flight; empty if there was none.
	before  string
	retryAt events.Instant
	// again says that an epoch of this assignment has ended. If another node's claim is folded after that, it was the
	// claim that ended the epoch.
	again bool
	// folded counts records since the last commit; last is the last record that is folded or acknowledged, the store's
	// anchor.
	folded int
	last   events.Record
	// confirmed is the offset after the last fact that is known to be durable, contiguous and ours.
	confirmed int64
	log       logReading
	// corrected is the last task that was corrected, and ending says that all were, and that the epoch ends: see correct.
	corrected string
	ending    bool
	// unread is why the store did not return the body of an adopted definition. Nothing is recorded or written after that: the task would be
	// parked as one whose definition cannot be used.
	unread error
}

// commitEvery is the number of records after which a long fold is committed, so that a crash does not start it over.
const commitEvery = 5000

// refusedPause is how long an owner waits before it claims again after the broker refused a batch because of its size. Each of its
// facts is small enough for a topic as it was created, so an operator must have lowered the topic's limit, and has to raise it
// again.
const refusedPause = 30 * time.Second

// refusedQuiet is how long an owner after such a refusal has nothing to append until the refusal is over: reading the inputs takes less.
const refusedQuiet = 5 * time.Second

// reset begins a generation in the given phase.
func (e *epoch) reset(p phase) {
	if e.gen > 0 {
		e.say(Release{e.gen})
	}
	e.gen++
	e.state, e.batch, e.flying, e.unwritten = nil, nil, nil, false
	*e.cache = cache{}
	e.now, e.behind = e.read, 0 // the log says whether its time is ahead, and it may have been corrected since
	*e = epoch{core: e.core, phase: p, end: -1}
}

// accepts begins the handling of an answer. It returns false if the answer belongs to an earlier generation.
func (e *epoch) accepts(now events.Instant, gen uint64) bool {
	if gen != e.gen || e.phase == phaseIdle || e.phase == phaseStopped {
		return false
	}
	e.enter(now)
	return true
}

// open reads the committed state from the store and begins to read the log after it.
func (e *epoch) open() error {
	snap, err := e.store.Snapshot()
	if load := snap.Load; load != nil {
		snap.Load = func(k events.Kind, id string) ([]byte, error) {
			row, err := load(k, id)
			if err != nil {
				err = storeError{err}
			}
			return row, err
		}
	}
	if err == nil {
		e.state, err = events.OpenStateAt(e.cfg.MaxLevel, e.cfg.Partition, snap, e.loadTask)
	}
	if err != nil {
		return err
	}
	e.phase = phaseLoading
	e.state.SetLax(events.Lax{AnyClaim: e.cfg.Off.off(RuleClaimPrev), AnySequence: e.cfg.Off.off(RuleSequence)})
	e.log.next = e.state.Next
	e.say(Load{e.gen, e.state.Next})
	return nil
}

// loadTask finds a task in the store. From then on it is in memory.
func (e *epoch) loadTask(id string) (events.StoredTask, error) {
	task, err := e.store.Load(id)
	if err != nil {
		return task, storeError{err}
	}
	if task.Encoding != nil {
		e.cache.loaded(id, &task)
	}
	return task, nil
}

// load folds a record of the log before the owner decides. It returns true when the record is the owner's own claim,
// and valid.
func (e *epoch) load(r *events.Record) (won bool, err error) {
	if r.Offset < e.state.Next {
		return false, nil
	}
	f, err := events.DecodeFact(r)
	if err != nil {
		return false, errors.Join(ErrFold, err)
	}
	fate, err := e.state.Apply(f, r.Offset)
	if err != nil {
		return false, errors.Join(ErrFold, err)
	}
	e.last = *r
	if e.folded++; e.folded >= commitEvery && !e.state.Partition.HalfCarried() {
		if err := e.commitFolded(); err != nil {
			return false, err
		}
	}
	if fate != events.FateAccepted {
		e.stats.Void++
		if c, ok := f.Body.(*events.PartitionClaimed); ok && c.ID == e.claim {
			// The claim was refused, because somebody else's came first. Try again as long as the partition is
			// assigned.
			e.claim = ""
			//mutant:refused-claim-is-retried
			e.retryAt = e.now.Add(e.pause())
			e.phase = phaseLoading
		}
		return false, nil
	}
	e.foldRecorded(e.taskOf(f), f)
	e.planner.fold(f) // facts of the log are durable; the outbox folds those above its watermark later: see replay
	return e.phase == phaseResuming, nil
}

// fold takes note of claims.
func (e *epoch) fold(f *events.Fact) {
	b, ok := f.Body.(*events.PartitionClaimed)
	switch {
	case !ok:
	case b.ID == e.claim:
		e.phase = phaseResuming
	case e.again && b.Owner != e.cfg.Node:
		e.retryAt = e.now.Add(e.cfg.DeposedPause + e.pause())
	}
}

// commitFolded commits the facts folded before the owner decides.
func (e *epoch) commitFolded() error {
	d, err := e.state.Flush(nil)
	if err != nil {
		return err
	}
	e.folded, e.cache.stored = 0, d.Next
	e.say(Commit{Delta: d, Last: e.last})
	for _, row := range d.Tasks {
		e.cache.leave(row.ID)
	}
	return nil
}

// claimWhenLoaded claims the partition once the log is folded to its end.
func (e *epoch) claimWhenLoaded() error {
	if e.phase != phaseLoading || e.end < 0 || e.state.Next < e.end || e.now < e.retryAt {
		return nil
	}
	//mutant:half-copy-is-not-claimed
	if e.state.Partition.Loading() {
		return fmt.Errorf("%w: the log ends in the carry with which it begins, so the state is not complete", ErrFold)
	}
	if e.level > e.cfg.MaxLevel {
		return events.TooOld(e.level, e.cfg.MaxLevel)
	}
	//mutant:closed-partition-is-not-claimed
	if err := e.closed(); err != nil {
		return err
	}
	e.claim, e.sentAt, e.before = e.freshID(), e.now, e.state.Partition.Owner
	r, err := events.EncodeFact(e.claimFact(), e.cfg.Partition, e.source)
	if err != nil {
		return err
	}
	e.phase = phaseClaiming
	e.say(Claim{e.gen, r})
	return nil
}

// closed refuses a partition of a namespace that was copied.
func (e *epoch) closed() error {
	if c := e.state.Partition.Closed; c != nil {
		return fmt.Errorf("%w to %s at %s: start nodes there. If that copy was given up, `sagalog namespace reopen` takes this namespace back", ErrClosed, c.To, c.At)
	}
	return nil
}

// claimFact returns the claim in flight, whose predecessor is the epoch that is folded now.
func (e *epoch) claimFact() *events.Fact {
	return &events.Fact{Time: e.stamp(), Body: &events.PartitionClaimed{
		ID: e.claim, Prev: e.state.Partition.Epoch.ID, Owner: e.cfg.Node, Reader: e.cfg.MaxLevel,
	}}
}

// ownUnread begins the epoch on the broker's answer alone, without reading the claim back, which RuleReadBack forbids.
func (e *epoch) ownUnread(offset int64) bool {
	f := e.claimFact()
	r, err := events.EncodeFact(f, e.cfg.Partition, e.source)
	if err == nil {
		_, err = e.state.Apply(f, offset)
	}
	if err != nil {
		return false
	}
	e.last, e.last.Offset = r, offset
	return true
}

// own begins the epoch whose claim was read back, and takes over what earlier epochs left unfinished.
func (e *epoch) own() error {
	// An owner may claim when it has read the claim of a copy and not yet the fact behind it that closes the partition.
	//mutant:owner-behind-closed-stops
	if err := e.closed(); err != nil {
		return err
	}
	e.stats.Epochs++
	e.phase = phaseResuming
	e.now = e.stamp() // see advance
	e.confirmed = e.state.Next
	e.log.counted, e.log.tickedAt, e.log.quietSince = e.state.Next, e.now, e.now
	if err := e.commitFolded(); err != nil {
		return err
	}
	e.planner.unplanned = true
	e.inbox.takeOver()
	e.outbox.takeOver()
	return e.waking.learn()
}

// raise records the namespace's level as the barrier of the partition, before the first fact that needs it. A build below the
// level refuses the barrier in the fold, and its owner gives up the partition.
func (e *epoch) raise() error {
	//mutant:barrier-before-newer-facts
	if e.level > max(e.state.Partition.Reader, events.FirstLevel) {
		return e.record(&events.Fact{Body: &events.VersionBarrier{Reader: e.level}, Cause: e.lastCause()}, nil)
	}
	return nil
}

// adopt records the level and the latest settings of the namespace before anything is decided by them, and the hash of the state every
// Settings.HashEvery facts. An owner may know older settings than the partition has, and does not adopt those.
func (e *epoch) adopt() error {
	if err := e.raise(); err != nil {
		return err
	}
	p := &e.state.Partition
	//mutant:only-newer-settings-are-adopted
	if p.Settings == (events.Settings{}) || e.cfg.SettingsOffset > p.SettingsOffset {
		f := &events.Fact{Body: &events.SettingsAdopted{Settings: e.cfg.Settings, Offset: e.cfg.SettingsOffset}, Cause: e.lastCause()}
		if e.cfg.SettingsOffset > 0 {
			f.Cause = events.CauseDefinition(e.cfg.SettingsOffset)
		}
		if err := e.record(f, nil); err != nil {
			return err
		}
	}
	if n := p.Settings.HashEvery; n > 0 && p.SinceHash >= n {
		h, err := e.state.Hash()
		if err != nil {
			return err
		}
		return e.record(&events.Fact{Body: &events.StateHash{Hash: h}, Cause: e.lastCause()}, nil)
	}
	return nil
}

// tick claims when it is time, and gives up an append or a claim that has had no answer for too long: its outcome is unknown.
func (e *epoch) tick() error {
	switch e.phase {
	case phaseLoading:
		return e.claimWhenLoaded()
	case phaseClaiming:
		if e.now.Sub(e.sentAt) > e.cfg.UnknownAfter {
			return errEpochOver
		}
	case phaseResuming, phaseOwning:
		for _, b := range e.flying {
			if b.sentAt == 0 {
				b.sentAt = e.now
			}
		}
		if len(e.flying) == 0 || e.now.Sub(e.flying[0].sentAt) <= e.cfg.UnknownAfter {
			return nil
		}
		if !e.cfg.Off.off(RuleUnknown) {
			return errEpochOver
		}
		b := e.flying[0] // with the rule switched off, this counts as success
		b.answered = true
		for i := range b.facts {
			b.offsets = append(b.offsets, e.confirmed+int64(i))
		}
		return e.acknowledge(b)
	}
	return nil
}

// pause returns a random duration up to RetryPause, so that two candidates do not keep colliding.
func (e *epoch) pause() time.Duration {
	b := e.cfg.Entropy()
	return e.cfg.RetryPause * time.Duration(int(b[0])+1) / 256
}

// claimBytes is how many random bytes the identifier of a claim has. It stands in each fact. Two claims of a partition must not have the same,
// and with 80 bits that happens to one of a million partitions with a million claims each with a probability below one in a million.
const claimBytes = 10

func (e *epoch) freshID() string {
	b := e.cfg.Entropy()
	//mutant:claim-id-is-fresh
	return events.ShortID(b[:claimBytes])
}

// sourceOf names the node that writes, so that each fact names its owner. The partition is in the ce_id.
func sourceOf(c *Config) string { return "/" + c.Namespace + "/" + url.PathEscape(c.Node) }
