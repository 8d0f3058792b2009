package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

type event struct{ id, name, data string }

type stream struct {
	t      *testing.T
	resp   *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
	// last is the ID of the last event, and had the names of all, where a test asks.
	last string
	had  []string
	// lists says that the client lists again when the stream asks it to.
	lists bool
}

func (w *world) follow(path string, headers ...string) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", w.url+path, nil)
	require.NoError(w.t, err)
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.client.Do(r)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { cancel(); resp.Body.Close() })
	return &stream{t: w.t, resp: resp, lines: bufio.NewScanner(resp.Body), cancel: cancel}
}

// next returns the next event, or ok false at the end of the stream.
func (s *stream) next() (e event, ok bool) {
	for s.lines.Scan() {
		k, v, _ := strings.Cut(s.lines.Text(), ": ")
		switch {
		case k == "id":
			e.id = v
		case k == "event":
			e.name = v
		case k == "data":
			e.data = v
		case s.lines.Text() == "" && e.name != "":
			return e, true
		}
	}
	return e, false
}

func TestAHistoryIsReadInPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	w.engine.Change("x", &events.StepStarted{Step: "reserve", Attempt: 1}, func(*events.Task) {})
	w.engine.Change("x", &events.StepCompleted{Step: "reserve", Attempt: 1}, func(*events.Task) {})
	page := w.do("GET", "/v1/tasks/x/history?limit=2", "").json(t)
	list := page["events"].([]any)
	require.Len(t, list, 2)
	second := list[1].(map[string]any)
	home := float64(events.Home("x", apitest.Partitions))
	require.Equal(t, map[string]any{"partition": home, "offset": 1.0, "time": "2026-11-21T14:00:03.000Z", "type": "StepStarted", "epoch": "1-e",
		"sequence": 1.0, "owner": "node-a", "step": "reserve", "attempt": 1.0, "text": second["text"], "data": second["data"]}, second)
	require.Contains(t, second["text"], `step "reserve" starts, by agent `)
	require.Regexp(t, `^s/\d/0$`, list[0].(map[string]any)["cause"])
	rest := w.do("GET", "/v1/tasks/x/history?limit=2&cursor="+page["next"].(string), "").json(t)
	require.Len(t, rest["events"], 1)
	require.NotContains(t, rest, "next")
	require.Equal(t, 404, w.do("GET", "/v1/tasks/none/history", "").status)
	require.Equal(t, 422, w.do("GET", "/v1/tasks/x/history?cursor=zz", "").status)
	require.Equal(t, 404, w.do("GET", "/v1/tasks/none/history", "", "Accept", "text/event-stream").status)
}

func TestAStreamFollowsATaskToItsEndAndResumes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/a%2Fb", good)
	s := w.follow("/v1/tasks/a%2Fb/history")
	require.Equal(t, "text/event-stream", s.resp.Header.Get("Content-Type"))
	first, ok := s.next()
	require.True(t, ok)
	require.Equal(t, "Submitted", first.name)
	w.engine.Change("a/b", &events.StepStarted{Step: "reserve"}, func(*events.Task) {})
	second, _ := s.next()
	require.Equal(t, "StepStarted", second.name)
	s.cancel()

	w.engine.Finish("a/b")
	s = w.follow("/v1/tasks/a%2Fb/history", "Last-Event-ID", second.id)
	last, _ := s.next()
	require.Equal(t, "TaskProcessed", last.name)
	end, _ := s.next()
	require.Equal(t, event{name: "end", data: `{"state":"processed"}`}, end)
	_, ok = s.next()
	require.False(t, ok)

	again := w.do("GET", "/v1/tasks/a%2Fb/history", "", "Accept", "text/event-stream", "Last-Event-ID", last.id)
	require.Equal(t, 204, again.status, "204 makes a browser stop asking")
}

func TestAStreamStaysOpenWhileATaskIsParked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/x", good)
	w.engine.Park("x", "why")
	s := w.follow("/v1/tasks/x/history")
	s.next()
	parked, _ := s.next()
	require.Equal(t, "TaskParked", parked.name)
	w.engine.Finish("x")
	done, ok := s.next()
	require.True(t, ok)
	require.Equal(t, "TaskProcessed", done.name)
}

func TestASilentStreamIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := apitest.New()
		conn, stop := serveOnPipe(t, e)
		defer stop()
		read := bufio.NewReader(conn)
		fmt.Fprintf(conn, "PUT /v1/tasks/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(good), good)
		resp, err := http.ReadResponse(read, nil)
		require.NoError(t, err)
		io.Copy(io.Discard, resp.Body)
		conn.Write([]byte("GET /v1/tasks/x/history HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"))
		resp, err = http.ReadResponse(read, nil)
		require.NoError(t, err)
		lines := bufio.NewScanner(resp.Body)
		start := time.Now()
		for lines.Scan() && lines.Text() != ": still here" {
		}
		require.Equal(t, 15*time.Second, time.Since(start))
	})
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *api.Config) { c.Streams = 1 })
	require.Equal(t, 202, w.do("PUT", "/v1/tasks/x", good).status)
	first := w.follow("/v1/tasks/x/history")
	require.Equal(t, 200, first.resp.StatusCode)
	second := w.do("GET", "/v1/tasks/x/history", "", "Accept", "text/event-stream")
	require.Equal(t, 503, second.status, second.body)
	require.Equal(t, "5", second.header.Get("Retry-After"))
	require.Contains(t, second.body, "Read this one in pages")
	require.Equal(t, 200, w.do("GET", "/v1/tasks/x/history", "").status, "a page needs no stream")
	first.cancel()
	for { // the server learns of it later
		again := w.follow("/v1/tasks/x/history")
		if again.resp.StatusCode == 200 {
			break
		}
		again.cancel()
	}
}

func TestAStopEndsStreamsAndWaitsQuickly(t *testing.T) {
	t.Parallel()
	e := apitest.New()
	url, stop := e.Start(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	w := &world{t: t, engine: e, url: url, client: &http.Client{Transport: transport}}
	w.do("PUT", "/v1/tasks/x", good)
	s := w.follow("/v1/tasks/x/history")
	s.next()
	got := make(chan reply)
	watched := e.Watched()
	go func() { got <- w.do("GET", "/v1/tasks/x?wait=60s", "") }()
	<-watched
	start := time.Now()
	stop()
	require.Less(t, time.Since(start), soon)
	<-got
}
