package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/callback"
	"github.com/stretchr/testify/require"
)

const (
	// fuzzedWait cuts off requests that would wait or stream.
	fuzzedWait = 30 * time.Millisecond
	// fuzzedMost is far longer than any request may take; most take a millisecond.
	fuzzedMost = time.Minute
)

// FuzzRequest gives the whole handler arbitrary bytes as a request. The handler never panics and never answers 5xx. It
// refuses with a problem document, and answers everything else with JSON.
func FuzzRequest(f *testing.F) {
	for _, r := range requestSeeds() {
		f.Add([]byte(r))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return // net/http itself answers it
		}
		answered(t, r)
	})
}

// FuzzBulk sends arbitrary bytes as the lines of a bulk submission. Each line that is not empty gets a separate answer.
func FuzzBulk(f *testing.F) {
	f.Add([]byte("{\"id\":\"a\",\"workflow\":\"order\",\"input\":{\"item\":\"x\"}}\n\n[]\r\n{\"id\":\"a\",\"workflow\":\"nope\"}\nnull"))
	f.Add([]byte(strings.Repeat(`{"workflow":"order","input":{"item":"x"}}`+"\n", 20)))
	f.Add([]byte(strings.Repeat("x", 5000) + "\n{}\n" + `{"id":".","workflow":"order"}`))
	f.Fuzz(func(t *testing.T, lines []byte) {
		r := httptest.NewRequest("POST", "/v1/tasks", bytes.NewReader(lines))
		r.Header.Set("Content-Type", "application/x-ndjson")
		r.Host = "localhost"
		w := answered(t, r)
		if w.Code != http.StatusOK {
			return
		}
		answers := bytes.Count(w.Body.Bytes(), []byte("\n"))
		given := 0
		for _, l := range bytes.Split(lines, []byte("\n")) {
			if len(bytes.TrimSpace(l)) > 0 {
				given++
			}
		}
		require.LessOrEqual(t, answers, given+1, "%q", w.Body.String())
		for _, l := range bytes.Split(bytes.TrimSpace(w.Body.Bytes()), []byte("\n")) {
			require.True(t, len(l) == 0 || json.Valid(l), "%q", l)
		}
	})
}

// answered passes the request to a new engine that knows some tasks, and checks the properties that every answer must
// have.
func answered(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	handler := fuzzedHandler(t)
	ctx, cancel := context.WithTimeout(context.Background(), fuzzedWait)
	defer cancel()
	w := httptest.NewRecorder()
	began := time.Now()
	func() {
		defer func() {
			if v := recover(); v != nil {
				t.Fatalf("%s %s: the answer, which began with %d, is cut off: %v; its time is over: %v; the latest error in the log: %s", r.Method, r.URL, w.Code, v, ctx.Err(), fuzzedLog.text.Load())
			}
		}()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}()
	require.Less(t, time.Since(began), fuzzedMost)
	cut := ctx.Err() != nil
	switch kind := w.Header().Get("Content-Type"); {
	case w.Code >= 500:
		require.True(t, cut && w.Code != http.StatusInternalServerError, "%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
	case w.Code >= 400 && r.Method != http.MethodHead:
		require.Equal(t, "application/problem+json", kind, "%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
		var p api.Problem
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), w.Body.String())
		require.Equal(t, w.Code, p.Status)
		require.NotEmpty(t, p.Title)
		require.NotEmpty(t, p.Detail)
	case w.Code >= 300 && w.Code < 400:
		t.Fatalf("%s %s: a redirect, %d", r.Method, r.URL, w.Code)
	case kind == "application/json":
		require.True(t, json.Valid(w.Body.Bytes()), w.Body.String())
	}
	return w
}

// renewed is an engine that is replaced before each request, behind one handler, because creating a handler takes
// longer than a request.
type renewed struct{ *apitest.Engine }

var fuzzed = sync.OnceValues(func() (*renewed, http.Handler) {
	e := &renewed{apitest.New()}
	cfg := e.Config()
	cfg.Tasks, cfg.History, cfg.Rejections, cfg.Definitions, cfg.Appender, cfg.Cluster, cfg.DeadLetters, cfg.Demo = e, e, e, e, e, e, e, e
	cfg.Ready, cfg.Now = func() error { return e.Ready() }, func() time.Time { return e.Now() }
	cfg.Logger = slog.New(slog.NewTextHandler(&fuzzedLog, &slog.HandlerOptions{Level: slog.LevelError}))
	s, err := api.New(cfg)
	if err != nil {
		panic(err)
	}
	return e, s.Handler()
})

// fuzzedLog keeps the latest error that the engine logged: the answer of a handler that panicked does not say why.
var fuzzedLog latestLine

type latestLine struct{ text atomic.Value }

// Write implements io.Writer.
func (l *latestLine) Write(line []byte) (int, error) {
	l.text.Store(string(line))
	return len(line), nil
}

func fuzzedHandler(t *testing.T) http.Handler {
	t.Helper()
	e, handler := fuzzed()
	e.Engine = populated(t)
	return handler
}

// populated is an engine with a running task, an ended one, a parked one, and a dead letter.
func populated(t *testing.T) *apitest.Engine {
	t.Helper()
	e := apitest.New()
	for _, id := range []string{"runs", "ended", "a/b"} {
		e.Produce(context.Background(), events.Record{Topic: "test.submissions", Partition: events.Home(id, apitest.Partitions), Key: []byte(id), Value: []byte(good)}, func(int32, int64, error) {})
	}
	e.Bury(events.Submissions, events.Record{Partition: 1, Key: []byte("k"), Value: []byte("\xffno")}, events.RejectUnreadable)
	known, err := e.Task(context.Background(), "ended")
	require.NoError(t, err)
	require.NotNil(t, known)
	e.Finish("ended")
	e.Park("a/b", "why")
	return e
}

func requestSeeds() []string {
	get := func(path string, headers ...string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
	}
	send := func(method, path, kind, body string, headers ...string) string {
		head := method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1:8642\r\nContent-Type: " + kind + "\r\nContent-Length: " + jsonText(len(body)) + "\r\n"
		return head + strings.Join(append(headers, ""), "\r\n") + "\r\n" + body
	}
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	return []string{
		get("/v1/tasks/runs"), get("/v1/tasks/a%2Fb?wait=1ms"), get("/v1/tasks/none?token=AAAA&wait=5s"), get("/v1/tasks/" + strings.Repeat("x", 300)),
		get("/v1/tasks?state=pending&workflow=order&label=k:v&since=2026-11-21T14:00:00Z&until=x&limit=2&cursor=5"), get("/v1/tasks?limit=-1&nope=1"),
		get("/v1/tasks/ended/history?cursor=AA&limit=3"), get("/v1/tasks/ended/history", "Accept: text/event-stream", "Last-Event-ID: 1/5"),
		get("/v1/tasks/runs/history", "Accept: text/event-stream", "Last-Event-ID: -9"), get("/v1/workflows/order?version=1"), get("/v1/workflows/order?version=x"),
		get("/v1/agents"), get("/v1/partitions"), get("/v1/dead-letters?cursor=e30"), get("/v1/dead-letters/s-1-0"), get("/openapi.yaml"), get("/metrics"), get("/readyz"),
		get("//v1/../tasks"), get("/v1/tasks/", "X-Sagalog-Forwarded: node-b"), "HEAD /v1/tasks HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		send("PUT", "/v1/tasks/new", "application/json", good), send("PUT", "/v1/tasks/runs", "application/json", `{"workflow":"order","input":{"item":"other"}}`),
		send("PUT", "/v1/tasks/%2e", "application/json", good), send("PUT", "/v1/tasks/new", "text/plain", good), send("POST", "/v1/tasks", "application/json", good),
		send("POST", "/v1/tasks", "application/json", `{"workflow":"order","inptu":{},"deadline":"soon","labels":{"a":1}}`),
		send("POST", "/v1/tasks", "application/json", `{"workflow":"order","input":`+deep+`}`), send("POST", "/v1/tasks", "application/json", `{"workflow":"`+strings.Repeat("x", 5000)+`"}`),
		send("POST", "/v1/tasks", "application/x-ndjson", good+"\n{\n"+good), send("POST", "/v1/tasks/runs/cancel", "application/json", `{"reason":"r"}`, "Idempotency-Key: q1"),
		send("POST", "/v1/tasks/a%2Fb/retry", "application/json", `{"step":"reserve","reason":7}`, "Idempotency-Key: \xff"), send("POST", "/v1/tasks/none/retry", "", ""),
		send("PUT", "/v1/workflows/order", "application/yaml", "workflow: order\nsteps: {a: {agent: a}}"), send("PUT", "/v1/workflows/other", "application/json", `{"workflow":"order"}`),
		send("POST", "/v1/workflows/order/preview", "application/json", `{"input":{"item":"x"},"id":"a/b","version":1}`), send("POST", "/v1/workflows/order/preview", "application/json", `{"input":`+deep+`}`),
		send("POST", "/v1/reports/"+aTicket(), "application/json", `{"output":{"a":1}}`), send("POST", "/v1/reports/"+aTicket(), "application/json", `{"error":{"message":"x"},"effect":"none"}`),
		send("POST", "/v1/reports/AAAA", "application/json", `{"progress":`+deep+`}`), send("POST", "/v1/dead-letters/s-1-0/redrive", "", ""), send("POST", "/v1/dead-letters/s-1-0/dismiss", "application/json", `{"reason":"x"}`), send("POST", "/v1/dead-letters/s-1-0/reopen", "", ""), send("POST", "/v1/demo/break", "application/json", `{"service":"drone","mode":"slow","for":"1s"}`),
		send("PUT", "/v1/tasks/x", "application/json", good, "Origin: https://example.org", "Sec-Fetch-Site: cross-site"),
	}
}

func aTicket() string {
	x := callback.Ticket{Task: "runs", Run: 1, Step: "reserve", Operation: events.Do, Attempt: 1, Incarnation: "1"}
	text, err := apitest.Callbacks().Sign(x, x.Key(uuid.MustParse(apitest.NamespaceID)))
	if err != nil {
		panic(err)
	}
	return text
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
