package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/pause"
)

// retryPause is how long the shell waits before it asks again after a broker did not answer.
const retryPause = 200 * time.Millisecond

// A question without an answer is logged after this many tries, about two seconds, and then once a minute.
const (
	firstUnanswered = 10
	moreUnanswered  = 300
)

// retry calls ask until it succeeds, fails with ErrPosition, which a retry cannot fix, or ctx ends. what names the question in
// the log.
func (s *Shell) retry(ctx context.Context, what string, ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		if err == nil || errors.Is(err, ErrPosition) || ctx.Err() != nil {
			return err
		}
		if try%moreUnanswered == firstUnanswered {
			s.cfg.Logger.Warn("the partition waits for an answer of the brokers; asking again", "partition", s.owner.core.cfg.Partition, "question", what, "tries", try, "error", err)
		}
		pause.For(ctx, retryPause)
	}
}

// load reads the partition's own log and asks for its end.
func (s *Shell) load(a Load) {
	s.spawn(func(ctx context.Context) {
		var end int64
		err := s.retry(ctx, "the end of its log", func() (err error) { // an owner that got the error would load again at once, and loop while the broker is down
			end, err = s.cfg.Log.End(ctx)
			return err
		})
		s.post(func(now events.Instant) { s.owner.LogEnd(now, a.Generation, 0, end, err) })
	})
	s.readLog(a.Generation, a.From)
}

// readLog reads the partition's own log until the owner stops the read or the generation ends.
func (s *Shell) readLog(gen uint64, from int64) {
	if s.gen == nil || s.gen.id != gen {
		return
	}
	ctx, rest := context.WithCancel(s.gen.ctx)
	s.gen.stopLog = rest
	s.spawn(func(context.Context) {
		s.read(ctx, EventsTopic, from, func(records []events.Record, next int64) error {
			return s.deliver(ctx, func(now events.Instant) { s.owner.LogRecords(now, gen, records, next) })
		}, func(err error) {
			s.post(func(now events.Instant) { s.owner.Lost(now, gen, EventsTopic, Loss{}, err) })
		})
	})
}

// deliver posts a message and waits until it was handled, so that a read is never more than one delivery ahead.
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

// read reads a topic until ctx ends, and retries after errors of the broker; lost is called with an error that a retry cannot
// fix.
func (s *Shell) read(ctx context.Context, t Topic, from int64, give func([]events.Record, int64) error, lost func(error)) {
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
		s.cfg.Logger.Warn("reading is interrupted; trying again", "topic", string(t), "partition", s.owner.core.cfg.Partition, "error", err)
		pause.For(ctx, retryPause)
	}
}

func (s *Shell) readInput(gen uint64, in events.Input, from int64) {
	s.spawn(func(ctx context.Context) {
		s.read(ctx, Topic(in), from, func(records []events.Record, next int64) error {
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
			var loss Loss
			if s.retry(ctx, "where an input begins, and which loss was accepted", func() (e error) {
				loss, e = s.cfg.Log.Loss(ctx, in)
				return e
			}) == nil {
				s.post(func(now events.Instant) { s.owner.Lost(now, gen, Topic(in), loss, err) })
			}
		})
	})
}

// inflow holds the sizes of the records of an input that were read and not judged, oldest first. It pauses the read while there
// are too many.
type inflow struct {
	sizes []int
	bytes int
	// room is closed when the read may continue; nil if it is not paused.
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

// came adds records that were read.
func (f *inflow) came(records []events.Record, room chan struct{}) {
	for i := range records {
		size := records[i].Size()
		f.sizes = append(f.sizes, size)
		f.bytes += size
	}
	f.room = room
}

// judged forgets all but the latest records, those that the owner still holds.
func (f *inflow) judged(left int) {
	for len(f.sizes) > left {
		f.bytes -= f.sizes[0]
		f.sizes = f.sizes[1:]
	}
}

// admit resumes the read if it is paused.
func (f *inflow) admit() {
	if f.room != nil {
		close(f.room)
		f.room = nil
	}
}
