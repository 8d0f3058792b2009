package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Topic is one of the three topics that a partition's shell reads.
type Topic string

// EventsTopic is the partition's own log; the others are the inputs.
const EventsTopic Topic = "events"

// Log is the broker as the shell of one partition sees it. Its methods may be called at the same time.
type Log interface {
	// Read reads the partition of the topic from the offset on and gives what comes, in order, until ctx ends or give
	// returns an error; inputs read committed, and with transaction markers. next is the offset read up to. give may
	// block for long. It never moves the position by itself: an offset that is not there is an error.
	Read(ctx context.Context, t Topic, from int64, give func(records []events.Record, next int64) error) error
	// ReadRange gives the records of events in [from, to).
	ReadRange(ctx context.Context, from, to int64, give func(events.Record) error) error
	// ReadInput returns one record of an input of this partition.
	ReadInput(ctx context.Context, in events.Input, offset int64) (events.Record, error)
	// End returns the end of events.
	End(ctx context.Context) (int64, error)
	// Ends returns the ends of the inputs, read committed. The question is sent after the call.
	Ends(ctx context.Context) (map[events.Input]int64, error)
	// Catalog returns the definitions up to an end that is asked for after the call.
	Catalog(ctx context.Context) (Catalog, error)
	// NewProducer opens the producer of one epoch.
	NewProducer() (Producer, error)
	// Send produces records. done is called once for each, by its index; it must not block, and gets an error only when the
	// record is refused for good. ctx ends the waiting for the answers, and with
	// it what was not sent; some of that may go all the same. The list is the log's from here on; the bytes of its
	// records never change, and the owner may send them again.
	Send(ctx context.Context, list []Outgoing, done func(i int, refused error))
}

// Outgoing is a record for a topic named relative to the namespace.
type Outgoing struct {
	Topic  string
	Record events.Record
}

// Producer appends to the partition for one epoch.
type Producer interface {
	// Append sends the records in order and calls done once, with their offsets or an error. It never blocks.
	Append(records []events.Record, done func(offsets []int64, err error))
	// Close abandons what is in flight.
	Close()
}

// Committer writes state and offset in one batch (INV3). On return every read of the Store sees them.
type Committer interface {
	Commit(d *events.Delta, last events.Record) error
}

// ShellConfig is what a shell is told once.
type ShellConfig struct {
	Log       Log
	Committer Committer
	Logger    *slog.Logger
	// Tick is the interval of looking at timers: the sweep interval of MISSION D1.
	Tick time.Duration
	// Backlog bounds the inputs of a topic that were read and not judged, BacklogBytes their bytes; one reading comes
	// on top. Unbounded in bytes, a suspended or slow owner would hold gigabytes of large submissions.
	Backlog, BacklogBytes int
	// Now is the clock; tests give their own.
	Now func() time.Time
}

// Shell carries what an owner says to the broker and the store. It decides nothing.
type Shell struct {
	cfg   ShellConfig
	owner *Owner
	clock *Clock
	mail  mailbox
	// sent collects what became of effects.
	sent *sent

	// Owned by Run.
	ctx     context.Context
	gen     *generation
	inflows map[events.Input]*inflow
	// sends are the effects that are sent together when everything said is carried out.
	sends []Send
	// revoked are closed when everything said so far is carried out.
	revoked []chan struct{}
	beat    beat

	wg sync.WaitGroup

	// mu guards the fields below.
	mu     sync.Mutex
	status Status
	stats  Stats
	err    error
}

// generation is what runs for one generation of the owner.
type generation struct {
	id       uint64
	ctx      context.Context
	cancel   context.CancelFunc
	producer Producer
	// restTail ends the reading of events.
	restTail context.CancelFunc
}

// NewShell returns a shell for the owner, which must not be used otherwise.
func NewShell(o *Owner, cfg ShellConfig) (*Shell, error) {
	if cfg.Log == nil || cfg.Committer == nil {
		return nil, errors.New("a shell needs a log and a committer")
	}
	if cfg.Tick == 0 {
		cfg.Tick = 50 * time.Millisecond // below what a person notices, and nothing while nothing is due
	}
	if cfg.Backlog == 0 {
		cfg.Backlog = 4096
	}
	if cfg.BacklogBytes == 0 {
		cfg.BacklogBytes = 8 << 20 // two fetches of a partition
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Shell{cfg: cfg, owner: o, clock: NewClock(cfg.Now()), mail: newMailbox(), sent: new(sent), inflows: map[events.Input]*inflow{}}, nil
}

// Assign makes the owner a candidate.
func (s *Shell) Assign() {
	s.mail.post(func(now events.Instant) {
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		s.owner.Assign(now)
	})
}

// Revoke has the owner give the partition up. The channel is closed when it has: from then on the shell writes nothing
// to the store, until it is assigned again. It stays open when Run has ended.
func (s *Shell) Revoke() <-chan struct{} {
	done := make(chan struct{})
	s.mail.post(func(now events.Instant) {
		s.owner.Revoke(now)
		s.revoked = append(s.revoked, done)
	})
	return done
}

// SetWindows gives the places of each agent in this partition.
func (s *Shell) SetWindows(w map[string]int) {
	s.mail.post(func(now events.Instant) { s.owner.SetWindows(now, w) })
}

// Status returns the owner's status and counters as of the last step.
func (s *Shell) Status() (Status, Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, s.stats, s.err
}

// Run carries until ctx ends. It returns an error when the store cannot be written.
func (s *Shell) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	defer s.wg.Wait()
	defer s.release()
	defer cancel()
	ticks := time.NewTicker(s.cfg.Tick)
	defer ticks.Stop()
	s.beat.begin()
	defer s.beat.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.mail.wake:
			// All that came is heard before anything is decided or done: what came together shares a batch.
			now := s.now()
			for _, m := range s.mail.take() {
				m(now)
			}
			if err := s.carry(); err != nil {
				return err
			}
			for _, done := range s.revoked { // a commit may have been said before
				close(done)
			}
			s.revoked = nil
		case <-ticks.C:
			s.owner.Tick(s.now())
			if err := s.carry(); err != nil {
				return err
			}
		case <-s.beat.timer.C:
			s.beat.rests = false
			if err := s.carry(); err != nil {
				return err
			}
		}
		s.publish()
	}
}

// now reads the clock, and suspends the owner while the clock is not to be trusted.
func (s *Shell) now() events.Instant {
	now, turned := s.clock.Read(s.cfg.Now())
	if turned {
		suspect := s.clock.Suspect()
		s.owner.Suspend(now, suspect)
		if suspect {
			s.cfg.Logger.Error("the clock jumped forward; nothing is decided until it proves right", "partition", s.owner.cfg.Partition, "jump", s.clock.Jump())
		}
	}
	return now
}

func (s *Shell) publish() {
	s.mu.Lock()
	s.status, s.stats = s.owner.Status(), s.owner.Stats()
	s.mu.Unlock()
}

// carry does what the owner says, in order, and has it decide unless it rests.
func (s *Shell) carry() error {
	say := s.owner.Actions
	if s.beat.rests {
		say = s.owner.Said
	}
	said := false
	for {
		actions := say()
		if len(actions) == 0 {
			break
		}
		said = true
		for _, a := range actions {
			if err := s.do(a); err != nil {
				return err
			}
		}
	}
	if said && !s.beat.rests { // an owner that had nothing to say has no beats: its attempts may run for hours
		s.beat.rest(s.owner.Pace())
	}
	s.sendAll()
	for in, f := range s.inflows {
		f.judged(s.owner.Backlog(in))
		if len(f.sizes) < s.cfg.Backlog && f.bytes < s.cfg.BacklogBytes {
			f.goOn()
		}
	}
	return nil
}

func (s *Shell) do(a Action) error {
	switch a := a.(type) {
	case Load:
		s.begin(a.Generation)
		s.load(a)
	case RestTail:
		if s.gen != nil && s.gen.id == a.Generation {
			s.gen.restTail()
		}
	case FollowTail:
		s.followTail(a.Generation, a.From)
	case Claim:
		s.claim(a)
	case Append:
		s.append(a)
	case Commit:
		if err := s.cfg.Committer.Commit(a.Delta, a.Last); err != nil {
			return fmt.Errorf("commit partition %d: %w", a.Delta.Partition, err)
		}
	case ReadInputs:
		for in, from := range a.From {
			s.readInput(a.Generation, in, from)
		}
	case ReadFacts:
		s.readFacts(a)
	case FetchInput:
		s.fetchInput(a)
	case Send:
		s.sends = append(s.sends, a)
	case AskEnds:
		s.askEnds(a)
	case AskCatalog:
		s.askCatalog(a)
	case Release:
		s.release()
	case Stop:
		s.mu.Lock()
		s.err = a.Err
		s.mu.Unlock()
		s.cfg.Logger.Error("the partition stopped", "partition", s.owner.cfg.Partition, "error", a.Err)
	}
	return nil
}

func (s *Shell) begin(id uint64) {
	s.release()
	ctx, cancel := context.WithCancel(s.ctx)
	s.gen = &generation{id: id, ctx: ctx, cancel: cancel}
}

// release ends the reading and the producer of the generation. What the producer still lands is void.
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
		f.goOn()
		delete(s.inflows, in)
	}
}

// spawn runs fn for the generation. What it posts is dropped by the owner once the generation is over.
func (s *Shell) spawn(fn func(ctx context.Context)) {
	if s.gen == nil {
		return
	}
	ctx := s.gen.ctx
	s.wg.Go(func() { fn(ctx) })
}

// post has the owner's goroutine run m.
func (s *Shell) post(m func(now events.Instant)) { s.mail.post(m) }

// mailbox hands messages to the owner's goroutine. It has no bound of its own, because an acknowledgement must not
// block a client's goroutine; what fills it is bounded: appends in flight, unsettled effects, and one delivery for
// each reading.
type mailbox struct {
	mu   *sync.Mutex
	list *[]func(events.Instant)
	wake chan struct{}
}

func newMailbox() mailbox {
	return mailbox{mu: new(sync.Mutex), list: new([]func(events.Instant)), wake: make(chan struct{}, 1)}
}

func (m *mailbox) post(f func(events.Instant)) {
	m.mu.Lock()
	*m.list = append(*m.list, f)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []func(events.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := *m.list
	*m.list = nil
	return list
}
