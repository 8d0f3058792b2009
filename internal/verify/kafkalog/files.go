package kafkalog

import (
	"context"
	"errors"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/verify"
)

// Files gives package verify access to a data directory whose broker is stopped.
type Files struct{ *embedded.Files }

// Bounds implements verify.Log.
func (f Files) Bounds(ctx context.Context, topic string) (list []verify.Bounds, err error) {
	list = make([]verify.Bounds, f.Partitions(topic))
	for p := range list {
		if list[p].Start, list[p].End, err = f.Files.Bounds(ctx, topic, int32(p)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Read implements verify.Log. It leaves nothing out that a transaction aborted, so no span may ask for that.
func (f Files) Read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	switch {
	case s.Committed:
		return errors.New("the files of a broker do not say what was committed: open them with a broker")
	case s.From >= s.To:
		return nil
	case s.Lend:
		return f.LendRange(ctx, s.Topic, s.Partition, s.From, s.To, yield)
	}
	return f.ReadRange(ctx, s.Topic, s.Partition, s.From, s.To, yield)
}
