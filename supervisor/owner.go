package supervisor

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/sagalog/sagalog/events"
)

// phase is where an owner is in the diagram of doc.go. It lives in memory only.
type phase int

const (
	phaseIdle phase = iota
	phaseLoading
	phaseClaiming
	phaseResuming
	phaseOwning
	phaseStopped
)

// Owner is the pure owner of one partition. Its methods are called by one goroutine. After a call, or after several, the
// caller takes Actions and carries them out in order, again until there are none.
type Owner struct {
	cfg   Config
	sched Scheduler
	store Store
	// source is the ce_source of all that the owner writes.
	source string
	// nodeHash is that of the node's name.
	nodeHash uint32

	phase    phase
	assigned bool
	// gen counts the generations: everything asked for in an older one is void.
	gen uint64
	now events.Instant
	// read is the latest reading of the clock, and behind what is left of the milliseconds for which now went on at half
	// the pace: see advance.
	read, behind events.Instant
	state        *events.State
	out          []Action
	// stats are what metrics show; nothing is decided by them.
	stats Stats

	load  loading
	log   tail
	in    map[events.Input]*inputQueue
	pipe  pipeline
	flush flushing
	box   outbox
	queue queue
	times clockwork
	defs  definitions

	// endedAt is when an attempt of this partition ended last.
	endedAt events.Instant
	// running counts the running attempts of each agent in this partition.
	running map[string]int
	// windows are the places of each agent in this partition, where they are published.
	windows map[string]int
	// routing knows the instances of agents.
	routing routing
	// suspended holds back deciding while the clock is not to be trusted.
	suspended bool
	// unplanned says that the store may hold live tasks that nobody planned yet.
	unplanned bool
	// opening says that the state is to be read from the store, and deciding that there may be something to decide, as
	// soon as everything said before is carried out.
	opening, deciding bool
	// poison holds causes that made deciding panic: they are rejected unseen (DESIGN 4).
	poison map[events.Cause]poison
	// poisonTask likewise, for what follows from a task's state.
	poisonTask map[string]string
	// broken is an error of the store that deciding met: not the input's fault.
	broken  error
	judging judging

	cache cache
	// position survives the epochs, and is used only where RuleResume is off.
	position map[events.Input]int64
}

// judging is what is being decided, for the case that it panics.
type judging struct {
	cause events.Cause
	task  string
}

// Stats count what an owner did, since it was made.
type Stats struct {
	Facts, Void, Passed, Epochs, Resent uint64
	Timeouts                            uint64
}

// NewOwner returns an owner that is not assigned.
func NewOwner(cfg Config, s Scheduler, store Store) (*Owner, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(cfg.Node)) // errs never
	return &Owner{
		cfg: cfg, sched: s, store: store, source: sourceOf(&cfg), nodeHash: hash.Sum32(),
		poison: map[events.Cause]poison{}, poisonTask: map[string]string{}, windows: map[string]int{},
		position: map[events.Input]int64{},
	}, nil
}

// Actions returns what is to be done, in order, and forgets it. The caller asks again until there is nothing: what
// the owner reads from the store waits until the commits in front of it are carried out. (An epoch that ended right
// behind an acknowledgement would otherwise be opened from a snapshot older than the tasks that it then loads.)
//
// Deciding happens here and not in the methods that give a reason for it, so that many messages that came together are
// decided about together.
func (o *Owner) Actions() []Action {
	if len(o.out) == 0 && !o.opening && o.deciding {
		o.deciding = false
		o.decide()
		o.flushIdle()
	}
	return o.Said()
}

// Said is Actions without deciding: what there is to decide about waits, and shares a batch with what comes meanwhile.
func (o *Owner) Said() []Action {
	if len(o.out) == 0 && o.opening {
		o.open()
	}
	out := o.out
	o.out = nil
	return out
}

func (o *Owner) do(a Action) { o.out = append(o.out, a) }

// Assign makes the owner a candidate: it loads the log and claims the partition. One that stopped with an error tries
// again when the partition was revoked meanwhile, and stops again if nothing was mended.
func (o *Owner) Assign(now events.Instant) {
	o.enter(now)
	if o.assigned {
		return
	}
	o.assigned = true
	o.reload(0)
}

// Revoke gives the partition up. Facts in flight may still land; they are valid until somebody else claims.
func (o *Owner) Revoke(now events.Instant) {
	o.enter(now)
	o.assigned = false
	o.forget()
	o.phase = phaseIdle
}

// Owning says whether the owner decides in an epoch of its own.
func (o *Owner) Owning() bool { return o.phase == phaseOwning }

// Assigned says whether the owner is a candidate or better.
func (o *Owner) Assigned() bool { return o.assigned }

// Epoch returns the current epoch of the partition as far as it is folded.
func (o *Owner) Epoch() events.Epoch {
	if o.state == nil {
		return events.Epoch{}
	}
	return o.state.Partition.Epoch
}

// Generation returns the current generation.
func (o *Owner) Generation() uint64 { return o.gen }

// Time returns the time that the owner goes by, which never goes back.
func (o *Owner) Time() events.Instant { return o.now }

// Stats returns the counters.
func (o *Owner) Stats() Stats { return o.stats }

// SetWindows gives the places of each agent in this partition, as published by its instances.
func (o *Owner) SetWindows(now events.Instant, windows map[string]int) {
	o.enter(now)
	o.windows = windows
	o.deciding = true
}

// Suspend holds back deciding, or lets it go on: the shell suspects its clock.
func (o *Owner) Suspend(now events.Instant, suspended bool) {
	o.suspended = suspended
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
	switch o.phase {
	case phaseLoading, phaseClaiming:
		o.tickClaim()
	case phaseResuming, phaseOwning:
		if o.tickEpoch() {
			o.tickTail()
			o.tickTimers()
			o.retryEffects()
			o.deciding = true
		}
	}
}

// enter is the beginning of every method that moves the owner. What is said and not carried out may be the commit of a
// task that would be evicted: the store would then give an older one.
func (o *Owner) enter(now events.Instant) {
	o.advance(now)
	if len(o.out) == 0 {
		o.evict()
	}
}

// advance lets time pass. While the clock is behind the time of the log, since that of an earlier owner was ahead, time
// goes on from there at half the pace: were it to stand still, every timer of the partition would stand still with it,
// for an hour or for years. (Clock does the same where the clock of one process is set back.)
func (o *Owner) advance(now events.Instant) {
	passed := max(now-o.read, 0)
	o.read = max(o.read, now)
	if now >= o.now {
		o.now, o.behind = now, 0
		return
	}
	o.behind += passed
	o.now += o.behind / 2
	o.behind %= 2
}

// current says whether an answer is of this generation.
func (o *Owner) current(gen uint64) bool {
	return gen == o.gen && o.assigned && o.phase != phaseStopped
}

// forget drops everything that is not committed.
func (o *Owner) forget() {
	if o.gen > 0 {
		o.do(Release{o.gen})
	}
	o.gen++
	o.state = nil
	o.load, o.log, o.pipe, o.box, o.times, o.defs = loading{}, tail{}, pipeline{seq: o.pipe.seq}, outbox{}, clockwork{}, definitions{}
	o.in, o.queue, o.running, o.cache = nil, queue{}, nil, cache{}
	o.routing.forget()
	o.unplanned, o.opening, o.deciding = false, false, false
	o.flush.owed, o.flush.last = false, events.Record{}
}

// stop ends the ownership with an error that an operator must see.
func (o *Owner) stop(err error) {
	o.forget()
	o.phase = phaseStopped
	o.do(Stop{fmt.Errorf("partition %d: %w", o.cfg.Partition, err)})
}

// endEpoch discards what was decided ahead of the log, folds what the log holds and claims anew. Going back to the
// committed state within the same epoch would be wrong: what is in flight may still land (reading/traces.md, g2).
func (o *Owner) endEpoch() {
	o.reload(o.pause())
	o.load.again = true
}

// reload begins a generation. The state is opened when what was said so far is carried out.
func (o *Owner) reload(pause time.Duration) {
	o.forget()
	o.phase, o.opening = phaseLoading, true
	o.load.retryAt = o.now.Add(pause)
}

func (o *Owner) open() {
	o.opening = false
	snap, err := o.store.Snapshot()
	if err == nil {
		o.state, err = events.OpenState(o.cfg.Partition, snap, o.loadTask)
	}
	if err != nil {
		o.stop(err)
		return
	}
	o.state.SetLax(events.Lax{AnyClaim: o.cfg.Off.off(RuleClaimPrev), AnySequence: o.cfg.Off.off(RuleSequence)})
	o.log.next = o.state.Next
	o.do(Load{o.gen, o.state.Next})
}

// loadTask finds a task in the store, and remembers that the store failed.
func (o *Owner) loadTask(id string) (encoding, keys []byte, err error) {
	if encoding, keys, err = o.store.Load(id); err != nil {
		o.broken = err
	}
	return encoding, keys, err
}

// pause returns a random time up to RetryPause, so that two candidates do not meet again and again.
func (o *Owner) pause() time.Duration {
	b := o.cfg.Entropy()
	return o.cfg.RetryPause * time.Duration(int(b[0])+1) / 256
}

func (o *Owner) freshID() string {
	b := o.cfg.Entropy()
	return hex.EncodeToString(b[:])
}

// Status is what the API shows of a partition while it is held here.
type Status struct {
	Phase    string
	Epoch    events.Epoch
	InMemory int
	InFlight int
	Unsent   int
}

// Status returns the owner's state for people.
func (o *Owner) Status() Status {
	names := [...]string{"idle", "loading", "claiming", "resuming", "owning", "stopped"}
	s := Status{Phase: names[o.phase], Epoch: o.Epoch(), InFlight: len(o.pipe.flying), Unsent: len(o.box.entries)}
	if o.state != nil {
		s.InMemory = o.state.InMemory()
	}
	return s
}
