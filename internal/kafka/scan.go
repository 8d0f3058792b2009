package kafka

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ScanConfig says what Scan reads.
type ScanConfig struct {
	Topic      string
	Partitions int32
	// Batch is called after the records of one answer of a broker were shown; may be nil.
	Batch func()
}

const (
	scanBytes          = 16 << 20
	scanPartitionBytes = 1 << 20
	// scanMetadata bounds how long Scan keeps asking a broker that no longer leads a partition.
	scanMetadata = time.Second
)

// Scan shows fn every record of a topic from the start of its partitions on, including those written in the meantime,
// until ctx ends. It is for callers that read many records and keep none: a Reader allocates a dozen times for each
// record, Scan does not. A record and everything that it refers to are valid only during the call. fn is never called
// concurrently; if it returns an error, the scan ends.
//
// It leaves out markers, but shows the records of aborted transactions.
func Scan(ctx context.Context, c *Cluster, cfg ScanConfig, fn func(*events.Record) error) error {
	client, err := c.open(kgo.MaxDecompressBatchBytes(maxDecompress)) // not the shared one: these fetches wait at the broker
	if err != nil {
		return err
	}
	defer client.Close()
	s := &scan{client: client, cfg: cfg}
	if err := s.start(ctx, c, fn); err != nil && ctx.Err() == nil {
		return err
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
			try = 0 // the leaders have moved, but each had answered before
			continue
		}
		if !pause.For(ctx, backoff(min(try, 6))) {
			return nil
		}
	}
}

type scan struct {
	client *kgo.Client
	cfg    ScanConfig

	// mu guards the decoders, one for each partition: leaders are asked at the same time.
	mu         sync.Mutex
	partitions []*batch.Decoder
}

// start makes a decoder for each partition, at the start of its log.
func (s *scan) start(ctx context.Context, c *Cluster, fn func(*events.Record) error) error {
	of := Partitions{}
	for p := range s.cfg.Partitions {
		of[s.cfg.Topic] = append(of[s.cfg.Topic], p)
	}
	starts, err := c.StartOffsets(ctx, of)
	if err != nil {
		return err
	}
	show := func(r *events.Record) error {
		if r.Control {
			return nil
		}
		return fn(r)
	}
	for p := range s.cfg.Partitions {
		d := &batch.Decoder{
			Topic: s.cfg.Topic, Partition: p, Next: starts[s.cfg.Topic][p], End: math.MaxInt64, Show: show, ReuseHeaders: true, Unpacker: c.unpack,
		}
		s.partitions = append(s.partitions, d)
	}
	return nil
}

// round asks all leaders until one of them has lost its leadership.
func (s *scan) round(ctx context.Context) error {
	topic, err := topicMetadata(ctx, s.client, s.cfg.Topic, scanMetadata)
	if err != nil {
		return err
	}
	led := map[int32][]int32{}
	for _, p := range topic.Partitions {
		if p.Leader < 0 {
			return errNoLeader
		}
		if p.Partition < s.cfg.Partitions {
			led[p.Leader] = append(led[p.Leader], p.Partition)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make(chan error, len(led))
	for leader, partitions := range led {
		go func() {
			var err error
			for err == nil && ctx.Err() == nil {
				err = s.ask(ctx, leader, topic, partitions)
			}
			errs <- err
		}()
	}
	var first error
	for range led {
		if err := <-errs; err != nil && first == nil {
			first = err
			stop()
		}
	}
	return first
}

// ask sends one fetch for all partitions of a leader. The fetch waits there while there is nothing to read.
func (s *scan) ask(ctx context.Context, leader int32, topic kmsg.MetadataResponseTopic, partitions []int32) error {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(defaultMaxWait/time.Millisecond), 1, scanBytes
	var from []fetchFrom
	s.mu.Lock()
	for _, p := range partitions {
		from = append(from, fetchFrom{p, s.partitions[p].Next, scanPartitionBytes})
	}
	s.mu.Unlock()
	req.Topics = fetchOf(topic, from)
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
			p := &resp.Topics[i].Partitions[j]
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
			if err := s.partitions[p.Partition].Decode(p); err != nil {
				return Unreadable(err)
			}
		}
	}
	if s.cfg.Batch != nil {
		s.cfg.Batch()
	}
	return nil
}
