package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// defaultMaxDecompress is twice what a dead letter may hold: more than any record of ours, and little enough that
	// a hostile batch cannot fill the memory.
	defaultMaxDecompress = 16 << 20
	// defaultMaxWait is long, because data wakes a waiting fetch at once, and an idle node then costs nothing.
	defaultMaxWait = 5 * time.Second
	// defaultPollRecords bounds one Poll, so that one busy partition does not hold up the loop of its reader.
	defaultPollRecords = 4_096
	fetchMaxBytes      = 32 << 20
	fetchMaxPartition  = 4 << 20
)

// ReaderConfig says how a Reader reads.
type ReaderConfig struct {
	// ReadCommitted reads up to the last stable offset and leaves out what was aborted.
	ReadCommitted bool
	// KeepControl also returns the markers of transactions, as records with Control set.
	KeepControl bool
	// MaxDecompress bounds what a batch may unpack to; default 16 MiB.
	MaxDecompress int
	// MaxRecords bounds one Poll; default 4,096.
	MaxRecords int
	// MaxWait is how long a broker holds a fetch while there is nothing; default 5 s.
	MaxWait time.Duration
}

// Fetch is what one Poll brought of one partition.
type Fetch struct {
	Topic     string
	Partition int32
	// Records are in the order of the log. They may be empty although Next has moved: markers and aborted records.
	Records []events.Record
	// Next is the offset to be read next: behind the last record, also where that is a marker left out of Records.
	Next int64
	// HighWatermark is the end of the log as this fetch saw it, with what open transactions have written.
	HighWatermark int64
	// Err is why reading of this partition has stopped: *OutOfRangeError, *DataLossError, *TooLargeError, or an error
	// of the broker. It stays stopped until Add.
	Err error
}

// Reader reads chosen partitions from chosen offsets, without a group. It never moves a position by itself. Poll is for
// one goroutine; the other methods are safe for concurrent use.
type Reader struct {
	client *kgo.Client
	cancel context.CancelFunc
	cfg    ReaderConfig

	mu sync.Mutex
	// next holds the partitions that are read, and their positions. Guarded by mu.
	next map[place]int64
}

type place struct {
	topic     string
	partition int32
}

// NewReader opens a reader of nothing; Add gives it partitions. Close it.
func NewReader(c *Cluster, cfg ReaderConfig) (*Reader, error) {
	if cfg.MaxDecompress <= 0 {
		cfg.MaxDecompress = defaultMaxDecompress
	}
	if cfg.MaxRecords <= 0 {
		cfg.MaxRecords = defaultPollRecords
	}
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = defaultMaxWait
	}
	ctx, cancel := context.WithCancel(context.Background())
	client, err := c.open(append(readerOpts(cfg), kgo.WithContext(ctx))...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &Reader{client: client, cancel: cancel, cfg: cfg, next: make(map[place]int64)}, nil
}

func readerOpts(cfg ReaderConfig) []kgo.Opt {
	opts := []kgo.Opt{
		// Positions are ours: an offset outside the log is an error, never a reset.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMinBytes(1),
		kgo.FetchMaxWait(cfg.MaxWait),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxPartitionBytes(fetchMaxPartition),
		kgo.MaxDecompressBatchBytes(cfg.MaxDecompress),
		// Markers are always kept, because only they tell that the position is behind them; Poll leaves them out.
		kgo.KeepControlRecords(),
		// This makes the client a reader of chosen partitions although it has none yet.
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
	}
	if cfg.ReadCommitted {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return opts
}

// Add reads a partition from offset on; -2 means from its start. A leader epoch other than -1 is that of the record
// before offset, and lets the broker tell that the log has diverged (DataLossError). Adding a partition that is read
// already moves it.
func (r *Reader) Add(topic string, partition int32, offset int64, leaderEpoch int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := place{topic, partition}
	if _, ok := r.next[at]; ok {
		r.client.RemoveConsumePartitions(map[string][]int32{topic: {partition}})
	}
	r.next[at] = offset
	o := kgo.NoResetOffset().At(offset).WithEpoch(leaderEpoch)
	if offset < 0 {
		o = kgo.NoResetOffset().AtStart()
	}
	r.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: o}})
}

// Remove stops reading a partition. Poll returns nothing of it that was fetched before.
func (r *Reader) Remove(topic string, partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.next, place{topic, partition})
	r.client.RemoveConsumePartitions(map[string][]int32{topic: {partition}})
}

// Pause keeps the position of a partition and fetches no more of it. What was fetched already is kept for Resume.
func (r *Reader) Pause(topic string, partition int32) {
	r.client.PauseFetchPartitions(map[string][]int32{topic: {partition}})
}

// Resume undoes Pause.
func (r *Reader) Resume(topic string, partition int32) {
	r.client.ResumeFetchPartitions(map[string][]int32{topic: {partition}})
}

// Poll waits for records, for an error of a partition, or for the end of ctx. Its error is ctx's or ErrClosed; errors of
// a partition stand in its Fetch.
func (r *Reader) Poll(ctx context.Context) ([]Fetch, error) {
	for {
		polled := r.client.PollRecords(ctx, r.cfg.MaxRecords)
		if err := pollError(ctx, polled); err != nil {
			return nil, err
		}
		if out := r.accept(polled); len(out) > 0 {
			return out, nil
		}
	}
}

// pollError finds the errors that the client injects under no topic: those of the poll itself.
func pollError(ctx context.Context, polled kgo.Fetches) error {
	err := polled.Err0()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kgo.ErrClientClosed):
		return fmt.Errorf("poll: %w", ErrClosed)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return fmt.Errorf("poll: %w", context.Cause(ctx))
	}
	return nil
}

func (r *Reader) accept(polled kgo.Fetches) []Fetch {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Fetch
	polled.EachPartition(func(p kgo.FetchTopicPartition) {
		at := place{p.Topic, p.Partition}
		next, ok := r.next[at]
		if !ok {
			return // removed since it was fetched
		}
		f := Fetch{Topic: p.Topic, Partition: p.Partition, HighWatermark: p.HighWatermark, Next: next}
		if n := len(p.Records); n > 0 {
			f.Records = fromKgo(p.Records)
			f.Next = p.Records[n-1].Offset + 1
			if !r.cfg.KeepControl {
				f.Records = withoutControl(f.Records)
			}
		}
		if p.Err != nil {
			f.Err = typed(p.Err, p.Topic, p.Partition, f.Next)
			r.stop(at)
		} else {
			r.next[at] = f.Next
		}
		if f.Err != nil || len(f.Records) > 0 || f.Next != next {
			out = append(out, f)
		}
	})
	return out
}

// stop drops a partition after an error, because the client may go on by itself: after a loss it moves to where the
// log is whole, and that would be a silent reset.
func (r *Reader) stop(at place) {
	delete(r.next, at)
	r.client.RemoveConsumePartitions(map[string][]int32{at.topic: {at.partition}})
}

// Close ends the reader; a Poll that waits returns ErrClosed.
func (r *Reader) Close() { closeClient(r.client, r.cancel) }

func withoutControl(in []events.Record) []events.Record {
	out := in[:0]
	for i := range in {
		if !in[i].Control {
			out = append(out, in[i])
		}
	}
	return out
}

// typed gives the errors of a partition that a caller acts upon a type.
func typed(err error, topic string, partition int32, offset int64) error {
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return &DataLossError{Topic: topic, Partition: partition, ReadTo: loss.ConsumedTo, LostFrom: loss.ResetTo}
	}
	if large, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
		return &TooLargeError{
			Topic: topic, Partition: partition, Offset: large.Offset, Next: large.NextOffset, LeaderEpoch: large.Epoch,
		}
	}
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return &OutOfRangeError{Topic: topic, Partition: partition, Offset: offset}
	}
	return fromClient(err)
}
