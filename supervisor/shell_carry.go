package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/sagalog/sagalog/events"
)

// retryPause is how long the shell waits before it asks a broker again that did not answer.
const retryPause = 200 * time.Millisecond

// load follows the partition's own log and asks for its end.
func (s *Shell) load(a Load) {
	s.spawn(func(ctx context.Context) {
		end, err := s.cfg.Log.End(ctx)
		for err != nil && ctx.Err() == nil {
			// The owner would answer an error by loading anew at once, and with the broker down go round in a circle.
			pauseFor(ctx, retryPause)
			end, err = s.cfg.Log.End(ctx)
		}
		s.post(func(now events.Instant) { s.owner.Loaded(now, a.Generation, end, err) })
	})
	s.followTail(a.Generation, a.From)
}

// followTail reads the partition's own log, until it rests or the generation ends.
func (s *Shell) followTail(gen uint64, from int64) {
	if s.gen == nil || s.gen.id != gen {
		return
	}
	ctx, rest := context.WithCancel(s.gen.ctx)
	s.gen.restTail = rest
	s.spawn(func(context.Context) {
		s.follow(ctx, EventsTopic, from, func(records []events.Record, next int64) error {
			return s.deliver(ctx, func(now events.Instant) { s.owner.Tail(now, gen, records, next) })
		}, func(err error) {
			s.post(func(now events.Instant) { s.owner.TailLost(now, gen, err) })
		})
	})
}

// deliver posts a message and waits until it was handled, so that a reading is never more than one delivery ahead.
func (s *Shell) deliver(ctx context.Context, m func(now events.Instant)) error {
	done := make(chan struct{})
	s.post(func(now events.Instant) {
		m(now)
		close(done)
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow reads a topic until ctx ends, again after errors of the broker; lost gets what no retry can mend.
func (s *Shell) follow(ctx context.Context, t Topic, from int64, give func([]events.Record, int64) error, lost func(error)) {
	next := from
	for ctx.Err() == nil {
		err := s.cfg.Log.Read(ctx, t, next, func(records []events.Record, to int64) error {
			if err := give(records, to); err != nil {
				return err
			}
			next = to
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrPosition) {
			lost(err)
			return
		}
		s.cfg.Logger.Warn("reading is interrupted; trying again", "topic", string(t), "partition", s.owner.cfg.Partition, "error", err)
		pauseFor(ctx, retryPause)
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (s *Shell) claim(a Claim) {
	if s.gen == nil || s.gen.id != a.Generation {
		return
	}
	if s.gen.producer != nil { // a claim that was refused: another try needs a producer of its own
		s.gen.producer.Close()
	}
	p, err := s.cfg.Log.NewProducer()
	if err != nil {
		s.post(func(now events.Instant) { s.owner.Claimed(now, a.Generation, 0, err) })
		return
	}
	s.gen.producer = p
	p.Append([]events.Record{a.Record}, func(offsets []int64, err error) {
		s.post(func(now events.Instant) {
			at := int64(-1)
			if len(offsets) > 0 {
				at = offsets[0]
			}
			s.owner.Claimed(now, a.Generation, at, err)
		})
	})
}

func (s *Shell) append(a Append) {
	if s.gen == nil || s.gen.id != a.Generation || s.gen.producer == nil {
		return
	}
	s.gen.producer.Append(a.Records, func(offsets []int64, err error) {
		s.post(func(now events.Instant) { s.owner.Appended(now, a.Generation, a.Batch, offsets, err) })
	})
}

func (s *Shell) readInput(gen uint64, in events.Input, from int64) {
	s.spawn(func(ctx context.Context) {
		s.follow(ctx, Topic(in), from, func(records []events.Record, next int64) error {
			room := make(chan struct{})
			s.post(func(now events.Instant) {
				s.owner.Input(now, gen, in, records, next)
				if s.gen == nil || s.gen.id != gen {
					close(room)
					return
				}
				s.inflow(in).came(records, room) // closed when the owner has room again
			})
			select {
			case <-room:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, func(err error) {
			s.post(func(now events.Instant) { s.owner.InputLost(now, gen, in, err) })
		})
	})
}

// inflow is what was read of an input and not judged: the sizes of its records, the oldest first.
type inflow struct {
	sizes []int
	bytes int
	// room holds the reading back until it is closed, nil while nothing is held back.
	room chan struct{}
}

func (s *Shell) inflow(in events.Input) *inflow {
	f := s.inflows[in]
	if f == nil {
		f = &inflow{}
		s.inflows[in] = f
	}
	return f
}

// came notes a reading.
func (f *inflow) came(records []events.Record, room chan struct{}) {
	for i := range records {
		size := records[i].Size()
		f.sizes = append(f.sizes, size)
		f.bytes += size
	}
	f.room = room
}

// judged forgets all but the latest records: those are what the owner still holds.
func (f *inflow) judged(left int) {
	for len(f.sizes) > left {
		f.bytes -= f.sizes[0]
		f.sizes = f.sizes[1:]
	}
}

// goOn lets the reading go on.
func (f *inflow) goOn() {
	if f.room != nil {
		close(f.room)
		f.room = nil
	}
}

func (s *Shell) readFacts(a ReadFacts) {
	s.spawn(func(ctx context.Context) {
		var records []events.Record
		err := errors.New("not read")
		for err != nil && ctx.Err() == nil {
			records = records[:0]
			err = s.cfg.Log.ReadRange(ctx, a.From, a.To, func(r events.Record) error {
				records = append(records, r)
				return nil
			})
			if errors.Is(err, ErrPosition) { // deleted: what is owed for those facts cannot be told any more
				s.post(func(now events.Instant) { s.owner.TailLost(now, a.Generation, err) })
				return
			}
			if err != nil {
				pauseFor(ctx, retryPause)
			}
		}
		if err == nil {
			s.post(func(now events.Instant) { s.owner.Replayed(now, a.Generation, records, true) })
		}
	})
}

func (s *Shell) fetchInput(a FetchInput) {
	in, _, offset, ok := a.Cause.Input()
	if !ok {
		return
	}
	s.spawn(func(ctx context.Context) {
		for ctx.Err() == nil {
			r, err := s.cfg.Log.ReadInput(ctx, in, offset)
			if err == nil || errors.Is(err, ErrPosition) {
				s.post(func(now events.Instant) { s.owner.Fetched(now, a.Generation, a.Cause, r, err) })
				return
			}
			pauseFor(ctx, retryPause)
		}
	})
}

func (s *Shell) askEnds(a AskEnds) {
	s.spawn(func(ctx context.Context) {
		ends, err := s.cfg.Log.Ends(ctx)
		s.post(func(now events.Instant) { s.owner.Ends(now, a.Generation, a.Question, ends, err) })
	})
}

func (s *Shell) askCatalog(a AskCatalog) {
	s.spawn(func(ctx context.Context) {
		c, err := s.cfg.Log.Catalog(ctx)
		if err != nil {
			pauseFor(ctx, retryPause)
		}
		s.post(func(now events.Instant) { s.owner.Definitions(now, a.Generation, a.Question, c, err) })
	})
}
