package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// rangeFetchBytes is how much ReadRange fetches at once: large enough for speed, small enough for a laptop.
	rangeFetchBytes = 4 << 20
	// nearFetchBytes is for the embedded broker. Requests to it are cheap, and it copies the whole answer again for each batch that it
	// adds to it.
	nearFetchBytes = 256 << 10
	// pointFetchBytes is for a single record: a broker returns the whole first batch, whatever its size, and nothing else.
	pointFetchBytes = 1
	// fetchTries bounds how often a moved leader is followed. With backoff this takes about as long as an election.
	fetchTries = 12
	// unknownTries gives the metadata of a new topic some time to arrive, but an unknown topic must be reported soon.
	unknownTries = 5
)

// ReadAt returns the record at an offset as the log holds it, including markers and records of open or aborted transactions. It returns an
// *OutOfRangeError outside the log, and ErrNoRecord where compaction has removed the record.
func (c *Cluster) ReadAt(ctx context.Context, topic string, partition int32, offset int64) (events.Record, error) {
	at := batch.Position{Topic: topic, Partition: partition, Offset: offset}
	got, err := c.fetch(ctx, fetchAt{Position: at, bytes: pointFetchBytes, below: true})
	if err != nil {
		return events.Record{}, fmt.Errorf("read %s/%d at %d: %w", topic, partition, offset, denied(c, err, opRead, topic, ""))
	}
	for _, r := range got.records {
		if r.Offset == offset {
			return batch.Records([]*kgo.Record{r})[0], nil
		}
	}
	return events.Record{}, fmt.Errorf("read %s/%d at %d: %w", topic, partition, offset, ErrNoRecord)
}

// ReadRange calls fn for each record of a partition, markers included, from offset from up to but not including offset to, or up
// to the end of the log at the time of the call if that is earlier; to = -1 means that end. If from is below the start of the
// log, records are missing, and it returns an *OutOfRangeError; StartOffset returns where the rest begins. An error of fn ends
// the range and is returned unchanged. fn may keep the records.
func (c *Cluster) ReadRange(ctx context.Context, topic string, partition int32, from, to int64,
	fn func(events.Record) error,
) error {
	return c.readRange(ctx, c.rangeDecoder(topic, partition, from, to, fn), 0)
}

// LendRange is ReadRange for an fn that does not keep headers: they are valid only during the call. When a long log is folded,
// this saves about as much memory as the records take.
func (c *Cluster) LendRange(ctx context.Context, topic string, partition int32, from, to int64,
	fn func(events.Record) error,
) error {
	d := c.rangeDecoder(topic, partition, from, to, fn)
	d.ReuseHeaders = true
	return c.readRange(ctx, d, 0)
}

// ReadWhole is ReadRange for a log that is known to reach to. If it ends before, records were lost, and it returns an *OutOfRangeError with the end.
func ReadWhole(ctx context.Context, c *Cluster, topic string, partition int32, from, to int64, fn func(events.Record) error) error {
	return c.readRange(ctx, c.rangeDecoder(topic, partition, from, to, fn), to)
}

// LendWhole is LendRange like ReadWhole.
func LendWhole(ctx context.Context, c *Cluster, topic string, partition int32, from, to int64, fn func(events.Record) error) error {
	d := c.rangeDecoder(topic, partition, from, to, fn)
	d.ReuseHeaders = true
	return c.readRange(ctx, d, to)
}

func (c *Cluster) rangeDecoder(topic string, partition int32, from, to int64, fn func(events.Record) error) *batch.Decoder {
	show := func(r *events.Record) error { return fn(*r) }
	return &batch.Decoder{Topic: topic, Partition: partition, Next: from, End: to, Show: show, Unpacker: c.unpack}
}

// readRange reads a range. reaches is how far the log must reach at least.
func (c *Cluster) readRange(ctx context.Context, d *batch.Decoder, reaches int64) error {
	ends, err := c.HighWatermarks(ctx, Partitions{d.Topic: {d.Partition}})
	if err != nil {
		return err
	}
	switch end := ends[d.Topic][d.Partition]; {
	case end < reaches:
		return fmt.Errorf("read %s/%d to %d: the log ends at %d: %w", d.Topic, d.Partition, reaches, end, &OutOfRangeError{Topic: d.Topic, Partition: d.Partition, Offset: end})
	case d.End < 0 || d.End > end:
		d.End = end
	}
	bytes := int32(rangeFetchBytes)
	if c.cfg.Embedded {
		bytes = nearFetchBytes
	}
	for d.Next < d.End && !d.Ended() {
		from := d.Next
		at := batch.Position{Topic: d.Topic, Partition: d.Partition, Offset: from}
		got, err := c.fetch(ctx, fetchAt{Position: at, bytes: bytes, raw: true, below: true})
		if err != nil {
			return fmt.Errorf("read %s/%d from %d: %w", d.Topic, d.Partition, from, denied(c, err, opRead, d.Topic, ""))
		}
		if err := d.Decode(got.raw); err != nil {
			return Unreadable(err)
		}
		if d.Next <= from && !d.Ended() {
			return fmt.Errorf("read %s/%d from %d: the log ends at %d, before its end of %d: %w", d.Topic, d.Partition, from,
				got.end, d.End, &OutOfRangeError{Topic: d.Topic, Partition: d.Partition, Offset: from})
		}
	}
	return nil
}

// Unreadable gives the error of a batch.Decoder its type, such as *TooLargeError. It returns an error of the caller's function unchanged.
func Unreadable(err error) error {
	if bad, ok := errors.AsType[*batch.Error](err); ok {
		bad.Err = typed(bad.Err, bad.Topic, bad.Partition, bad.Offset)
	}
	return err
}

// fetchAt is one fetch from the leader of a partition.
type fetchAt struct {
	batch.Position
	bytes int32
	// raw leaves the answer undecoded.
	raw bool
	// below says that the caller expects the position to be below the end of the log.
	below bool
}

type fetched struct {
	// raw is set instead of records and next if raw answers were requested.
	raw     *kmsg.FetchResponseTopicPartition
	records []*kgo.Record
	// next is the offset after the records that were read and after gaps from compaction. end is the high watermark.
	next, end int64
}

// fetch asks the leader directly, without a consumer: the request does not wait for data, and the answer says where the next record
// can be, even after a gap.
func (c *Cluster) fetch(ctx context.Context, at fetchAt) (fetched, error) {
	for try := 1; ; try++ {
		got, err := c.fetchOnce(ctx, at, try)
		if err == nil && at.below && got.end <= at.Offset || errors.Is(err, kerr.OffsetOutOfRange) {
			err = c.outside(ctx, at)
		}
		if err == nil || try == fetchTries || !retriable(err) || try == unknownTries && unknown(err) {
			return got, typed(err, at.Topic, at.Partition, at.Offset)
		}
		if !pause.For(ctx, backoff(try)) {
			return fetched{}, context.Cause(ctx)
		}
	}
}

// outside says why a fetch found the position outside the log. That alone proves nothing: the high watermark of a new leader lags
// for a moment, and a broker that is no leader any more lacks records. Only the answer of ListOffsets never falls below an
// acknowledged record, because a leader refuses to answer until its high watermark has caught up (KIP-207).
func (c *Cluster) outside(ctx context.Context, at fetchAt) error {
	of := Partitions{at.Topic: {at.Partition}}
	starts, err := c.StartOffsets(ctx, of)
	if err != nil {
		return err
	}
	ends, err := c.HighWatermarks(ctx, of)
	if err != nil {
		return err
	}
	start, end := starts[at.Topic][at.Partition], ends[at.Topic][at.Partition]
	if at.Offset < start || at.Offset > end || at.below && at.Offset == end {
		return kerr.OffsetOutOfRange
	}
	return errLagging
}

// retriable includes an unknown topic, because metadata is stale for a moment after the creation of a topic.
func retriable(err error) bool {
	return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || errors.Is(err, errNoLeader) || errors.Is(err, errLagging)
}

func unknown(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

var (
	errNoLeader = errors.New("the partition has no leader")
	errLagging  = errors.New("the leader does not show the end of its log yet")
)

func (c *Cluster) fetchOnce(ctx context.Context, at fetchAt, try int) (fetched, error) {
	maxAge := metadataMax
	if try > 1 {
		maxAge = metadataMin / 2 // the leader has moved: the cache is wrong
	}
	topic, err := topicMetadata(ctx, c.client, at.Topic, maxAge)
	if err != nil {
		return fetched{}, err
	}
	i := slices.IndexFunc(topic.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition == at.Partition })
	if i < 0 {
		return fetched{}, kerr.UnknownTopicOrPartition
	}
	leader := topic.Partitions[i].Leader
	if leader < 0 {
		return fetched{}, errNoLeader
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, at.bytes
	if at.Committed {
		req.IsolationLevel = readCommitted
	}
	req.Topics = fetchOf(topic, []fetchFrom{{at.Partition, at.Offset, at.bytes}})
	kresp, err := c.client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return fetched{}, err
	}
	answer, err := onlyPartition(kresp.(*kmsg.FetchResponse))
	if err != nil {
		return fetched{}, err
	}
	if at.raw {
		return fetched{raw: answer, end: answer.HighWatermark}, kerr.ErrorForCode(answer.ErrorCode)
	}
	records, next, err := c.unpack.ByClient(answer, at.Position)
	if err != nil {
		return fetched{}, err
	}
	return fetched{records: records, next: next, end: answer.HighWatermark}, nil
}

// fetchFrom is a partition and the offset to read it from.
type fetchFrom struct {
	partition int32
	offset    int64
	bytes     int32
}

func fetchOf(topic kmsg.MetadataResponseTopic, partitions []fetchFrom) []kmsg.FetchRequestTopic {
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = *topic.Topic, topic.TopicID
	epochs := map[int32]int32{}
	for _, p := range topic.Partitions {
		epochs[p.Partition] = p.LeaderEpoch
	}
	for _, f := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = f.partition, f.offset, f.bytes
		// Without the epoch, a broker that is only a follower now would answer too.
		p.CurrentLeaderEpoch = epochs[f.partition]
		t.Partitions = append(t.Partitions, p)
	}
	return []kmsg.FetchRequestTopic{t}
}

// onlyPartition returns the partition that was requested.
func onlyPartition(resp *kmsg.FetchResponse) (*kmsg.FetchResponseTopicPartition, error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("the broker answered for %d topics instead of one", len(resp.Topics))
	}
	return &resp.Topics[0].Partitions[0], nil
}

// topicMetadata returns the metadata of a topic, from the cache if that is younger than maxAge.
func topicMetadata(ctx context.Context, client *kgo.Client, topic string, maxAge time.Duration) (kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := client.RequestCachedMetadata(ctx, req, maxAge)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	if len(resp.Topics) != 1 {
		return kmsg.MetadataResponseTopic{}, kerr.UnknownTopicOrPartition
	}
	resp.Topics[0].Topic = &topic // the answer may contain only its ID
	return resp.Topics[0], kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}
