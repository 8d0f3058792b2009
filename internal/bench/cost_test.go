package bench

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// These benchmarks measure the benchmark's own cost of a task: the part of "CPU per task, all included" that is not the
// engine's. Both include the work of the broker and its client.

func reportCPU(b *testing.B, from time.Duration, unit string) {
	b.ReportMetric(float64((ownCPU()-from).Nanoseconds())/1e3/float64(b.N), unit)
}

// BenchmarkLoad submits to a broker without an engine: a task has one submission.
func BenchmarkLoad(b *testing.B) {
	cfg := Config{Dir: b.TempDir()}
	cfg.setDefaults()
	s, err := openBroker(b.Context(), &cfg)
	require.NoError(b, err)
	defer func() { require.NoError(b, s.close()) }()
	require.NoError(b, kafka.EnsureTopics(b.Context(), s.cluster, s.topics.Base(8)...))
	producer, err := kafka.NewProducer(s.cluster)
	require.NoError(b, err)
	defer producer.Close()
	l := newLoad(newNames("bench"), time.Now())
	l.producer, l.topic, l.partitions, l.limit, l.untilAck, l.due = producer, s.topics.Submissions(), 8, b.N, true, new(table[int64])
	b.ReportAllocs()
	b.ResetTimer()
	from := ownCPU()
	l.closed(b.Context(), nil, 1000)
	for l.acks.acked.Load()+l.acks.dropped.Load() < int64(b.N) {
		<-l.wake
	}
	reportCPU(b, from, "cpu-us/op")
	require.NoError(b, l.acks.refusal())
}

// BenchmarkWatcher writes facts with and without a watcher that reads them at the same time. The difference is the cost of the watcher. A
// task has 12 facts.
func BenchmarkWatcher(b *testing.B) {
	for _, watched := range []bool{false, true} {
		b.Run(map[bool]string{false: "without", true: "with"}[watched], func(b *testing.B) { writeFacts(b, watched) })
	}
}

func writeFacts(b *testing.B, watched bool) {
	cfg := Config{Dir: b.TempDir()}
	cfg.setDefaults()
	s, err := openBroker(b.Context(), &cfg)
	require.NoError(b, err)
	defer func() { require.NoError(b, s.close()) }()
	require.NoError(b, kafka.EnsureTopics(b.Context(), s.cluster, s.topics.Base(8)...))
	producer, err := kafka.NewProducer(s.cluster)
	require.NoError(b, err)
	defer producer.Close()
	n := newNames("bench")
	facts := encodeFacts(b, s.topics.Events(), n)
	w := newWatcher(n, time.Now(), new(table[int64]))
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	seen, done := 0, make(chan error, 1)
	w.each = func(*events.Record, int64) {
		if seen++; seen == b.N {
			stop()
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	from := ownCPU()
	if watched {
		go func() { done <- w.run(ctx, s.cluster, s.topics.Events(), 8) }()
	}
	answers := make(chan error, b.N)
	for i := range b.N {
		producer.Produce(b.Context(), facts[i], func(_ int32, _ int64, err error) { answers <- err })
	}
	for range b.N {
		require.NoError(b, <-answers)
	}
	if watched {
		require.NoError(b, <-done)
	}
	reportCPU(b, from, "cpu-us/op")
}

// encodeFacts makes b.N facts with the average size of a task's facts.
func encodeFacts(b *testing.B, topic string, n names) []events.Record {
	body := &events.StepCompleted{Step: "reserve", Attempt: 1, Output: []byte(`{"id":"r-order-bench-12345678"}`), Outcome: events.Outcome{
		Instance: "bench", ReadyAt: 1, StartedAt: 1, FinishedAt: 1,
	}}
	list := make([]events.Record, b.N)
	for i := range list {
		id := string(n.append(nil, i/12))
		f := events.Fact{
			Epoch: events.Epoch{N: 1, ID: "claim"}, Sequence: uint64(i), Time: events.At(time.Now()), Task: id,
			Cause: events.Cause("r/1/" + strconv.Itoa(i)), Body: body,
		}
		r, err := events.EncodeFact(&f, 0, "/sagalog/events/0/bench")
		require.NoError(b, err)
		r.Topic, r.Partition = topic, events.Home(id, 8)
		list[i] = r
	}
	return list
}
