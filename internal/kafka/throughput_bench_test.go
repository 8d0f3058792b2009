package kafka_test

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// These benchmarks measure the cost of a record. One operation is one record with the size and the headers of a fact.

const (
	benchPartitions = 8
	// benchInFlight is the number of unanswered records of a benchmark.
	benchInFlight = 2_000
	// benchAppend is the number of records of one append, benchAppends the number of unanswered appends.
	benchAppend, benchAppends = 64, 8
)

var benchTopics = kafka.Topics{Namespace: "bench"}

// onTransports runs a benchmark over the embedded broker on disk, on each transport.
func onTransports(b *testing.B, run func(b *testing.B, c *kafka.Cluster)) {
	ways := map[string]func() embedded.Config{
		"tcp":     func() embedded.Config { return embedded.Config{ByPort: true} },
		"virtual": func() embedded.Config { return embedded.Config{Network: new(embedded.VirtualNetwork)} },
		"local":   func() embedded.Config { return embedded.Config{} },
	}
	for name, cfg := range ways {
		b.Run(name, func(b *testing.B) {
			cfg := cfg()
			cfg.Dir = b.TempDir()
			c := kafkatest.Connect(b, kafkatest.StartBroker(b, cfg))
			kafkatest.Create(b, c, benchTopics.Base(benchPartitions)...)
			b.ReportAllocs()
			run(b, c)
		})
	}
}

// costs starts the measurement; the returned function ends it. It reports the processor time of the whole process, which is more reliable
// than the clock on a shared machine.
func costs(b *testing.B) func() {
	b.ResetTimer()
	before := processorTime(b)
	return func() {
		b.StopTimer()
		b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
	}
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// fact returns a record as an owner appends it.
func fact(i int) events.Record {
	id := []byte("order-" + strconv.Itoa(i))
	r := events.Record{Topic: benchTopics.Events(), Partition: int32(i % benchPartitions), Key: id, Timestamp: 1_700_000_000_000}
	r.Value = fmt.Appendf(nil, `{"task":%q,"step":"reserve","attempt":1,"output":{"id":"r-%s"},"started":"2026-01-01T00:00:00.000Z"}`, id, id)
	for _, h := range [][2]string{
		{"ce_specversion", "1.0"}, {"ce_id", "3/1-0123456789abcdef/42"}, {"ce_source", "/sagalog/node-3"}, {"ce_type", "sagalog.StepCompleted"},
		{"ce_time", "2026-01-01T00:00:00.000Z"}, {"ce_cause", "r/3/4711"}, {"ce_causehash", "0123456789abcdef"},
	} {
		r.Headers = append(r.Headers, events.Header{Key: h[0], Value: []byte(h[1])})
	}
	return r
}

func BenchmarkProduce(b *testing.B) {
	onTransports(b, func(b *testing.B, c *kafka.Cluster) {
		p, err := kafka.NewProducer(c)
		require.NoError(b, err)
		defer p.Close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		slots := make(chan struct{}, benchInFlight)
		r := fact(1)
		defer costs(b)()
		for i := range b.N {
			slots <- struct{}{}
			r.Partition = int32(i % benchPartitions)
			p.Produce(ctx, r, func(_ int32, _ int64, err error) {
				if err != nil {
					b.Error(err)
				}
				<-slots
			})
		}
		for range benchInFlight {
			slots <- struct{}{}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	onTransports(b, func(b *testing.B, c *kafka.Cluster) {
		p, err := kafka.NewOwnerProducer(c, benchTopics.Events(), 0)
		require.NoError(b, err)
		defer p.Close()
		var records []events.Record
		for i := range benchAppend {
			records = append(records, fact(i))
		}
		slots := make(chan struct{}, benchAppends)
		defer costs(b)()
		for range b.N / benchAppend {
			slots <- struct{}{}
			p.Append(records, func(_ []int64, err error) {
				if err != nil {
					b.Error(err)
				}
				<-slots
			})
		}
		for range benchAppends {
			slots <- struct{}{}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	onTransports(b, func(b *testing.B, c *kafka.Cluster) {
		p, err := kafka.NewOwnerProducer(c, benchTopics.Events(), 0)
		require.NoError(b, err)
		defer p.Close()
		var records []events.Record
		for i := range benchAppend {
			records = append(records, fact(i))
		}
		for at := 0; at < b.N; at += benchAppend {
			done := make(chan error, 1)
			p.Append(records, func(_ []int64, err error) { done <- err })
			require.NoError(b, <-done)
		}
		r, err := kafka.NewReader(c, kafka.ReaderConfig{})
		require.NoError(b, err)
		defer r.Close()
		r.Add(benchTopics.Events(), 0, 0, -1)
		defer costs(b)()
		for read := 0; read < b.N; {
			fetches, err := r.Poll(context.Background())
			require.NoError(b, err)
			for _, f := range fetches {
				require.NoError(b, f.Err)
				read += len(f.Records)
			}
		}
	})
}

// BenchmarkHop sends one record at a time, and waits until a reader has it.
func BenchmarkHop(b *testing.B) {
	onTransports(b, func(b *testing.B, c *kafka.Cluster) {
		p, err := kafka.NewProducer(c)
		require.NoError(b, err)
		defer p.Close()
		r, err := kafka.NewReader(c, kafka.ReaderConfig{})
		require.NoError(b, err)
		defer r.Close()
		record := fact(0)
		r.Add(record.Topic, record.Partition, 0, -1)
		defer costs(b)()
		answers := make(chan error, 1)
		for range b.N {
			p.Produce(context.Background(), record, func(_ int32, _ int64, err error) { answers <- err })
			for read := 0; read < 1; {
				fetches, err := r.Poll(context.Background())
				require.NoError(b, err)
				for _, f := range fetches {
					require.NoError(b, f.Err)
					read += len(f.Records)
				}
			}
			require.NoError(b, <-answers)
		}
	})
}

// BenchmarkSynced produces one record to each of 64 partitions and waits until the disk has them, as a busy engine does.
func BenchmarkSynced(b *testing.B) {
	const partitions = 64
	c := kafkatest.Connect(b, kafkatest.StartBroker(b, embedded.Config{Dir: b.TempDir(), Fsync: true}))
	kafkatest.Create(b, c, benchTopics.Base(partitions)...)
	p, err := kafka.NewProducer(c)
	require.NoError(b, err)
	defer p.Close()
	records := make([]events.Record, partitions)
	for i := range records {
		records[i] = fact(i)
		records[i].Partition = int32(i)
	}
	_, err = p.ProduceSync(context.Background(), records...)
	require.NoError(b, err)
	defer costs(b)()
	for range b.N {
		_, err := p.ProduceSync(context.Background(), records...)
		require.NoError(b, err)
	}
}
