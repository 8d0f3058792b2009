package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
)

// partitionLog is the cluster as the shell of one partition sees it.
type partitionLog struct {
	cluster   *kafka.Cluster
	topics    kafka.Topics
	partition int32
	effects   *kafka.Producer
	catalog   *catalog
	inputs    *inputs
	// ids are the topics' IDs at the start of this node, by name.
	ids map[string]projector.TopicID
	// doubted holds the topics that were missing once: they may be gone, or recreated.
	doubted sync.Map
	// appends takes how long appends take.
	appends prometheus.Observer
	log     *slog.Logger
	denied  toldOnce
}

// source reads one partition.
type source interface {
	// next waits for the next fetches, or for the end of ctx.
	next(ctx context.Context) ([]kafka.Fetch, error)
	// readFrom continues from an offset, after an error has stopped the reading.
	readFrom(offset int64)
	// end ends the reading.
	end()
}

// Read implements supervisor.Log.
func (l *partitionLog) Read(ctx context.Context, t supervisor.Topic, from int64, give func([]events.Record, int64) error) error {
	input := t != supervisor.EventsTopic
	if err := l.same(ctx, l.name(string(t))); err != nil {
		return err
	}
	from, err := l.begin(ctx, t, from)
	if err != nil {
		return err
	}
	s, err := l.source(t, from)
	if err != nil {
		return err
	}
	defer s.end()
	for {
		fetches, err := s.next(ctx)
		if err != nil {
			return err
		}
		for _, f := range fetches {
			if len(f.Records) > 0 || f.Next > from {
				if err := give(f.Records, f.Next); err != nil {
					return err
				}
				from = f.Next
			}
			if f.Err == nil {
				continue
			}
			if errors.Is(f.Err, kafka.ErrUnknownTopic) {
				l.doubted.Store(l.name(string(t)), true)
			}
			skipped, err := l.skip(ctx, f, input, give)
			if err != nil {
				return err
			}
			from = skipped
			s.readFrom(from)
		}
	}
}

// source opens a topic. The partition's events have a separate reader, which pauses while their owner is busy.
func (l *partitionLog) source(t supervisor.Topic, from int64) (source, error) {
	at := place{l.name(string(t)), l.partition}
	if t != supervisor.EventsTopic {
		return l.inputs.begin(at, from)
	}
	r, err := kafka.NewReader(l.cluster, kafka.ReaderConfig{})
	if err != nil {
		return nil, err
	}
	s := eventsReader{r, at}
	s.readFrom(from)
	return s, nil
}

// eventsReader reads one partition of events.
type eventsReader struct {
	reader *kafka.Reader
	at     place
}

func (o eventsReader) next(ctx context.Context) ([]kafka.Fetch, error) { return o.reader.Poll(ctx) }
func (o eventsReader) readFrom(offset int64)                           { o.reader.Add(o.at.topic, o.at.partition, offset, -1) }
func (o eventsReader) end()                                            { o.reader.Close() }

// same returns ErrPosition if a topic that was missing has been recreated. A new client would take the new topic for the
// old one, and continue in the middle of records that were never judged.
func (l *partitionLog) same(ctx context.Context, topic string) error {
	if _, doubted := l.doubted.Load(topic); !doubted {
		return nil
	}
	id, err := l.cluster.TopicID(ctx, topic)
	if err != nil {
		return err
	}
	if id != l.ids[topic] {
		return fmt.Errorf("%w: topic %s was deleted and recreated", supervisor.ErrPosition, topic)
	}
	l.doubted.Delete(topic)
	return nil
}

// skip passes over a batch of an input that is too large when decompressed. It gives one record that stands for all of the batch, which
// can have a million, so that the owner rejects them by their coordinates. Any other error ends the reading.
func (l *partitionLog) skip(ctx context.Context, f kafka.Fetch, input bool, give func([]events.Record, int64) error) (int64, error) {
	var tooLarge *kafka.TooLargeError
	if !input || !errors.As(f.Err, &tooLarge) {
		return 0, position(f.Err)
	}
	if err := give([]events.Record{unread(tooLarge, max(tooLarge.Offset, f.Next))}, tooLarge.Next); err != nil {
		return 0, err
	}
	return tooLarge.Next, ctx.Err()
}

// unread returns the record that stands for the rest of a batch, from an offset on.
func unread(b *kafka.TooLargeError, offset int64) events.Record {
	return events.Record{Topic: b.Topic, Partition: b.Partition, Offset: offset, Unread: b.Next - offset}
}

// position marks errors that a retry cannot fix.
func position(err error) error {
	var out *kafka.OutOfRangeError
	var lost *kafka.DataLossError
	if errors.As(err, &out) || errors.As(err, &lost) || errors.Is(err, kafka.ErrNoRecord) {
		return fmt.Errorf("%w: %w", supervisor.ErrPosition, err)
	}
	return err
}

// ReadRange implements supervisor.Log.
func (l *partitionLog) ReadRange(ctx context.Context, from, to int64, give func(events.Record) error) error {
	if from >= to {
		return nil
	}
	return position(l.cluster.ReadRange(ctx, l.topics.Events(), l.partition, from, to, give))
}

// ReadInput implements supervisor.Log.
func (l *partitionLog) ReadInput(ctx context.Context, in events.Input, offset int64) (events.Record, error) {
	r, err := l.cluster.ReadAt(ctx, l.topics.Input(in), l.partition, offset)
	var tooLarge *kafka.TooLargeError
	if errors.As(err, &tooLarge) {
		return unread(tooLarge, offset), nil
	}
	return r, position(err)
}

// End implements supervisor.Log.
func (l *partitionLog) End(ctx context.Context) (int64, error) {
	return l.cluster.EndOffset(ctx, l.topics.Events(), l.partition)
}

// Ends implements supervisor.Log.
func (l *partitionLog) Ends(ctx context.Context) (map[events.Input]int64, error) {
	of := kafka.Partitions{}
	for _, in := range events.Inputs {
		of[l.topics.Input(in)] = []int32{l.partition}
	}
	ends, err := l.cluster.HighWatermarks(ctx, of)
	if err != nil {
		return nil, err
	}
	list := map[events.Input]int64{}
	for _, in := range events.Inputs {
		list[in] = ends[l.topics.Input(in)][l.partition]
	}
	return list, nil
}

// Catalog implements supervisor.Log.
func (l *partitionLog) Catalog(ctx context.Context) (supervisor.Catalog, error) {
	if err := l.catalog.upToNow(ctx); err != nil {
		return nil, err
	}
	return view{l.catalog}, nil
}

// NewProducer implements supervisor.Log.
func (l *partitionLog) NewProducer() (supervisor.Producer, error) {
	p, err := kafka.NewOwnerProducer(l.cluster, l.topics.Events(), l.partition)
	if err != nil {
		return nil, err
	}
	return timedProducer{delayed(p), l.appends, func(err error) {
		l.denied.tell(l.log, "facts are refused: this node decides nothing about its partitions", err)
	}}, nil
}

// sendPause is how long a failed effect waits before it is sent again.
const sendPause = time.Second

// Send implements supervisor.Log. It never blocks: a dead topic that fills the buffer must not stop the owners.
func (l *partitionLog) Send(ctx context.Context, list []supervisor.Outgoing, done func(int, error)) {
	records := make([]events.Record, len(list))
	topic, name := "", ""
	for i := range list {
		if list[i].Topic != topic { // most records in a row go to the same few topics
			topic, name = list[i].Topic, l.name(list[i].Topic)
		}
		records[i] = list[i].Record
		records[i].Topic = name
	}
	began := time.Now()
	l.effects.TryProduceBatch(ctx, records, func(i int, _ int32, _ int64, err error) {
		if err == nil {
			done(i, nil)
			return
		}
		again := sending{done: func(err error) { done(i, err) }}
		_ = again.failed(err)
		if within := list[i].Within; within > 0 {
			again.until = began.Add(within)
		}
		l.sendAgain(ctx, records[i], again)
	})
}

// sending is a record that failed.
type sending struct {
	done func(error)
	// refused says that the broker refused the record once. Brokers refuse whole batches, so another record of the batch
	// may have been the cause.
	refused bool
	// unanswered says that some try ended without an answer, so the record may be in the topic.
	unanswered bool
	// until ends the tries, if it is not zero.
	until time.Time
}

// failed takes the error of a try, and returns the final one if the record is refused for good.
func (s *sending) failed(err error) error {
	refused := kafka.IsPermanent(err)
	if refused && s.refused && s.unanswered {
		return fmt.Errorf("%w: %w", supervisor.ErrUnanswered, err)
	} else if refused && s.refused {
		return err
	}
	s.refused = refused
	s.unanswered = s.unanswered || !refused && !errors.Is(err, kafka.ErrBufferFull)
	return nil
}

// sendAgain tries a record again after a pause, until it is sent, refused twice, too old, or ctx ends.
func (l *partitionLog) sendAgain(ctx context.Context, r events.Record, s sending) {
	time.AfterFunc(sendPause, func() {
		if ctx.Err() != nil || !s.until.IsZero() && time.Now().After(s.until) {
			return
		}
		l.effects.TryProduce(ctx, r, func(_ int32, _ int64, err error) {
			if err != nil {
				if err = s.failed(err); err == nil {
					l.sendAgain(ctx, r, s)
					return
				}
			}
			s.done(err)
		})
	})
}

// name returns the full name of a topic.
func (l *partitionLog) name(topic string) string {
	if full, ok := strings.CutPrefix(topic, supervisor.RepliesPrefix); ok {
		return full
	}
	if rest, ok := strings.CutPrefix(topic, kafka.DeadPrefix); ok {
		return kafka.DeadPrefix + l.topics.Namespace + "." + rest
	}
	return l.topics.Namespace + "." + topic
}
