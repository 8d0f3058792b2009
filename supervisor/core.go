package supervisor

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// core is what the parts of an owner share: the configuration, the time, the state of the partition, the facts that are decided
// but not durable yet, the actions that the shell has not taken yet, and references to each other.
type core struct {
	cfg   Config
	sched Scheduler
	store Store
	// source is the ce_source of everything that the owner writes.
	source string
	// gen is the current generation, with which every request is marked: see epoch.
	gen uint64
	now events.Instant
	// level is the namespace's level, as far as the owner knows. It never falls.
	level int
	// read is the latest reading of the clock; behind is the fraction of a millisecond that now has yet to advance: see
	// advance.
	read, behind events.Instant
	// agreed says that the clock shows the time of most brokers and nodes.
	agreed bool
	state  *events.State
	cache  *cache
	out    []Action

	// seq numbers the batches, over all generations.
	seq uint64
	// batch is the batch under construction. flying holds the appends whose answers have not been processed, oldest first.
	batch  *batch
	flying []*batch
	// unwritten says that acknowledged facts are not in the store.
	unwritten bool
	// refused is the error with which the broker refused the latest batch because of its size; nil otherwise, and once there is nothing to
	// append.
	refused error
	// judging is the input or task that is being decided about, in case deciding panics.
	judging judging
	stats   Stats

	epoch    *epoch
	inbox    *inbox
	alone    *alone
	unopened *unopened
	planner  *planner
	timers   *timers
	outbox   *outbox
	delays   *delays
	replies  *replies
	waking   *waking
	trimming *trimming
	dispatch *dispatch
	writer   *writer
	// carry writes the state into the log again.
	carry *carry
	// schedules submits the tasks of schedules, and limits adopts named limits.
	schedules *schedules
	limits    *limits
}

// batch is the facts of one append.
type batch struct {
	seq     uint64
	facts   []*events.Fact
	records []events.Record
	bytes   int
	// cost is the work of the expressions that were evaluated for the batch.
	cost int
	// yielding counts the inputs in the batch that yield to the results of attempts: see dispatch.most.
	yielding int
	// delta is the change to write to the store: the changes of these facts and of all facts since the last delta. It
	// is nil while the write may wait.
	delta *events.Delta
	// sentAt is the first tick after the batch was sent. The time at which deciding began would be wrong: deciding alone may take
	// longer than the broker is given to answer.
	sentAt events.Instant
	// answered, offsets and err are the broker's answer, once it has arrived.
	answered bool
	offsets  []int64
	err      error
}

// judging is the input and the task that are being decided about.
type judging struct {
	cause events.Cause
	task  string
}

// settings returns the settings that the partition has adopted. With any others, the log would not explain the decisions, and one
// owner could forget a task earlier than the next owner would.
func (c *core) settings() *events.Settings { return &c.state.Partition.Settings }

func (c *core) say(a Action) { c.out = append(c.out, a) }

// enter is called first by every method that changes the owner. While the shell has not taken all actions, nothing is evicted:
// one of them may be the commit of a task, and the store would return an older version of it.
func (c *core) enter(now events.Instant) {
	c.advance(now)
	if len(c.out) == 0 {
		c.evict()
	}
}

// advance moves the time. If the clock is behind the time of the log, because an earlier owner's clock was ahead, time continues
// from the log's time at half speed: if it stood still, no timer of the partition would fire until the clock
// had caught up, which could take years. (Clock does the same if the clock of one process is set back.)
func (c *core) advance(now events.Instant) {
	passed := max(now-c.read, 0)
	c.read = now
	if now >= c.now {
		c.now, c.behind = now, 0
		return
	}
	c.behind += passed
	c.now += c.behind / 2
	c.behind %= 2
}

// stamp is the time that the next fact would carry. A timer is due once a fact carries a later time, even if the clock that
// stamped the fact was ahead of this one.
func (c *core) stamp() events.Instant { return max(c.now, c.state.Partition.Time) }

// record records one fact: it folds it ahead of the log's answer and adds it to the batch. input is the record that an
// effect of the fact needs, nil if none does. A fact that is too large for the log changes nothing: record returns ErrTooLarge. Nor does one that
// cannot be sealed now: record returns an *events.NoKeyError.
func (c *core) record(f *events.Fact, input *events.Record) error {
	if c.epoch.unread != nil {
		return c.epoch.unread
	}
	b, p := c.batch, &c.state.Partition
	f.Epoch, f.Sequence = p.Epoch, p.NextSequence
	if f.Time == 0 {
		f.Time = c.stamp()
	}
	if w := c.outbox.watermark(); p.Watermark.Before(w) {
		f.Watermark = w
	}
	var t *events.Task
	if _, first := f.Body.(*events.Submitted); !first {
		t = c.taskOf(f)
	}
	if f.Traceparent == "" && t != nil {
		f.Traceparent = t.Traceparent
	}
	if err := c.seal(t, f); err != nil {
		return err
	}
	r, err := events.EncodeFact(f, c.cfg.Partition, c.source)
	if err != nil {
		return err
	}
	if n := r.Size(); n > c.cfg.RecordBytes {
		return fmt.Errorf("%w: the fact %s would have %d bytes; %d are allowed", events.ErrTooLarge, f.Body.Name(), n, c.cfg.RecordBytes)
	}
	if _, err := c.state.Apply(f, c.state.Next); err != nil {
		return err
	}
	if t == nil {
		t = c.taskOf(f)
	}
	c.foldRecorded(t, f)
	if input != nil {
		c.outbox.keep(f.Position(), input)
	}
	b.facts = append(b.facts, f)
	b.records = append(b.records, r)
	b.bytes += r.Size()
	c.stats.Facts++
	return nil
}

// foldRecorded folds a fact into the parts that follow the log as it is recorded or loaded. t is the task of the fact
// as it is now, nil if the fact has none or if the task is gone. Timers do not fold: they follow from the state of each task, and
// the store finds those that are due.
func (c *core) foldRecorded(t *events.Task, f *events.Fact) {
	c.epoch.fold(f)
	c.inbox.fold(f)
	c.dispatch.fold(t, f)
}

// taskOf returns the task of a fact, nil if it has none. An error of the store is reported to the next caller that needs the
// task.
func (c *core) taskOf(f *events.Fact) *events.Task {
	if f.Task == "" {
		return nil
	}
	t, err := c.state.Task(f.Task)
	if err != nil {
		return nil
	}
	return t
}

// full says whether the batch takes no more facts.
func (c *core) full() bool {
	return len(c.batch.facts) >= c.cfg.BatchFacts || c.batch.bytes >= c.cfg.BatchBytes || c.costly()
}

// batchCost is the work of expressions, about half a second, after which a batch takes no more. Answers, ticks and other tasks
// would wait for a batch of many costly decisions.
const batchCost = 2_000_000

// costly says whether the expressions of the batch have cost enough.
func (c *core) costly() bool { return c.batch.cost >= batchCost }

// lastCause is the cause of facts that follow from the state of the partition.
func (c *core) lastCause() events.Cause {
	p := c.state.Partition
	if p.NextSequence == 0 {
		return events.CauseFact(events.Position{Epoch: p.Epoch})
	}
	return events.CauseFact(events.Position{Epoch: p.Epoch, Sequence: p.NextSequence - 1})
}

// fewTasks stay in memory however large they are: a task that is larger than all may be together would be read whole again for each of its facts.
// Settings.TaskBytes bounds what starts steps, and what is under way then may add its outputs.
const fewTasks = 4

// evict keeps the tasks in memory within their bounds.
func (c *core) evict() {
	if c.state == nil {
		return
	}
	for _, id := range c.cache.ended {
		c.drop(id)
	}
	for _, hash := range c.cache.adopted {
		c.state.EvictDefinition(hash)
	}
	c.cache.adopted = c.cache.adopted[:0]
	clear(c.cache.ended)
	c.cache.ended = c.cache.ended[:0]
	for c.state.InMemory() > c.cfg.Tasks || c.cache.bytes > c.cfg.TaskBytes && len(c.cache.known) > fewTasks {
		id, ok := c.cache.pop()
		if !ok {
			break
		}
		c.drop(id)
	}
	c.cache.tidy(c.cfg.Tasks)
}

func (c *core) drop(id string) {
	if c.cache.evictable(id) {
		c.state.Evict(id)
		c.cache.forget(id)
	}
}
