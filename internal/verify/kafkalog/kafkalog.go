package kafkalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/pause"
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

// LostError says that a log ends before its end: records were lost since its bounds were asked for, because a replica that lacked them became the leader.
type LostError struct {
	Topic     string
	Partition int32
	// To is where the log ended when its bounds were asked for, and End where it ends now.
	To, End int64
	err     error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s partition %d ended at offset %d when its bounds were asked for, and ends at offset %d now: it lost records (an unclean leader election?), "+
		"so this would be about less than the log had; see docs/lost.md, and repeat the command to read what is left: %s", e.Topic, e.Partition, e.To, e.End, e.err)
}

func (e *LostError) Unwrap() error { return e.err }

// Read implements verify.Log. It returns a *CutError if records were deleted meanwhile, and a *LostError if the log no longer reaches s.To.
func (l Log) Read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	err := l.read(ctx, s, yield)
	out, ok := errors.AsType[*kafka.OutOfRangeError](err)
	if !ok {
		return err
	}
	of := kafka.Partitions{out.Topic: {out.Partition}}
	starts, asked := l.Cluster.StartOffsets(ctx, of)
	if asked != nil {
		return err
	}
	if start := starts[out.Topic][out.Partition]; start > out.Offset {
		return &CutError{out.Topic, out.Partition, start, err}
	}
	ends, asked := l.Cluster.HighWatermarks(ctx, of)
	if end := ends[out.Topic][out.Partition]; asked == nil && end < s.To {
		return &LostError{out.Topic, out.Partition, s.To, end, err}
	}
	return err
}

func (l Log) read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	if s.From >= s.To {
		return nil
	}
	switch {
	case s.Committed:
	case s.Lend:
		return kafka.LendWhole(ctx, l.Cluster, s.Topic, s.Partition, s.From, s.To, yield)
	default:
		return kafka.ReadWhole(ctx, l.Cluster, s.Topic, s.Partition, s.From, s.To, yield)
	}
	if err := l.reaches(ctx, s); err != nil {
		return err
	}
	r, err := kafka.NewReader(l.Cluster, kafka.ReaderConfig{ReadCommitted: true, MaxWait: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	defer r.Close()
	r.Add(s.Topic, s.Partition, s.From, -1)
	ctx, stop := l.whole(ctx, s)
	defer stop()
	for at := s.From; at < s.To; {
		fetches, err := r.Poll(ctx)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
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

// lookEvery is how often the end of a log is asked for while it is read.
const lookEvery = 5 * time.Second

// whole returns a context that ends if the log of a span loses its end, because nothing comes from there any more. stop waits until it looks no more.
func (l Log) whole(ctx context.Context, s verify.Span) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pause.For(ctx, lookEvery) {
			if err := l.reaches(ctx, s); errors.As(err, new(*kafka.OutOfRangeError)) {
				cancel(err)
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-ended
	}
}

// reaches returns an error if the log of a span ends before the end of it.
func (l Log) reaches(ctx context.Context, s verify.Span) error {
	ends, err := l.Cluster.HighWatermarks(ctx, kafka.Partitions{s.Topic: {s.Partition}})
	if err != nil {
		return err
	}
	if end := ends[s.Topic][s.Partition]; end < s.To {
		return &kafka.OutOfRangeError{Topic: s.Topic, Partition: s.Partition, Offset: end}
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
