package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

// nowhere is a log that acknowledges everything at once and keeps nothing, so that a benchmark measures only
// the API.
type nowhere struct{ offset atomic.Int64 }

// Produce implements api.Appender.
func (n *nowhere) Produce(_ context.Context, r events.Record, done func(int32, int64, error)) {
	done(r.Partition, n.offset.Add(1), nil)
}

// ProduceBatch implements api.Appender.
func (n *nowhere) ProduceBatch(_ context.Context, records []events.Record, done func(int, int32, int64, error)) {
	for i := range records {
		done(i, records[i].Partition, n.offset.Add(1), nil)
	}
}

func intoNowhere(c *api.Config) { c.Appender, c.Now = new(nowhere), time.Now }

// submissionBody is what clients send: some hundred bytes.
func submissionBody(id string) string {
	if id != "" {
		id = `"id":"` + id + `",`
	}
	return `{` + id + `"workflow":"order","input":{"item":"lamp","customer":"c-17","amount":12.5},"labels":{"region":"north"}}`
}

// discard is a response writer that discards the answer.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// One operation is one submission by PUT, in the handler alone.
func BenchmarkPutHandler(b *testing.B) {
	cfg := apitest.New().Config()
	intoNowhere(&cfg)
	s, err := api.New(cfg)
	require.NoError(b, err)
	body, text := submissionBody(""), strings.NewReader("")
	r, err := http.NewRequest("PUT", "http://localhost/v1/tasks/order-123456", io.NopCloser(text))
	require.NoError(b, err)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(body))
	h, w := s.Handler(), &discard{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		text.Reset(body)
		clear(w.header)
		h.ServeHTTP(w, r)
		if w.status != http.StatusAccepted {
			b.Fatal(w.status)
		}
	}
}

// One operation is one line of a bulk submission, in the handler alone.
func BenchmarkBulkHandler(b *testing.B) {
	cfg := apitest.New().Config()
	intoNowhere(&cfg)
	s, err := api.New(cfg)
	require.NoError(b, err)
	r, err := http.NewRequest("POST", "http://localhost/v1/tasks", &linesOf{left: b.N})
	require.NoError(b, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	b.ResetTimer()
	s.Handler().ServeHTTP(w, r)
}

// linesOf is a body with `left` submissions, one on each line.
type linesOf struct {
	left, n int
	rest    []byte
}

// Read implements io.Reader.
func (l *linesOf) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.left == 0 {
			return 0, io.EOF
		}
		l.rest = l.rest[:0]
		for range min(l.left, 500) {
			l.rest = append(append(l.rest, submissionBody("order-"+strconv.Itoa(l.n))...), '\n')
			l.left--
			l.n++
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *linesOf) Close() error { return nil }

// One operation is one submission by PUT through the sockets of 64 clients. The log is in memory.
func BenchmarkPutSocket(b *testing.B) {
	url := apitest.New().Serve(b, intoNowhere)
	b.ReportAllocs()
	b.ResetTimer()
	load{addr: strings.TrimPrefix(url, "http://"), connections: 64, total: b.N}.run(b)
}

// load submits one task after another over connections that stay open. It writes requests and reads answers directly,
// because a full HTTP client costs as much as the server under test.
type load struct {
	addr        string
	connections int
	total       int
	// prefix distinguishes the IDs of several loads.
	prefix string
	// body returns the body of each submission; the default is submissionBody.
	body func() string
	// waits, if set, receives how long each answer took.
	waits *waits
}

// waits collects how long answers took.
type waits struct {
	mu   sync.Mutex
	list []time.Duration
}

func (l load) run(b testing.TB) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range l.connections {
		wait.Go(func() {
			if err := l.connection(&next); err != nil {
				b.Error(err)
			}
		})
	}
	wait.Wait()
}

func (l load) connection(next *atomic.Int64) error {
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	body := submissionBody("")
	if l.body != nil {
		body = l.body()
	}
	var out []byte
	var took []time.Duration
	for {
		n := next.Add(1)
		if n > int64(l.total) {
			break
		}
		out = fmt.Appendf(out[:0], "PUT /v1/tasks/%s%d HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", l.prefix, n, len(body), body)
		began := time.Now()
		if _, err := conn.Write(out); err != nil {
			return err
		}
		if err := readAnswer(in); err != nil {
			return err
		}
		if l.waits != nil {
			took = append(took, time.Since(began))
		}
	}
	if l.waits != nil {
		l.waits.mu.Lock()
		l.waits.list = append(l.waits.list, took...)
		l.waits.mu.Unlock()
	}
	return nil
}

// readAnswer reads one answer, which must be 202.
func readAnswer(in *bufio.Reader) error {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(status), "HTTP/1.1 202 ") {
		return errors.New(string(status))
	}
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if v, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(v)); err != nil {
				return err
			}
		}
	}
	_, err = in.Discard(length)
	return err
}
