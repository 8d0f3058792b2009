package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/verify"
)

// Log gives package verify access to a cluster.
type Log struct{ Cluster *kafka.Cluster }

// Topics returns the names of a namespace's topics.
func Topics(namespace string) verify.Topics {
	t := kafka.Topics{Namespace: namespace}
	return verify.Topics{
		Definitions: t.Definitions(), Events: t.Events(), Submissions: t.Submissions(), Reports: t.Reports(),
		DeadSubmissions: t.DeadSubmissions(), DeadReports: t.DeadReports(), Work: t.Work,
	}
}

// Bounds implements verify.Log.
func (l Log) Bounds(ctx context.Context, topic string) ([]verify.Bounds, error) {
	n, err := l.Cluster.Partitions(ctx, topic)
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return nil, nil
	}
	if err != nil || n == 0 {
		return nil, err
	}
	of := kafka.Partitions{}
	for p := range n {
		of[topic] = append(of[topic], p)
	}
	starts, err := l.Cluster.StartOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	ends, err := l.Cluster.EndOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	list := make([]verify.Bounds, n)
	for p := range n {
		list[p] = verify.Bounds{Start: starts[topic][p], End: ends[topic][p]}
	}
	return list, nil
}

// CutError says that records were deleted which the log still held when its bounds were asked for. What is left begins at Start.
type CutError struct {
	Topic     string
	Partition int32
	Start     int64
	err       error
}

func (e *CutError) Error() string {
	return fmt.Sprintf("%s partition %d was cut while it was read, and begins at offset %d now: %s", e.Topic, e.Partition, e.Start, e.err)
}

func (e *CutError) Unwrap() error { return e.err }

// Read implements verify.Log. It returns a *CutError if records were deleted meanwhile. A log that ends before its end has lost records, which is
// another error.
func (l Log) Read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	err := l.read(ctx, s, yield)
	out, ok := errors.AsType[*kafka.OutOfRangeError](err)
	if !ok {
		return err
	}
	start, asked := l.Cluster.StartOffset(ctx, out.Topic, out.Partition)
	if asked != nil || start <= out.Offset {
		return err
	}
	return &CutError{out.Topic, out.Partition, start, err}
}

func (l Log) read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	if s.From >= s.To {
		return nil
	}
	switch {
	case s.Committed:
	case s.Lend:
		return l.Cluster.LendRange(ctx, s.Topic, s.Partition, s.From, s.To, yield)
	default:
		return l.Cluster.ReadRange(ctx, s.Topic, s.Partition, s.From, s.To, yield)
	}
	r, err := kafka.NewReader(l.Cluster, kafka.ReaderConfig{ReadCommitted: true, MaxWait: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	defer r.Close()
	r.Add(s.Topic, s.Partition, s.From, -1)
	for at := s.From; at < s.To; {
		fetches, err := r.Poll(ctx)
		if err != nil {
			return err
		}
		for _, f := range fetches {
			for _, rec := range f.Records {
				if rec.Offset >= s.To {
					return nil
				}
				if err := yield(rec); err != nil {
					return err
				}
			}
			at = max(at, f.Next)
			if f.Err == nil {
				continue
			}
			if at, err = passTooLarge(f, at, yield); err != nil {
				return err
			}
			r.Add(s.Topic, s.Partition, at, -1)
		}
	}
	return nil
}

// passTooLarge replaces a batch that is too large when decompressed with one record without bytes, as the owner does.
func passTooLarge(f kafka.Fetch, at int64, yield func(events.Record) error) (int64, error) {
	var large *kafka.TooLargeError
	if !errors.As(f.Err, &large) {
		return at, f.Err
	}
	offset := max(large.Offset, at)
	if offset < large.Next {
		if err := yield(events.Record{Topic: large.Topic, Partition: large.Partition, Offset: offset, Unread: large.Next - offset}); err != nil {
			return at, err
		}
	}
	return large.Next, nil
}
