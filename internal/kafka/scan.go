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
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ScanConfig says what Scan reads.
type ScanConfig struct {
	Topic      string
	Partitions int32
	// Batch is told after the records of one answer of a broker were shown; nil is nobody.
	Batch func()
}

const (
	scanBytes          = 16 << 20
	scanPartitionBytes = 1 << 20
	// scanMetadata bounds how long a moved leader is asked in vain.
	scanMetadata = time.Second
)

// Scan shows fn every record of a topic from the begin of its partitions on, while they are written, until ctx ends. It is
// for whoever looks at much and keeps nothing: a Reader makes a dozen pieces of memory of a record, Scan none. The record
// and all that it names is valid during the call only. fn is called once at a time; an error of it ends the scan.
//
// It is no evidence: it checks no checksums, and shows what transactions aborted. ReadRange is.
func Scan(ctx context.Context, c *Cluster, cfg ScanConfig, fn func(r *events.Record) error) error {
	client, err := c.open(kgo.MaxDecompressBatchBytes(defaultMaxDecompress)) // of its own: its fetches wait at the broker
	if err != nil {
		return err
	}
	defer client.Close()
	unpack, err := unpackerOf(client)
	if err != nil {
		return err
	}
	s := &scan{client: client, cfg: cfg, show: fn, unpack: unpack, next: make([]int64, cfg.Partitions)}
	for i := range s.next {
		s.next[i] = -1
	}
	if err := s.starts(ctx, c); err != nil {
		return ended(ctx, err)
	}
	for try := 1; ; try++ {
		err := s.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !retriable(err) {
			return fmt.Errorf("scan %s: %w", cfg.Topic, fromClient(err))
		}
		if err == nil {
			try = 0 // the leaders have moved, and each answered before
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff(min(try, 6))):
		}
	}
}

func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type scan struct {
	client *kgo.Client
	cfg    ScanConfig
	unpack unpacker

	// mu guards the fields below: leaders are asked at the same time.
	mu   sync.Mutex
	show func(*events.Record) error
	next []int64
	// record and headers are shown again and again.
	record  events.Record
	headers []events.Header
	names   headerNames
}

// maxScanKeys bounds the names of headers that are kept, since anyone may write any.
const maxScanKeys = 256

func (s *scan) starts(ctx context.Context, c *Cluster) error {
	of := Partitions{}
	for p := range s.cfg.Partitions {
		of[s.cfg.Topic] = append(of[s.cfg.Topic], p)
	}
	starts, err := c.StartOffsets(ctx, of)
	if err != nil {
		return err
	}
	for p := range s.cfg.Partitions {
		s.next[p] = starts[s.cfg.Topic][p]
	}
	return nil
}

// round asks all leaders until one of them is it no longer.
func (s *scan) round(ctx context.Context) error {
	leaders, id, err := s.leaders(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make(chan error, len(leaders))
	for leader, partitions := range leaders {
		go func() {
			var err error
			for err == nil && ctx.Err() == nil {
				err = s.ask(ctx, leader, id, partitions)
			}
			errs <- err
		}()
	}
	var first error
	for range leaders {
		if err := <-errs; err != nil && first == nil {
			first = err
			stop()
		}
	}
	return first
}

func (s *scan) leaders(ctx context.Context) (map[int32][]int32, [16]byte, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &s.cfg.Topic
	req.Topics = append(req.Topics, t)
	resp, err := s.client.RequestCachedMetadata(ctx, req, scanMetadata)
	if err != nil {
		return nil, [16]byte{}, err
	}
	if len(resp.Topics) == 0 {
		return nil, [16]byte{}, kerr.UnknownTopicOrPartition
	}
	rt := resp.Topics[0]
	if err := kerr.ErrorForCode(rt.ErrorCode); err != nil {
		return nil, [16]byte{}, err
	}
	out := map[int32][]int32{}
	for _, rp := range rt.Partitions {
		if rp.Leader < 0 {
			return nil, [16]byte{}, errNoLeader
		}
		if rp.Partition < s.cfg.Partitions {
			out[rp.Leader] = append(out[rp.Leader], rp.Partition)
		}
	}
	return out, rt.TopicID, nil
}

// ask sends one fetch for all partitions of a leader, which waits there while there is nothing.
func (s *scan) ask(ctx context.Context, leader int32, id [16]byte, partitions []int32) error {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(defaultMaxWait/time.Millisecond), 1, scanBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = s.cfg.Topic, id
	s.mu.Lock()
	for _, p := range partitions {
		x := kmsg.NewFetchRequestTopicPartition()
		x.Partition, x.FetchOffset, x.PartitionMaxBytes = p, s.next[p], scanPartitionBytes
		t.Partitions = append(t.Partitions, x)
	}
	s.mu.Unlock()
	req.Topics = append(req.Topics, t)
	kresp, err := s.client.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if err := s.partition(&resp.Topics[i].Partitions[j]); err != nil {
				return err
			}
		}
	}
	if s.cfg.Batch != nil {
		s.cfg.Batch()
	}
	return nil
}

func (s *scan) partition(p *kmsg.FetchResponseTopicPartition) error {
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return err
	}
	for rest := p.RecordBatches; ; {
		b, after, ok := cutBatch(rest)
		if !ok {
			return nil // the broker cuts off where the answer is full
		}
		if err := s.batch(p.Partition, b); err != nil {
			return fmt.Errorf("partition %d, the batch at offset %d: %w", p.Partition, b.base, err)
		}
		s.next[p.Partition] = max(s.next[p.Partition], b.base+int64(b.lastDelta)+1)
		rest = after
	}
}

// batch shows the records of a batch that were not shown yet; the first batch of an answer may begin before what was
// asked for.
func (s *scan) batch(partition int32, b rawBatch) (err error) {
	if b.control() {
		return nil
	}
	in := b.records
	if codec := b.codec(); codec != kgo.CodecNone {
		if in, err = s.unpack.Decompress(in, codec); err != nil {
			return err
		}
	}
	s.record = events.Record{Topic: s.cfg.Topic, Partition: partition}
	for range b.count {
		var r rawRecord
		if r, in, err = cutRecord(in); err != nil {
			return err
		}
		s.record.Offset = b.base + r.delta
		if s.record.Offset < s.next[partition] {
			continue
		}
		s.record.Key, s.record.Value = r.key, r.value
		if s.record.Headers, err = s.cutHeaders(r.headers); err != nil {
			return err
		}
		if err := s.show(&s.record); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) cutHeaders(in []byte) ([]events.Header, error) {
	n, in, err := cutVarint(in)
	if err != nil || n < 0 || n > int64(len(in)) {
		return nil, errBadBatch
	}
	s.headers = s.headers[:0]
	for i := range n {
		var key, value []byte
		if key, in, err = cutBytes(in); err == nil {
			value, in, err = cutBytes(in)
		}
		if err != nil {
			return nil, err
		}
		s.headers = append(s.headers, events.Header{Key: s.names.at(int(i), key), Value: value})
	}
	return s.headers, nil
}

var errBadBatch = errors.New("it is no batch of records")
