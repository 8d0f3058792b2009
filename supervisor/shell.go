package supervisor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Topic is one of the three topics that a partition's shell reads.
type Topic string

// EventsTopic is the partition's own log; the others are the inputs.
const EventsTopic Topic = "events"

// Log is the broker as the shell of one partition sees it. Its methods may be called concurrently.
type Log interface {
	// Read reads the partition of the topic from the offset on and calls give with the records, in order, until ctx
	// ends or give returns an error. It reads inputs with isolation level read committed, and counts transaction
	// markers. Reading continues at next. give may block for a long time. Read never skips to another offset: an offset
	// that does not exist is an error.
	Read(ctx context.Context, t Topic, from int64, give func(records []events.Record, next int64) error) error
	// ReadRange calls give with the records of events in [from, to).
	ReadRange(ctx context.Context, from, to int64, give func(events.Record) error) error
	// ReadInput returns one record of an input of this partition.
	ReadInput(ctx context.Context, in events.Input, offset int64) (events.Record, error)
	// End returns the end of events.
	End(ctx context.Context) (int64, error)
	// Ends returns the high watermarks of the inputs. The request is sent after the call. Records of open transactions are below
	// them, and so are records behind those, which cannot be read yet: a timer waits for all of them.
	Ends(ctx context.Context) (map[events.Input]int64, error)
	// Loss returns where an input begins and which loss of it was accepted last. Both are requested after the call.
	Loss(ctx context.Context, in events.Input) (Loss, error)
	// Catalog returns the definitions up to an end offset that is requested after the call.
	Catalog(ctx context.Context) (Catalog, error)
	// NewProducer opens the producer of one epoch.
	NewProducer() (Producer, error)
	// Send produces records. done is called once for each, by its index; it must not block, and gets an error only when
	// the record is refused for good. When ctx ends, Send stops waiting for answers and drops records that were not
	// sent, though some of them may still go out. The Log owns the list from here on; the bytes of its records never
	// change, and the owner may send them again.
	Send(ctx context.Context, list []Outgoing, done func(i int, refused error))
}

// Outgoing is a record for a topic named relative to the namespace.
type Outgoing struct {
	Topic  string
	Record events.Record
	// Within, if not zero, is how long sending is tried. After that, done is not called.
	Within time.Duration
}

// Producer appends to the partition for one epoch.
type Producer interface {
	// Append sends the records in order and calls done once, with their offsets or an error. It never blocks.
	Append(records []events.Record, done func(offsets []int64, err error))
	// Close abandons the appends in flight.
	Close()
}

// Committer writes state and offset in one batch (INV3). On return every read of the Store sees them.
type Committer interface {
	Commit(d *events.Delta, last events.Record) error
}

// ShellConfig configures a shell.
type ShellConfig struct {
	Log       Log
	Committer Committer
	Logger    *slog.Logger
	// Repair, if set, is called with the error that stopped the partition. It returns nil if the store was to blame and was
	// emptied, so that the owner folds the log again, and otherwise the error to stop with.
	Repair func(error) error
	// Tick is how often the shell looks at timers.
	Tick time.Duration
	// Backlog bounds the inputs of a topic that were read and not judged, and BacklogBytes their size; one more
	// delivery may come on top. Without a bound on bytes, a suspended or slow owner would hold gigabytes of large
	// submissions.
	Backlog, BacklogBytes int
	// Alerted, if set, is called with the kind of each alert that is sent.
	Alerted func(kind string)
	// TookOver, if set, is called with the node that owned the partition before, if that was another, and with when the partition was assigned.
	TookOver func(before string, assigned time.Time)
	// Trim, if set, is called with the answers to AskToTrim: the lowest offset of each input that is still needed. It must not block.
	Trim func(below map[events.Input]int64)
	// Now is the clock; tests replace it. Doubt, if set, returns an error while most others show another time. Agreed, if set, returns true
	// while they show the same.
	Now    func() time.Time
	Doubt  func() error
	Agreed func() bool
}

// Shell executes an owner's actions at the broker and the store. It decides nothing.
type Shell struct {
	cfg   ShellConfig
	owner *Owner
	clock *Clock
	// agreed says that the clock was known to be right at the latest look.
	agreed bool
	mailbox
	// sent collects the outcomes of effects.
	sent sent
	// step knows since when Run has been at its current step.
	step stopwatch

	// Owned by Run.
	ctx     context.Context
	gen     *generation
	inflows map[events.Input]*inflow
	// sends are the effects that are sent together when all actions are carried out.
	sends []Send
	// revoked are the channels to close when all actions so far are carried out.
	revoked []chan struct{}
	linger  linger
	// seen is when the process was last known to be running. again says that effects were just taken back.
	seen  time.Time
	again bool
	// accepted says that a loss was accepted since the partition stopped last.
	accepted bool
	// warned is when warnUnanswered last said something, warnedOfInput when warnBlocked did.
	warned, warnedOfInput events.Instant
	// sending is since when this node has been able to send: it owns the partition, and the process did not sleep. 0 if it is not.
	sending events.Instant

	wg sync.WaitGroup

	// mu guards the fields below.
	mu     sync.Mutex
	status Status
	err    error
	// assigned is when Assign was last called.
	assigned time.Time
}

// generation holds the goroutines and the producer of one generation of the owner.
type generation struct {
	id       uint64
	ctx      context.Context
	cancel   context.CancelFunc
	producer Producer
	// stopLog stops reading events.
	stopLog context.CancelFunc
}

// NewShell returns a shell for the owner. From then on only the shell may use the owner.
func NewShell(o *Owner, cfg ShellConfig) (*Shell, error) {
	if cfg.Log == nil || cfg.Committer == nil {
		return nil, errors.New("a shell needs a log and a committer")
	}
	cfg.Tick = cmp.Or(cfg.Tick, 50*time.Millisecond) // short enough that nobody notices, and it costs nothing while nothing is due
	cfg.Backlog = cmp.Or(cfg.Backlog, 4096)
	cfg.BacklogBytes = cmp.Or(cfg.BacklogBytes, 8<<20) // two fetches of a partition
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Shell{cfg: cfg, owner: o, mailbox: newMailbox(), inflows: map[events.Input]*inflow{}, step: stopwatch{born: time.Now()}}, nil
}

// Assign makes the owner a candidate.
func (s *Shell) Assign() {
	s.post(func(now events.Instant) {
		s.mu.Lock()
		s.err, s.assigned = nil, time.Now()
		s.mu.Unlock()
		s.owner.Assign(now)
	})
}

// Accepted says that an operator accepted a loss. A partition that stopped because an input lost records tries again. A partition
// that looked for the acceptance before it was written, and has yet to stop, tries again when it stops.
func (s *Shell) Accepted() {
	s.post(func(now events.Instant) {
		if _, err := s.Status(); s.owner.epoch.phase != phaseStopped || !errors.Is(err, ErrInputLost) {
			s.accepted = true
			return
		}
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		s.owner.Revoke(now)
		s.owner.Assign(now)
	})
}

// Revoke makes the owner give up the partition. The channel is closed once it has: from then on the shell writes nothing to the
// store until it is assigned again. If Run has ended, the channel stays open.
func (s *Shell) Revoke() <-chan struct{} {
	done := make(chan struct{})
	s.post(func(now events.Instant) {
		s.owner.Revoke(now)
		s.revoked = append(s.revoked, done)
	})
	return done
}

// SetOffers tells the owner what the live instances of each agent offer: see Owner.SetOffers.
func (s *Shell) SetOffers(offers map[string]Offer) {
	s.post(func(now events.Instant) { s.owner.SetOffers(now, offers) })
}

// SetSchedules tells the owner the schedules of its partition: see Owner.SetSchedules.
func (s *Shell) SetSchedules(list []ScheduleRecord) {
	s.post(func(now events.Instant) { s.owner.SetSchedules(now, list) })
}

// SetLimits tells the owner the named limits of its partition: see the function SetLimits.
func (s *Shell) SetLimits(list []LimitRecord) {
	s.post(func(now events.Instant) { SetLimits(s.owner, now, list) })
}

// SetSettings tells the owner the settings of the namespace: see Owner.SetSettings.
func (s *Shell) SetSettings(settings events.Settings, offset int64, level int) {
	s.post(func(now events.Instant) { s.owner.SetSettings(now, settings, offset, level) })
}

// Status returns the owner's status as of the last step, and the error that stopped it.
func (s *Shell) Status() (Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.err
}

// Busy returns how long the shell has been at its current step, 0 if it waits for something to do.
func (s *Shell) Busy() time.Duration { return s.step.running() }

// stopwatch measures one step after the other. Any goroutine may look at it.
type stopwatch struct {
	born time.Time
	// begun is how long after born the current step began, plus a nanosecond; 0 between steps.
	begun atomic.Int64
}

func (w *stopwatch) begin() { w.begun.Store(int64(time.Since(w.born)) + 1) }

func (w *stopwatch) end() { w.begun.Store(0) }

func (w *stopwatch) running() time.Duration {
	begun := w.begun.Load()
	if begun == 0 {
		return 0
	}
	return time.Since(w.born) - time.Duration(begun-1)
}

// Run works until ctx ends. It returns an error when the store cannot be written.
func (s *Shell) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	defer s.wg.Wait()
	defer s.release()
	defer cancel()
	ticks := time.NewTicker(s.cfg.Tick)
	defer ticks.Stop()
	s.seen = s.cfg.Now()
	s.clock = NewClock(s.seen)
	s.linger.begin()
	defer s.linger.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.owner.alone.leave()
			return nil
		case <-s.wake:
			// All waiting messages are processed before anything is decided, so that inputs that arrive together share
			// a batch.
			s.step.begin()
			now := s.now()
			for _, m := range s.drain() {
				m(now)
			}
			if err := s.executeAll(); err != nil {
				return err
			}
			for _, done := range s.revoked { // not earlier, because the actions may have included a commit
				close(done)
			}
			s.revoked = nil
		case <-ticks.C:
			s.step.begin()
			now := s.now()
			s.owner.Tick(now)
			s.warnUnanswered(now)
			s.warnBlocked(now)
			if err := s.executeAll(); err != nil {
				return err
			}
		case <-s.linger.timer.C:
			s.step.begin()
			s.linger.lingers = false
			if err := s.executeAll(); err != nil {
				return err
			}
		}
		s.publish()
		s.step.end()
	}
}

// now reads the clock, and suspends the owner while the clock is not to be trusted.
func (s *Shell) now() events.Instant {
	t := s.cfg.Now()
	asleep := slept(s.seen, t)
	s.seen = t
	doubt := s.doubt()
	agreed := doubt == nil && s.cfg.Agreed != nil && s.cfg.Agreed()
	if agreed && !s.clock.Suspect() && s.clock.AheadOf(t) > events.TimeCorrectable {
		s.clock, s.warned, s.warnedOfInput, s.sending = NewClock(t), 0, 0, 0
	}
	now, turned := s.clock.Read(t, doubt != nil)
	if turned || agreed != s.agreed {
		suspect := s.clock.Suspect()
		s.agreed = agreed
		s.owner.Suspend(now, suspect, agreed)
		switch {
		case !turned:
		case suspect && doubt != nil:
			s.cfg.Logger.Error("nothing is decided until the clocks agree", "partition", s.owner.core.cfg.Partition, "error", doubt)
		case suspect:
			s.cfg.Logger.Error("the clock jumped forward; nothing is decided until it can be trusted again", "partition", s.owner.core.cfg.Partition, "jump", s.clock.Jump())
		}
	}
	if asleep {
		s.sending = 0
		s.woke(now)
	}
	return now
}

// doubt returns an error while most others show another time.
func (s *Shell) doubt() error {
	if s.cfg.Doubt == nil {
		return nil
	}
	return s.cfg.Doubt()
}

// sleptAfter is how long after the last sign of life the process may have slept. A running process looks at its timers more
// often.
const sleptAfter = time.Second

// slept says whether the process may have slept between two times. While a machine sleeps, its monotonic clock may
// stand still.
func slept(from, to time.Time) bool {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0))) > sleptAfter
}

// woke tells the owner that the process may have slept, and gives it back what was not sent.
func (s *Shell) woke(now events.Instant) {
	if s.gen == nil {
		return
	}
	var unsent []uint64
	s.sends = slices.DeleteFunc(s.sends, func(a Send) bool {
		if a.ID == 0 || a.Generation != s.gen.id { // no fact owes it, or nobody waits for its answer
			return false
		}
		unsent = append(unsent, a.ID)
		return true
	})
	s.owner.Woke(now, s.gen.id, unsent)
}

// unansweredAfter is how old an effect without an answer is when the log says so, and how often it does.
const unansweredAfter = time.Minute

// warnBlocked says that timers wait for records that cannot be read.
func (s *Shell) warnBlocked(now events.Instant) {
	b := s.status.Blocked
	if b.Since == 0 || now.Sub(b.Since) < unansweredAfter || now.Sub(s.warnedOfInput) < unansweredAfter {
		return
	}
	s.warnedOfInput = now
	s.cfg.Logger.Warn("no timer fires: this input has records that cannot be read, probably behind an open transaction; find it with kafka-transactions.sh find-hanging, and abort it",
		"partition", s.owner.core.cfg.Partition, "topic", string(b.Input), "for", now.Sub(b.Since))
}

// warnUnanswered says that a topic takes nothing.
func (s *Shell) warnUnanswered(now events.Instant) {
	o, waited := s.status.Oldest, unanswered(s, now)
	if waited < unansweredAfter || now.Sub(s.warned) < unansweredAfter {
		return
	}
	s.warned = now
	s.cfg.Logger.Warn("the brokers do not take what this partition sends; look at the leader and the replicas of that topic",
		"partition", s.owner.core.cfg.Partition, "topic", o.Topic, "for", waited, "waiting", s.status.Unsent)
}

// unanswered is how long the oldest effect could be sent and had no answer. The time before a start, in which no node ran, does not count: nobody
// asked the brokers then.
func unanswered(s *Shell, now events.Instant) time.Duration {
	if !s.status.Owning {
		s.sending = 0
		return 0
	}
	s.sending = cmp.Or(s.sending, now)
	if s.status.Oldest.Since == 0 {
		return 0
	}
	return now.Sub(max(s.status.Oldest.Since, s.sending))
}

func (s *Shell) publish() {
	status := s.owner.Status()
	if status.Owning && !s.status.Owning {
		cfg := &s.owner.core.cfg
		level, text := slog.LevelDebug, "this node owns the partition" // normal at a start
		if status.Before != "" && status.Before != cfg.Node {
			level, text = slog.LevelInfo, "this node has taken the partition over"
			if s.cfg.TookOver != nil {
				s.cfg.TookOver(status.Before, s.assigned)
			}
		}
		s.cfg.Logger.Log(s.ctx, level, text, "partition", cfg.Partition, "epoch", status.Epoch, "before", status.Before)
	}
	s.mu.Lock()
	s.status = status
	s.mu.Unlock()
}

// executeAll executes the owner's actions, in order, and makes it decide unless it lingers.
func (s *Shell) executeAll() error {
	said := false
	for {
		if !s.linger.lingers {
			s.owner.Decide()
		}
		actions := s.owner.TakeActions()
		if len(actions) == 0 {
			break
		}
		said = true
		for _, a := range actions {
			if err := s.execute(a); err != nil {
				return err
			}
		}
	}
	if said && !s.linger.lingers { // an idle owner does not linger: its attempts may run for hours
		s.linger.wait(beatOf(s.owner))
	}
	s.sendAll()
	for in, f := range s.inflows {
		f.judged(s.owner.inbox.backlog(in))
		if len(f.sizes) < s.cfg.Backlog && f.bytes < s.cfg.BacklogBytes {
			f.admit()
		}
	}
	return nil
}

func (s *Shell) begin(id uint64) {
	s.release()
	ctx, cancel := context.WithCancel(s.ctx)
	s.gen = &generation{id: id, ctx: ctx, cancel: cancel}
}

// release stops the reads and the producer of the generation. Appends of that producer that still land are void.
func (s *Shell) release() {
	if s.gen == nil {
		return
	}
	s.gen.cancel()
	if s.gen.producer != nil {
		s.gen.producer.Close()
	}
	s.gen = nil
	for in, f := range s.inflows {
		f.admit()
		delete(s.inflows, in)
	}
}

// spawn runs fn for the generation. The owner ignores messages that fn posts after the generation is over.
func (s *Shell) spawn(fn func(ctx context.Context)) {
	if s.gen == nil {
		return
	}
	ctx := s.gen.ctx
	s.wg.Go(func() { fn(ctx) })
}
