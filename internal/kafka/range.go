package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// rangeFetchBytes is how much ReadRange asks for at once: large enough for speed, small enough for a laptop.
	rangeFetchBytes = 4 << 20
	// nearFetchBytes is for our own broker, to which a question costs little: it makes an answer longer batch by batch, and
	// copies all of it each time.
	nearFetchBytes = 256 << 10
	// pointFetchBytes is for one record: a broker returns the first batch whole, whatever its size, and no other.
	pointFetchBytes = 1
	// fetchTries bounds how often a moved leader is followed; with backoff this is about as long as an election.
	fetchTries = 12
	// unknownTries is enough for the metadata of a new topic to arrive; a topic that is not there shall be told soon.
	unknownTries = 5
)

// ReadAt returns the record at an offset, as the log holds it: also one of an open or aborted transaction, and markers.
// It errors with *OutOfRangeError outside the log, and with ErrNoRecord where compaction has left nothing.
func (c *Cluster) ReadAt(ctx context.Context, topic string, partition int32, offset int64) (events.Record, error) {
	got, err := c.fetch(ctx, fetchAt{topic: topic, partition: partition, offset: offset, bytes: pointFetchBytes, unpack: c.unpack})
	if err != nil {
		return events.Record{}, fmt.Errorf("read %s/%d at %d: %w", topic, partition, offset, err)
	}
	for _, r := range got.records {
		if r.Offset == offset {
			out := fromKgo([]*kgo.Record{r})
			return out[0], nil
		}
	}
	// A fetch at the end of the log is not an error for a broker; for us there is no record at that offset yet.
	if offset >= got.end {
		return events.Record{}, &OutOfRangeError{Topic: topic, Partition: partition, Offset: offset}
	}
	return events.Record{}, fmt.Errorf("read %s/%d at %d: %w", topic, partition, offset, ErrNoRecord)
}

// ReadRange calls fn for each record of a partition from offset from up to, but without, offset to, markers included.
// It ends at the end that the log has when it is called, or at to if that is earlier; to = -1 means that end. A from
// below the start of the log is an *OutOfRangeError, because records are missing; StartOffset gives what is left. An
// error of fn ends the range and is returned as it is. fn may keep the records.
func (c *Cluster) ReadRange(ctx context.Context, topic string, partition int32, from, to int64,
	fn func(events.Record) error,
) error {
	return c.walk(ctx, rangeWalk{at: c.rangeAt(topic, partition), next: from, to: to, show: fn})
}

// LendRange is ReadRange for an fn that keeps no headers: those of a record are good until it is called again. It saves
// as much memory as the records have, which who folds a long log feels.
func (c *Cluster) LendRange(ctx context.Context, topic string, partition int32, from, to int64,
	fn func(events.Record) error,
) error {
	return c.walk(ctx, rangeWalk{at: c.rangeAt(topic, partition), next: from, to: to, show: fn, lent: true})
}

func (c *Cluster) rangeAt(topic string, partition int32) fetchAt {
	at := fetchAt{topic: topic, partition: partition, bytes: rangeFetchBytes, unpack: c.unpack, raw: true}
	if c.cfg.Embedded {
		at.bytes = nearFetchBytes
	}
	return at
}

func (c *Cluster) walk(ctx context.Context, w rangeWalk) error {
	topic, partition := w.at.topic, w.at.partition
	ends, err := c.HighWatermarks(ctx, Partitions{topic: {partition}})
	if err != nil {
		return err
	}
	if end := ends[topic][partition]; w.to < 0 || w.to > end {
		w.to = end
	}
	for w.next < w.to && !w.ended {
		from := w.next
		w.at.offset = from
		got, err := c.fetch(ctx, w.at)
		if err != nil {
			return fmt.Errorf("read %s/%d from %d: %w", topic, partition, from, err)
		}
		if err := w.answer(got.raw); err != nil {
			return err
		}
		if w.next <= from && !w.ended {
			return fmt.Errorf("read %s/%d from %d: the log ends at %d, before its end of %d: %w", topic, partition, from,
				got.end, w.to, &OutOfRangeError{Topic: topic, Partition: partition, Offset: from})
		}
	}
	return nil
}

// fetchAt is one question to the leader of a partition.
type fetchAt struct {
	topic     string
	partition int32
	offset    int64
	bytes     int32
	unpack    unpacker
	// committed leaves out what was aborted, and ends at the last stable offset.
	committed bool
	// raw leaves the answer as it came.
	raw bool
}

type fetched struct {
	// raw is set instead of records and next, where it was asked for.
	raw     *kmsg.FetchResponseTopicPartition
	records []*kgo.Record
	// next is behind what was read, with gaps of compaction; end is the high watermark.
	next, end int64
}

// fetch asks the leader directly, without a consumer: nothing is opened, nothing waits for data, and the answer tells
// where the next record can be, also behind a gap.
func (c *Cluster) fetch(ctx context.Context, at fetchAt) (fetched, error) {
	for try := 1; ; try++ {
		got, err := c.fetchOnce(ctx, at, try)
		if err == nil || try == fetchTries || !retriable(err) || try == unknownTries && unknown(err) {
			return got, typed(err, at.topic, at.partition, at.offset)
		}
		select {
		case <-ctx.Done():
			return fetched{}, context.Cause(ctx)
		case <-time.After(backoff(try)):
		}
	}
}

// retriable includes an unknown topic, since metadata lags for a moment behind the creation of a topic.
func retriable(err error) bool {
	return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || errors.Is(err, errNoLeader)
}

func unknown(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

var errNoLeader = errors.New("the partition has no leader")

func (c *Cluster) fetchOnce(ctx context.Context, at fetchAt, try int) (fetched, error) {
	leader, id, err := c.leader(ctx, at, try)
	if err != nil {
		return fetched{}, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, at.bytes
	if at.committed {
		req.IsolationLevel = readCommitted
	}
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = at.topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = at.partition, at.offset, at.bytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	kresp, err := c.client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return fetched{}, err
	}
	answer, err := theOnly(kresp.(*kmsg.FetchResponse))
	if err != nil {
		return fetched{}, err
	}
	if at.raw {
		return fetched{raw: answer, end: answer.HighWatermark}, kerr.ErrorForCode(answer.ErrorCode)
	}
	return at.decode(answer)
}

// theOnly returns the partition that was asked for.
func theOnly(resp *kmsg.FetchResponse) (*kmsg.FetchResponseTopicPartition, error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("the broker answered for %d topics instead of one", len(resp.Topics))
	}
	return &resp.Topics[0].Partitions[0], nil
}

// decode has the client take an answer apart.
func (at *fetchAt) decode(p *kmsg.FetchResponseTopicPartition) (fetched, error) {
	isolation := kgo.ReadUncommitted()
	if at.committed {
		isolation = kgo.ReadCommitted()
	}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, IsolationLevel: isolation, Offset: at.offset, Topic: at.topic, Partition: at.partition,
	}, p, at.unpack.bounded, nil)
	if fp.Err != nil && len(fp.Records) == 0 {
		return fetched{}, fp.Err
	}
	return fetched{records: fp.Records, next: next, end: fp.HighWatermark}, nil
}

func (c *Cluster) leader(ctx context.Context, at fetchAt, try int) (int32, [16]byte, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(at.topic)
	req.Topics = append(req.Topics, t)
	limit := metadataMax
	if try > 1 {
		limit = metadataMin / 2 // the leader has moved: what is known of it is wrong
	}
	resp, err := c.client.RequestCachedMetadata(ctx, req, limit)
	if err != nil {
		return 0, [16]byte{}, err
	}
	for _, rt := range resp.Topics {
		if err := kerr.ErrorForCode(rt.ErrorCode); err != nil {
			return 0, [16]byte{}, err
		}
		for _, rp := range rt.Partitions {
			if rp.Partition != at.partition {
				continue
			}
			if rp.Leader < 0 {
				return 0, [16]byte{}, errNoLeader
			}
			return rp.Leader, rt.TopicID, nil
		}
	}
	return 0, [16]byte{}, kerr.UnknownTopicOrPartition
}
