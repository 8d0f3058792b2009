package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/sagalogtest"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
)

// wire is what is at the other end of a client's connections, in a bubble.
type wire struct {
	*client.Engine
	// answer returns what is written to the nth connection after its request. Then nothing more comes, and the connection stays open.
	answer func(n int32) string
	// dialled counts the connections, and key is the ID of the latest request.
	dialled atomic.Int32
	key     atomic.Value
}

// wired runs a test in a bubble. The client does not repeat calls if retryFor is negative.
func wired(t *testing.T, retryFor time.Duration, answer func(n int32) string, test func(t *testing.T, w *wire)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: answer}
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go w.serve(there, w.dialled.Add(1))
			return here, nil
		}}
		defer transport.CloseIdleConnections()
		var err error
		w.Engine, err = client.OpenWith(client.HTTPConfig{URL: "http://engine", RetryFor: retryFor, Client: &http.Client{Transport: transport}})
		require.NoError(t, err)
		test(t, w)
	})
}

func (w *wire) serve(conn net.Conn, n int32) {
	defer conn.Close()
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.key.Store(r.Header.Get("Idempotency-Key"))
	_, _ = io.WriteString(conn, w.answer(n))
	_, _ = io.Copy(io.Discard, conn) // until the client hangs up
}

// reply is a whole answer, after which the connection is not used again.
func reply(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// A stopped process, or a proxy that lost its engine, keeps the connection and never answers.
func TestNoCallWaitsForEverForItsAnswer(t *testing.T) {
	wired(t, -1, func(int32) string { return "" }, func(t *testing.T, w *wire) {
		ctx := context.Background()
		for name, try := range map[string]func() error{
			"Submit": func() error { _, err := w.Submit(ctx, submission("o-1")); return err },
			"SubmitAll": func() error {
				return w.SubmitAll(ctx, []client.Submission{submission("o-1"), submission("o-2")})[1].Err
			},
			"Run":  func() error { _, err := w.Run(ctx, submission("o-1")); return err },
			"Send": func() error { _, err := w.Send(ctx, "o-1", client.Signal{Name: "go"}); return err },
			"Get":  func() error { _, err := w.Get(ctx, "o-1"); return err },
		} {
			began := time.Now()
			require.ErrorIs(t, try(), client.ErrUnavailable, name)
			require.LessOrEqual(t, time.Since(began), time.Minute, name)
		}
	})
}

func TestASubmissionIsSentAgainAfterATryWithoutAnswer(t *testing.T) {
	wired(t, time.Second, func(n int32) string {
		if n == 1 {
			return ""
		}
		return reply("202 Accepted", `{"id":"o-1","partition":1,"offset":70}`)
	}, func(t *testing.T, w *wire) {
		r, err := w.Submit(context.Background(), submission("o-1"))
		require.NoError(t, err)
		require.Equal(t, client.Receipt{ID: "o-1", Partition: 1, Offset: 70}, r)
		require.EqualValues(t, 2, w.dialled.Load())
	})
}

// The answers to some lines came, and then no more.
func TestAHalfAnsweredBatchEnds(t *testing.T) {
	wired(t, -1, func(int32) string {
		return "HTTP/1.1 200 OK\r\n\r\n" + `{"line":1,"id":"o-1","status":202,"partition":1,"offset":70}` + "\n"
	}, func(t *testing.T, w *wire) {
		got := w.SubmitAll(context.Background(), []client.Submission{submission("o-1"), submission("o-2")})
		require.NoError(t, got[0].Err)
		require.EqualValues(t, 70, got[0].Offset)
		require.ErrorIs(t, got[1].Err, client.ErrUnavailable)
	})
}

// Success is not what any server says that answers JSON.
func TestAReceiptNamesItsTask(t *testing.T) {
	wired(t, -1, func(int32) string { return reply("200 OK", `{"state":"up"}`) }, func(t *testing.T, w *wire) {
		_, err := w.Submit(context.Background(), submission("o-1"))
		require.ErrorIs(t, err, client.ErrUnavailable)
	})
}

// A signal without an answer can be sent again as the same request.
func TestAnUnansweredSignalKeepsItsRequestID(t *testing.T) {
	wired(t, -1, func(int32) string { return "" }, func(t *testing.T, w *wire) {
		r, err := w.Send(context.Background(), "o-1", client.Signal{Name: "go"})
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.Len(t, r.RequestID, 36)
		require.Equal(t, w.key.Load(), r.RequestID)
		require.ErrorContains(t, err, r.RequestID)
	})
}

// front is a proxy before an engine. It asks the engine not to wait for requests to be judged, so that clients read what became of them, and
// answers the next reads itself, each with one of these texts and 404.
func front(t *testing.T, e *sagalogtest.Engine, reads ...string) *client.Engine {
	t.Helper()
	transport := &http.Transport{}
	var left atomic.Int32
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(e.URL())
		r.SetURL(to)
		if r.Out.Method == http.MethodPost {
			r.Out.URL.RawQuery = ""
		}
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if n := int(left.Add(1)); n <= len(reads) {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, reads[n-1])
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	c, err := client.Open(s.URL)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		s.Close()
		transport.CloseIdleConnections()
	})
	return c
}

const (
	// pageNotFound is of a proxy, and taskNotFound of an engine.
	pageNotFound = "<html>404</html>"
	taskNotFound = `{"type":"urn:sagalog:problem:not-found","status":404,"detail":"No task with this ID is known."}`
)

// A request is held if an engine says that its task is not known. The page of a proxy does not say that.
func TestOnlyAnEngineSaysThatARequestIsHeld(t *testing.T) {
	t.Parallel()
	e := sagalogtest.Start(t)
	e.Apply("workflow: hold\nsteps:\n  wait: {wait: {signal: go}}\n")
	e.Apply("workflow: twice\nsteps:\n  one: {wait: {signal: go}}\n  two: {needs: [one], wait: {signal: go}}\n")
	for _, s := range []client.Submission{{ID: "o-1", Workflow: "twice"}, {ID: "o-2", Workflow: "hold"}, {ID: "o-3", Workflow: "hold"}} {
		r, err := e.Client().Submit(t.Context(), s)
		require.NoError(t, err)
		_, err = e.Client().Accepted(t.Context(), r)
		require.NoError(t, err)
	}
	g, err := front(t, e, pageNotFound).Signal(t.Context(), "o-1", client.Signal{Name: "go"})
	require.NoError(t, err)
	require.False(t, g.Held)
	require.Equal(t, client.StateProcessing, g.State)
	g, err = front(t, e, pageNotFound, pageNotFound).Cancel(t.Context(), "o-2", client.Request{})
	require.NoError(t, err)
	require.False(t, g.Held)
	require.NotEmpty(t, g.State)

	g, err = front(t, e, taskNotFound).Cancel(t.Context(), "o-3", client.Request{})
	require.NoError(t, err)
	require.True(t, g.Held)
	_, err = front(t, e, taskNotFound).Pause(t.Context(), "o-1", client.Request{})
	require.ErrorIs(t, err, client.ErrNotFound)
}

// The node stops while a client waits for a task that comes later. It says at once that it does not know the task.
func TestAWaitForAnUnknownTaskOutlivesARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := sagalogtest.Start(t)
		e.Apply("workflow: one\nsteps:\n  only: {agent: worker}\n")
		reg := agent.NewRegistry()
		agent.Handle(reg, "worker", func(context.Context, any) (any, error) { return nil, nil })
		e.Serve(reg)
		var task *client.Task
		var err error
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			task, err = e.Client().Wait(t.Context(), "o-1")
		}()
		synctest.Wait() // until the engine waits too
		e.Restart()
		_, submitted := e.Client().Submit(t.Context(), client.Submission{ID: "o-1", Workflow: "one", Input: json.RawMessage(`1`)})
		require.NoError(t, submitted)
		<-waited
		require.NoError(t, err)
		require.Equal(t, client.StateProcessed, task.State)
	})
}

// What an engine refuses is not waited for.
func TestAWaitEndsWithARefusal(t *testing.T) {
	const problem = `{"type":"urn:sagalog:problem:forbidden","status":403}`
	wired(t, -1, func(int32) string { return reply("403 Forbidden", problem) }, func(t *testing.T, w *wire) {
		_, err := w.Wait(context.Background(), "o-1")
		require.ErrorIs(t, err, client.ErrForbidden)
		require.EqualValues(t, 1, w.dialled.Load())
	})
}

// A task that is not known for half a minute is not waited for any longer, and an end of the context is not taken for its absence.
func TestAWaitForATaskThatNeverComesEnds(t *testing.T) {
	wired(t, -1, func(int32) string { return reply("404 Not Found", taskNotFound) }, func(t *testing.T, w *wire) {
		began := time.Now()
		_, err := w.Wait(context.Background(), "o-1")
		require.ErrorIs(t, err, client.ErrNotFound)
		require.GreaterOrEqual(t, time.Since(began), 30*time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = w.Wait(ctx, "o-1")
		require.ErrorIs(t, err, client.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, client.ErrNotFound)
	})
}
