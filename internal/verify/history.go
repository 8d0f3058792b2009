package verify

import (
	"context"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// Search says which task's facts to read, and from which log.
type Search struct {
	Log Log
	// Topic is the topic of the facts.
	Topic string
	Task  string
	// Progress is called with the progress of reading; nil if nobody asks.
	Progress func(topic string, partition int32, done, end int64)
}

// progressEvery is how many records are read between two calls of Search.Progress.
const progressEvery = 1000

// History calls yield with each fact of a task that the log holds, in the order of the log, and with the node that wrote it. It
// reads all of the task's partition, so it also finds a task that every state has forgotten, and every task of a reused ID. It
// returns the bounds within which it looked.
func History(ctx context.Context, s Search, yield func(r events.Record, owner string) error) (Bounds, error) {
	bounds, err := s.Log.Bounds(ctx, s.Topic)
	if err != nil {
		return Bounds{}, fmt.Errorf("ask for the ends of %s: %w", s.Topic, err)
	}
	if len(bounds) == 0 {
		return Bounds{}, fmt.Errorf("%w: there is no topic %s", ErrNothing, s.Topic)
	}
	partition := events.Home(s.Task, int32(len(bounds)))
	b := bounds[partition]
	rule := NewRule(b.Start > 0)
	err = s.Log.Read(ctx, Span{Topic: s.Topic, Partition: partition, From: b.Start, To: b.End}, func(r events.Record) error {
		if s.Progress != nil && r.Offset%progressEvery == 0 {
			s.Progress(s.Topic, partition, r.Offset, b.End)
		}
		if r.Control {
			return nil
		}
		void, err := rule.JudgeRecord(&r)
		if err != nil || void != "" || string(r.Key) != s.Task {
			return err
		}
		return yield(r, Writer(&r))
	})
	if err != nil {
		return b, fmt.Errorf("read %s/%d: %w", s.Topic, partition, err)
	}
	return b, nil
}
