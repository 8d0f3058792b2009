package supervisor

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/sagalog/sagalog/events"
)

// Owner is the pure owner of one partition. It calls its parts in a fixed order. Its methods are called by one
// goroutine. After one or more calls, the caller calls Decide, takes the actions and carries them out in order, and
// repeats this until there are none.
type Owner struct {
	*core
	// suspended holds back deciding while the clock is not to be trusted; deciding says that there may be something to
	// decide.
	suspended, deciding bool
}

// NewOwner returns an owner that is not assigned.
func NewOwner(cfg Config, s Scheduler, store Store) (*Owner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(cfg.Node)) // never fails
	c := &core{cfg: cfg, sched: s, store: store, source: sourceOf(&cfg), cache: &cache{}, level: cfg.Level}
	c.epoch, c.writer, c.timers, c.outbox = &epoch{core: c}, &writer{core: c}, &timers{core: c}, &outbox{core: c}
	c.waking, c.delays, c.replies, c.trimming = &waking{core: c}, &delays{core: c}, &replies{core: c}, &trimming{core: c}
	c.inbox = &inbox{core: c, poison: map[events.Cause]*poisoned{}, position: map[events.Input]int64{}}
	c.alone = newAlone(c)
	c.unopened = &unopened{core: c}
	c.unopened.reset()
	c.carry = &carry{core: c}
	c.schedules, c.limits = &schedules{core: c}, &limits{core: c}
	c.planner = &planner{core: c, poison: map[string]string{}, noOutput: map[string]bool{}}
	c.dispatch = &dispatch{core: c, nodeHash: hash.Sum32()}
	return &Owner{core: c}, nil
}

// Decide decides about everything that has arrived, once all earlier actions were taken. Deciding happens here, not in
// the methods that deliver messages, so that messages that arrive together are decided about together. If the caller skips a
// call, inputs wait and share a batch with those that arrive in the meantime.
func (o *Owner) Decide() {
	if len(o.out) > 0 || o.epoch.phase == phaseOpening || !o.deciding {
		return
	}
	o.deciding = false
	// While an append is in flight, a few inputs wait for its answer and share a batch with those that arrive in the meantime:
	// ten appends of one fact cost ten times as much as one append of ten facts. Many inputs do not wait, because then the round
	// trip would be the bottleneck.
	room := func() bool {
		n := len(o.flying)
		return n == 0 || n < o.planner.inFlight() && o.inbox.backlogs() >= o.cfg.BatchFacts/4
	}
	for o.epoch.phase == phaseOwning && !o.suspended && !o.epoch.lagging() && room() {
		o.batch = &batch{seq: o.seq + 1}
		if !o.conclude(o.fill()) || len(o.batch.facts) == 0 || !o.conclude(o.writer.join()) {
			break
		}
		o.epoch.append()
		if o.cfg.Off.off(RuleDurable) {
			o.outbox.send()
		}
	}
	o.batch = nil
	if o.epoch.phase == phaseOwning {
		flushed, err := o.writer.flushIdle()
		o.deciding = o.conclude(err) && (o.deciding || flushed) // attempts that wait in the store can be read back now
	}
}

// fill decides the facts of a batch: those that the partition itself needs, then inputs, timers and starts. Each has a
// share of every batch, so that none starves while the others keep coming: otherwise a burst of submissions would hold
// back the very starts that work it off. The rest of the batch goes to the inputs.
func (c *core) fill() error {
	//mutant:half-carried-is-completed-first
	if c.carry.half() {
		return c.carry.complete()
	}
	if correcting, err := c.epoch.correct(); correcting || err != nil {
		return err
	}
	if !c.outbox.bounded() {
		if err := c.outbox.recordFailed(); err != nil {
			return err
		}
		if err := c.delays.update(); err != nil {
			return err
		}
		return c.timers.fire()
	}
	for _, step := range [...]func() error{
		c.epoch.adopt,
		c.schedules.adopt,
		c.limits.adopt,
		c.inbox.giveUp,
		c.planner.parkPoisoned,
		c.outbox.recordFailed,
		c.delays.update,
		func() error { return c.inbox.judge(firstShares) },
		c.planner.planUnplanned,
		c.timers.fire,
		c.schedules.fire,
		c.dispatch.admit,
		func() error { return c.inbox.judge(secondShares) },
		//mutant:carry-goes-on
		c.carry.step,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if len(c.batch.facts) > 0 {
		c.outbox.quietSince = c.now
		return nil
	}
	if c.timers.moved {
		// Retries fell due but cannot start yet, or deadlines came, so there is no fact. The rows of these tasks are rewritten all
		// the same; otherwise they would stay ahead of all later timers, or ahead of younger tasks.
		c.unwritten = true
	}
	return c.inbox.passWhenIdle()
}

// TakeActions returns the actions to carry out, in order, and forgets them. The caller asks again until there are none:
// the owner reads from the store only after the commits before the read are carried out. (Otherwise, if an epoch ended
// right after an acknowledgement, the next one would start from a snapshot older than the tasks that it then loads.)
func (o *Owner) TakeActions() []Action {
	if len(o.out) == 0 && o.epoch.phase == phaseOpening {
		o.conclude(o.epoch.open())
	}
	out := o.out
	o.out = nil
	return out
}

// Assign makes the owner a candidate, which loads the log and claims the partition. An owner that stopped with an error tries
// again if the partition has been revoked since, and stops again if the cause remains.
func (o *Owner) Assign(now events.Instant) {
	o.enter(now)
	if o.epoch.phase == phaseIdle {
		o.end(phaseOpening)
		o.epoch.retryAt = o.now
	}
}

// Revoke gives up the partition. Facts in flight may still land; they are valid until somebody else claims.
func (o *Owner) Revoke(now events.Instant) {
	o.enter(now)
	o.end(phaseIdle)
	o.refused = nil
	o.alone.leave()
}

// SetOffers sets what the live instances of each agent offer. Steps wait for an agent that is not in the map. Before the
// first call, no agent counts as missing. The owner keeps the map.
func (o *Owner) SetOffers(now events.Instant, offers map[string]Offer) {
	o.enter(now)
	o.dispatch.setOffers(offers)
	o.deciding = true
}

// SetSettings tells the owner the level of the namespace, and its settings as of the record at that offset of the definitions.
// The partition adopts the settings unless it already has settings of that offset or a later one; a higher level is adopted by a
// barrier.
func (o *Owner) SetSettings(now events.Instant, s events.Settings, offset int64, level int) {
	if offset <= o.cfg.SettingsOffset && level <= o.level {
		return
	}
	o.enter(now)
	if offset > o.cfg.SettingsOffset {
		o.cfg.Settings, o.cfg.SettingsOffset = s, offset
	}
	o.level = max(o.level, level)
	o.deciding = true
}

// Suspend stops or resumes deciding. The shell calls it when it suspects its clock, and when it learns whether the clock agrees with those of most
// brokers and nodes: only then the clock may correct the log's time.
func (o *Owner) Suspend(now events.Instant, suspended, agreed bool) {
	o.suspended, o.agreed = suspended, agreed
	if !suspended {
		o.enter(now)
		o.deciding = true
	}
}

// Tick lets time pass.
func (o *Owner) Tick(now events.Instant) {
	if o.suspended {
		return
	}
	o.enter(now)
	if !o.conclude(o.epoch.tick()) || o.epoch.phase != phaseResuming && o.epoch.phase != phaseOwning {
		return
	}
	o.epoch.pauseReading()
	if o.epoch.phase == phaseOwning && !o.conclude(o.timers.ask()) {
		return
	}
	o.outbox.works = nil
	o.outbox.retryRefused()
	o.replies.tick()
	o.dispatch.avoidSlow()
	o.deciding = true
}

// conclude handles an error: either the epoch ends and the input or task that caused it is set aside, or the ownership
// ends. It returns false if there was an error.
func (o *Owner) conclude(err error) bool {
	if err == nil {
		return true
	}
	var bad *poisoned
	var store storeError
	switch {
	case errors.As(err, &store), errors.Is(err, events.ErrRow): // no input is to blame
	case errors.As(err, &bad) && bad.task != "":
		o.planner.poison[bad.task] = bad.Error()
		err = errEpochOver
	case bad != nil && bad.cause != "":
		bad.again = o.inbox.poison[bad.cause] != nil
		o.inbox.poison[bad.cause] = bad
		err = errEpochOver
	}
	if !errors.Is(err, errEpochOver) {
		o.end(phaseStopped)
		o.say(Stop{fmt.Errorf("partition %d: %w", o.cfg.Partition, err)})
		return false
	}
	// Facts decided ahead of the log are void: the log is folded again, and the partition claimed again. Returning to the
	// committed state within the same epoch would be wrong, because appends in flight may still land.
	pause := o.epoch.pause()
	if errors.Is(err, events.ErrTooLarge) {
		pause += refusedPause
	}
	o.end(phaseOpening)
	o.epoch.retryAt, o.epoch.again = o.now.Add(pause), true
	return false
}

// end ends the generation and drops every uncommitted change.
func (o *Owner) end(next phase) {
	o.epoch.reset(next)
	o.inbox.reset()
	o.planner.unplanned = false
	clear(o.planner.noOutput)
	o.timers.reset()
	o.unopened.reset()
	o.outbox.reset()
	o.delays.reset()
	o.replies.reset()
	o.waking.reset()
	o.trimming.reset()
	o.dispatch.reset()
	//mutant:carry-looks-again-in-each-epoch
	o.carry.reset()
	o.sched.Reset()
	o.deciding = false
}
