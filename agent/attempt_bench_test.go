package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
)

// Benchmarks of one attempt: Poll returns the record, a worker calls the function, and the report reaches the Sink. They also
// show the processor time, which matters when attempts wait.

func BenchmarkAttempt(b *testing.B) {
	instant := func(_ context.Context, in parcel) (parcel, error) { return in, nil }
	timed := func(ctx context.Context, in parcel) (parcel, error) {
		t := time.NewTimer(10 * time.Millisecond)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return in, nil
	}
	guards := []agent.Option{agent.WithBreaker(agent.Breaker{}), agent.WithRetry(agent.DefaultRetry)}
	for name, c := range map[string]struct {
		fn      func(context.Context, parcel) (parcel, error)
		options []agent.Option
	}{
		"returns at once":    {instant, nil},
		"breaker and retry":  {instant, guards},
		"waits for its time": {timed, nil},
	} {
		b.Run(name, func(b *testing.B) {
			benchmarkAttempts(b, handle(c.fn, append(c.options, agent.Concurrency(512))...))
		})
	}
}

func BenchmarkAttemptOverHTTP(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"id":"p-1"}`))
	}))
	defer server.Close()
	env := map[string]string{"URL": server.URL, "TOKEN": "secret-token"}
	bindings, err := httpagent.Parse("package.yaml", []byte(`
agent: package
http:
  base: "${ env.URL }"
  concurrency: 64
  headers: {Authorization: "Bearer ${ env.TOKEN }"}
do: {method: PUT, path: "/api/packages/${ input.id }", body: "${ input }"}
`), func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	require.NoError(b, err)
	defer bindings[0].Close()
	r := agent.NewRegistry()
	bindings[0].Register(r)
	benchmarkAttempts(b, r)
}

func benchmarkAttempts(b *testing.B, r *agent.Registry) {
	source, sink := newBenchSource(b), newBenchSink()
	defer sink.stop()
	runner, err := agent.NewRunner(r, agent.Config{
		Instance: "bench-1", Sink: sink, Sources: map[string]transport.Source{"package": source},
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	source.left = b.N
	sink.expect(b.N)
	b.ReportAllocs()
	began := processorTime(b)
	b.ResetTimer()
	go func() { ended <- runner.Run(ctx) }()
	<-sink.all
	b.StopTimer()
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
	cancel()
	require.NoError(b, <-ended)
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const benchPartitions = 8

// benchSource never runs out of requests. They belong to more tasks than are ever held at once. A poll returns at most as many
// as a real fetch.
type benchSource struct {
	records []events.Record
	next    [benchPartitions]int64
	at      int
	left    int
}

func newBenchSource(b *testing.B) *benchSource {
	s := &benchSource{}
	for i := range 1 << 16 {
		task := fmt.Sprintf("order-%d", i)
		r, err := events.EncodeWork(events.Work{
			Task: task, Run: 1, Workflow: "bench", Version: 1, Step: "package", Agent: "package", Operation: events.Do, Attempt: 1,
			IdempotencyKey: "5f0c4d3e-0000-5000-8000-000000000000", CompleteBy: events.At(time.Now().Add(time.Hour)),
			Input: json.RawMessage(`{"id":"` + task + `"}`), Home: int32(i % benchPartitions), Ticket: "17",
		}, events.Subject{ID: task + `[1,"package","do",1]`, Source: "sagalog/bench", Time: events.At(time.Now())})
		require.NoError(b, err)
		r.Partition = int32(i % benchPartitions)
		s.records = append(s.records, r)
	}
	return s
}

func (s *benchSource) Poll(ctx context.Context, most int) ([]events.Record, error) {
	n := min(most, s.left, 100)
	if n == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	out := make([]events.Record, n)
	for i := range out {
		out[i] = s.records[s.at%len(s.records)]
		s.at++
		out[i].Offset = s.next[out[i].Partition]
		s.next[out[i].Partition]++
	}
	s.left -= n
	return out, nil
}

func (s *benchSource) Assigned(int32) transport.Assigned {
	return transport.Assigned{Position: transport.Position{Assignment: 1}}
}

func (s *benchSource) Confirm(context.Context) (map[int32]int64, error) {
	held := make(map[int32]int64, benchPartitions)
	for p := range int32(benchPartitions) {
		held[p] = 1
	}
	return held, nil
}

func (s *benchSource) Commit(_ context.Context, positions map[int32]transport.Position) (map[int32]transport.Position, error) {
	return positions, nil
}

var benchAssigned = []int32{0, 1, 2, 3, 4, 5, 6, 7}

func (s *benchSource) Partitions() []int32 { return benchAssigned }

// benchSink acknowledges all waiting records at once from its own goroutine, as a producer does.
type benchSink struct {
	// mu guards the fields below.
	mu      sync.Mutex
	waiting []func(error)
	left    int
	wake    chan struct{}
	all     chan struct{}
	ended   chan struct{}
}

func newBenchSink() *benchSink {
	s := &benchSink{wake: make(chan struct{}, 1), all: make(chan struct{}), ended: make(chan struct{})}
	go s.answer()
	return s
}

func (s *benchSink) expect(n int) { s.left = n }

func (s *benchSink) stop() { close(s.wake); <-s.ended }

func (s *benchSink) Produce(_ context.Context, r events.Record, done func(error)) {
	if r.Topic != "sagalog.reports" {
		done(nil)
		return
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, done)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *benchSink) answer() {
	defer close(s.ended)
	var batch []func(error)
	for range s.wake {
		s.mu.Lock()
		batch, s.waiting = s.waiting, batch[:0]
		s.left -= len(batch)
		last := s.left == 0 && len(batch) > 0
		s.mu.Unlock()
		for _, done := range batch {
			done(nil)
		}
		if last {
			close(s.all)
		}
	}
}
