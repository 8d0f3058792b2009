package api_test

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// BenchmarkOpenStreams sends a change of one task to as many streams as a node takes. An iteration is a frame, so it lasts a second. CPU and
// memory are those of the server and its clients in this process.
func BenchmarkOpenStreams(b *testing.B) {
	e := apitest.New()
	url, stop := e.Start(b)
	defer stop()
	w := &world{t: nil, engine: e, url: url}
	before := inUse()
	var got atomic.Int64
	var readers sync.WaitGroup
	var conns []net.Conn
	for range api.DefaultLiveStreams {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		require.NoError(b, err)
		conns = append(conns, conn)
		fmt.Fprint(conn, "GET /v1/stream?topics=tasks,counts HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
		readers.Go(func() {
			chunk := make([]byte, 4096)
			for {
				n, err := conn.Read(chunk)
				if err != nil {
					return
				}
				got.Add(int64(bytes.Count(chunk[:n], []byte("event: open")) + bytes.Count(chunk[:n], []byte("event: task"))))
			}
		})
	}
	await := func(n int64) {
		for got.Load() < n {
			time.Sleep(time.Millisecond)
		}
	}
	await(api.DefaultLiveStreams)
	memory := inUse() - before
	e.Submit("x")
	await(2 * api.DefaultLiveStreams)
	began, sent := cpu(), int64(2)
	for b.Loop() {
		e.Change("x", &events.StepStarted{Step: "reserve"}, func(*events.Task) {})
		sent++
		await(sent * api.DefaultLiveStreams)
	}
	b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N)/api.DefaultLiveStreams, "cpu-µs/stream/frame")
	b.ReportMetric(float64(memory)/api.DefaultLiveStreams, "B/stream")
	for _, c := range conns {
		c.Close()
	}
	readers.Wait()
}

// inUse is the memory of heap and stacks.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// cpu is the CPU time that this process used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
