package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// orders has a schema, as most workflows do, and an agent that does not exist, so submissions are accepted and wait.
const orders = `
workflow: order
input:
  type: object
  required: [item]
  properties:
    item: {type: string}
    customer: {type: string}
    amount: {type: number, minimum: 0}
steps:
  reserve: {agent: nobody, with: {item: "${ input.item }"}}
`

// BenchmarkNode submits to a whole node: API, owners, Pebble, an embedded broker on disk, and the load generator, all
// in this process. One operation is one submission that is in the log. cpu-us/op is the CPU time of the whole process
// for it, including the owners' reads and the load generator.
func BenchmarkNode(b *testing.B) {
	for _, connections := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("put/connections=%d", connections), func(b *testing.B) {
			addr := serveNode(b)
			load{addr: addr, connections: connections, total: 2000, prefix: "warm-"}.run(b)
			var took waits
			measure(b, func() { load{addr: addr, connections: connections, total: b.N, waits: &took}.run(b) })
			took.report(b)
		})
	}
	for _, streams := range []int{1, 4} {
		b.Run(fmt.Sprintf("ndjson/streams=%d", streams), func(b *testing.B) {
			addr := serveNode(b)
			bulkLoad(b, addr, "warm", 2000)
			measure(b, func() {
				var g errgroup.Group
				for i := range streams {
					n := b.N / streams
					if i == 0 {
						n += b.N % streams
					}
					g.Go(func() error { bulkLoad(b, addr, fmt.Sprint(i), n); return nil })
				}
				require.NoError(b, g.Wait())
			})
		})
	}
}

// serveNode runs a node until the benchmark ends, and returns its address.
func serveNode(b *testing.B) string {
	c := kafkatest.Connect(b, kafkatest.StartBroker(b, embedded.Config{Dir: b.TempDir()}))
	ctx, cancel := context.WithCancel(context.Background())
	n, err := node.Open(ctx, node.Config{Cluster: c, Name: "bench", Dir: b.TempDir(), Alone: true, HTTP: "127.0.0.1:0"})
	require.NoError(b, err)
	_, faults, err := n.ApplyFile(ctx, "order.yaml", []byte(orders), nil)
	require.NoError(b, err)
	require.Empty(b, faults)
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	b.Cleanup(func() { cancel(); require.NoError(b, <-ended) })
	return n.Addr()
}

// measure reports the processor time and the allocations of the whole process for each operation.
func measure(b *testing.B, run func()) {
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime()
	run()
	b.ReportMetric(float64((processorTime()-before).Nanoseconds())/1000/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "submissions/s")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (w *waits) report(b *testing.B) {
	slices.Sort(w.list)
	if n := len(w.list); n > 0 {
		b.ReportMetric(float64(w.list[n/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(w.list[n*99/100].Microseconds())/1000, "p99-ms")
	}
}

// bulkLoad submits n lines in one request and reads an answer for each.
func bulkLoad(b *testing.B, addr, prefix string, n int) {
	body, in := io.Pipe()
	go func() {
		var chunk []byte
		for i := range n {
			chunk = fmt.Appendf(chunk, "%s\n", submissionBody(fmt.Sprintf("%s-%d", prefix, i)))
			if len(chunk) > 64<<10 {
				_, _ = in.Write(chunk)
				chunk = chunk[:0]
			}
		}
		_, _ = in.Write(chunk)
		in.Close()
	}()
	r, err := http.NewRequest("POST", "http://"+addr+"/v1/tasks", body)
	require.NoError(b, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	transport := &http.Transport{WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	require.NoError(b, err)
	defer resp.Body.Close()
	count := &counter{word: []byte(`"status":202`)}
	_, err = io.Copy(count, resp.Body)
	require.NoError(b, err)
	require.Equal(b, n, count.lines)
	require.Equal(b, n, count.words)
}

// counter counts the lines, and the occurrences of a word, in everything that is written to it.
type counter struct {
	word         []byte
	rest         []byte
	lines, words int
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	end := bytes.LastIndexByte(c.rest, '\n') + 1
	c.lines += bytes.Count(c.rest[:end], []byte("\n"))
	c.words += bytes.Count(c.rest[:end], c.word)
	c.rest = append(c.rest[:0], c.rest[end:]...)
	return len(p), nil
}
