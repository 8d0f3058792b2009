package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// execute carries out an action, or starts it.
func (s *Shell) execute(a Action) error {
	switch a := a.(type) {
	case Load:
		s.begin(a.Generation)
		s.load(a)
	case PauseLog:
		if s.gen != nil && s.gen.id == a.Generation {
			s.gen.stopLog()
		}
	case ResumeLog:
		s.readLog(a.Generation, a.From)
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
	case AskEnd:
		s.askEnd(a)
	case AskCatalog:
		s.askCatalog(a)
	case TrimInputs:
		if s.cfg.Trim != nil {
			s.cfg.Trim(a.Below)
		}
	case Release:
		s.release()
	case Stop:
		s.stop(a.Err)
	}
	return nil
}

// assignAgain lets an owner that stopped begin again, unless its partition was revoked meanwhile.
func (s *Shell) assignAgain() {
	if s.owner.epoch.phase == phaseStopped {
		s.owner.Revoke(s.now())
		s.owner.Assign(s.now())
	}
}

func (s *Shell) stop(cause error) {
	if s.accepted && errors.Is(cause, ErrInputLost) {
		s.accepted = false
		s.assignAgain()
		return
	}
	if s.cfg.Repair != nil {
		if cause = s.cfg.Repair(cause); cause == nil {
			s.assignAgain()
			return
		}
	}
	s.mu.Lock()
	s.err = cause
	s.mu.Unlock()
	s.cfg.Logger.Error("the partition stopped", "partition", s.owner.core.cfg.Partition, "error", cause)
}

func (s *Shell) claim(a Claim) {
	if s.gen == nil || s.gen.id != a.Generation {
		return
	}
	if s.gen.producer != nil { // the claim was refused: another try needs a new producer
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
		if errors.Is(err, events.ErrTooLarge) {
			s.cfg.Logger.Error("the broker does not take this partition's facts because of their size; set max.message.bytes of the topic of events back to 2 MiB or more: nothing is decided until then",
				"partition", s.owner.core.cfg.Partition, "error", err)
		}
		s.post(func(now events.Instant) { s.owner.Appended(now, a.Generation, a.Batch, offsets, err) })
	})
}

func (s *Shell) readFacts(a ReadFacts) {
	s.spawn(func(ctx context.Context) {
		var p page
		err := s.retry(ctx, "facts whose effects may not be sent", func() (err error) {
			p, err = readPage(ctx, s.cfg.Log, a)
			return err
		})
		switch {
		case err == nil:
			s.post(func(now events.Instant) { s.owner.Replayed(now, a.Generation, a.Destination, p.records, p.next) })
		case errors.Is(err, ErrPosition): // deleted: the effects of those facts are unknown
			s.post(func(now events.Instant) { s.owner.Lost(now, a.Generation, EventsTopic, Loss{}, err) })
		}
	})
}

// page is a part of the log.
type page struct {
	records []events.Record
	bytes   int
	// next is the offset after it.
	next int64
}

// The bounds of a page. The log after a watermark or a delayed destination may not fit in memory.
const (
	pageRecords = 1000
	pageBytes   = 4 << 20
)

var errPageFull = errors.New("the page is full")

// readPage reads as much of the log as fits in a page, but at least one record.
func readPage(ctx context.Context, log Log, a ReadFacts) (page, error) {
	p := page{next: a.To}
	err := log.ReadRange(ctx, a.From, a.To, func(r events.Record) error {
		size := r.Size()
		if n := len(p.records); n > 0 && (n >= pageRecords || p.bytes+size > pageBytes) {
			p.next = r.Offset
			return errPageFull
		}
		r.Value = bytes.Clone(r.Value) // the fact may be kept, and shares its bytes with the whole answer of the broker
		p.records, p.bytes = append(p.records, r), p.bytes+size
		return nil
	})
	if errors.Is(err, errPageFull) {
		err = nil
	}
	return p, err
}

func (s *Shell) fetchInput(a FetchInput) {
	in, _, offset, ok := a.Cause.Input()
	if !ok {
		return
	}
	s.spawn(func(ctx context.Context) {
		var r events.Record
		err := s.retry(ctx, "an input that is judged again", func() (err error) {
			r, err = s.cfg.Log.ReadInput(ctx, in, offset)
			return err
		})
		if err == nil || errors.Is(err, ErrPosition) {
			s.post(func(now events.Instant) { s.owner.Fetched(now, a.Generation, a.Cause, r, err) })
		}
	})
}

func (s *Shell) askEnds(a AskEnds) {
	s.spawn(func(ctx context.Context) {
		ends, err := s.cfg.Log.Ends(ctx)
		s.post(func(now events.Instant) { s.owner.Ends(now, a.Generation, a.Question, ends, err) })
	})
}

func (s *Shell) askEnd(a AskEnd) {
	s.spawn(func(ctx context.Context) {
		var end int64
		err := s.retry(ctx, "the end of its log", func() (err error) {
			end, err = s.cfg.Log.End(ctx)
			return err
		})
		if err == nil {
			s.post(func(now events.Instant) { s.owner.LogEnd(now, a.Generation, a.Question, end, nil) })
		}
	})
}

func (s *Shell) askCatalog(a AskCatalog) {
	s.spawn(func(ctx context.Context) {
		var c Catalog
		err := s.retry(ctx, "the definitions for its submissions", func() (err error) {
			c, err = s.cfg.Log.Catalog(ctx)
			return err
		})
		s.post(func(now events.Instant) { s.owner.Definitions(now, a.Generation, a.Question, c, err) })
	})
}
