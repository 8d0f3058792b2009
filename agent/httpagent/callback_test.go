package httpagent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/callback"
)

const (
	callbackBase = "https://sagalog.example/engine"
	callbackKey  = "0123456789abcdef0123456789abcdef"
	accepting    = `
agent: job
http: {base: "${ env.BASE }"}
do:   {method: POST, path: "/jobs/${ input.id }", body: "${ input }", accepted: [202]}
undo: {method: DELETE, path: "/jobs/${ input.id }", accepted: [202, 204]}
`
)

// accept runs a binding whose service may report later.
func accept(t *testing.T, binding string, h http.HandlerFunc) *agenttest.Harness {
	t.Helper()
	base := serve(t, h)
	all, err := httpagent.Parse("job.yaml", []byte(binding), func(string) (string, bool) { return base, true })
	require.NoError(t, err)
	c, err := httpagent.NewCallback(httpagent.CallbackConfig{URL: callbackBase + "/", Key: callbackKey})
	require.NoError(t, err)
	all[0].SetCallback(c)
	r := agent.NewRegistry()
	all[0].Register(r)
	t.Cleanup(all[0].Close)
	return agenttest.Start(t, r)
}

func ticketOf(t *testing.T, url string) callback.Ticket {
	t.Helper()
	text, ok := strings.CutPrefix(url, callbackBase+"/v1/reports/")
	require.True(t, ok, url)
	k, err := callback.NewKeys(callbackKey)
	require.NoError(t, err)
	ticket, ok := k.Open(uuid.Nil.String(), text)
	require.True(t, ok)
	return ticket
}

func TestAnAcceptedCallIsNotReported(t *testing.T) {
	t.Parallel()
	for op, code := range map[events.Operation]int{events.Do: 202, events.Undo: 204} {
		headers := make(chan http.Header, 1)
		h := accept(t, accepting, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			headers <- r.Header
		})
		w := h.Work("job", op, map[string]any{"id": "1"})
		w.Attempt = 3
		before := events.At(time.Now())
		h.Send(w)
		ticket := ticketOf(t, (<-headers).Get("Sagalog-Callback"))
		require.GreaterOrEqual(t, ticket.StartedAt, before)
		ticket.StartedAt = 0
		require.Equal(t, callback.Ticket{Task: w.Task, Run: 1, Step: "step", Operation: op, Attempt: 3, Incarnation: w.Ticket}, ticket)
		require.Eventually(t, func() bool { return h.Sources["job"].Committed()[0] == 1 }, 20*time.Second, time.Millisecond)
		require.NoError(t, h.Stop())
		require.Empty(t, h.Reports())
	}
}

// What a service answers now is the outcome, as without accepted, and never holds the ticket.
func TestACallThatIsNotAcceptedIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]events.Result{200: events.ResultCompleted, 201: events.ResultCompleted, 422: events.ResultFailed} {
		var ticket string
		h := accept(t, accepting, func(w http.ResponseWriter, r *http.Request) {
			at := r.Header.Get("Sagalog-Callback")
			ticket = at[strings.LastIndex(at, "/")+1:]
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"message":"sent to %s","n":1}`, at)
		})
		r := h.Do("job", map[string]any{"id": "1"})
		require.Equal(t, want, r.Result)
		text, err := json.Marshal(r)
		require.NoError(t, err)
		require.NotContains(t, string(text), ticket)
		require.Contains(t, string(text), "the ticket of the callback")
	}
}

// A service that shows progress continues where an earlier attempt stopped.
func TestACallSeesTheLastProgress(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	h := accept(t, "agent: job\nhttp: {base: \"${ env.BASE }\"}\ndo: {method: POST, path: \"/${ progress.page }\", body: \"${ progress }\", accepted: [202]}\n", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		bodies <- r.URL.Path + string(b)
	})
	w := h.Work("job", events.Do, nil)
	w.Attempt, w.Progress = 2, json.RawMessage(`{"page":7}`)
	h.Send(w)
	require.Equal(t, `/7{"page":7}`, <-bodies)
}

func TestACallHasNoCallbackUnlessItsAnswerMayBeAccepted(t *testing.T) {
	t.Parallel()
	h := accept(t, strings.Replace(accepting, ", accepted: [202]}", "}", 1), func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			require.NotContains(t, r.Header, "Sagalog-Callback")
		}
		w.WriteHeader(http.StatusAccepted)
	})
	require.Equal(t, events.ResultCompleted, h.Do("job", map[string]any{"id": "1"}).Result, "202 is a success, as any 2xx")
}

// net/http repeats a request if a kept connection breaks. The ticket could not say so, so there is no kept connection.
func TestACallThatMayBeAcceptedIsSentOnce(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	h := accept(t, accepting, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusOK)
			return
		}
		c, _, err := w.(http.Hijacker).Hijack()
		require.NoError(t, err)
		_ = c.Close()
	})
	require.Equal(t, events.ResultCompleted, h.Do("job", map[string]any{"id": "1"}).Result)
	r := h.Do("job", map[string]any{"id": "2"})
	require.Equal(t, events.ResultFailed, r.Result)
	require.EqualValues(t, 2, calls.Load())
}

// A try whose answer did not come may still be carried out when the next one is over.
func TestATicketSaysThatAnEarlierTryIsInDoubt(t *testing.T) {
	t.Parallel()
	callbacks := make(chan string, 2)
	h := accept(t, strings.Replace(accepting, `{base: "${ env.BASE }"}`, `{base: "${ env.BASE }", retry: {tries: 2, backoff: 1ms}}`, 1), func(w http.ResponseWriter, r *http.Request) {
		callbacks <- r.Header.Get("Sagalog-Callback")
		if len(callbacks) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	h.Send(h.Work("job", events.Do, map[string]any{"id": "1"}))
	require.Eventually(t, func() bool { return len(callbacks) == 2 }, 20*time.Second, time.Millisecond)
	require.False(t, ticketOf(t, <-callbacks).Again)
	require.True(t, ticketOf(t, <-callbacks).Again)
}

func TestABindingThatAcceptsNeedsACallback(t *testing.T) {
	t.Parallel()
	all, err := httpagent.Load(fstest.MapFS{"job.yaml": {Data: []byte(accepting)}}, func(string) (string, bool) { return "http://127.0.0.1:1", true })
	require.NoError(t, err)
	r := agent.NewRegistry()
	all[0].Register(r)
	require.ErrorContains(t, r.Err(), "job.yaml:4:81: accepted needs a callback")
	_, accepts := all[0].Accepting()
	require.True(t, accepts)
}

func TestMistakesInAcceptedHaveAPlaceAndARemedy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"accepted: 202":                    "4:39: must be a list of statuses",
		"accepted: []":                     "4:39: accepted is empty",
		"accepted: [303]":                  "use a status from 200 to 299, such as 202",
		"accepted: [600]":                  "must be a status from 200 to 599",
		"accepted: [202], retry_on: [202]": "status 202 is both in accepted and in success or retry_on",
		"accepted: [202], success: [202]":  "status 202 is both in accepted and in success or retry_on",
		"headers: {Sagalog-Callback: x}":   "header Sagalog-Callback is set by the agent",
	} {
		_, err := httpagent.Parse("f.yaml", []byte("agent: a\nhttp:\n  base: http://x\ndo: {method: POST, path: /, "+text+"}\n"), nil)
		require.ErrorContains(t, err, want, text)
	}
	for _, url := range []string{"", "sagalog:8642", "ftp://h", "http://", "http://u:p@h", "http://h?a=b", "http://h#f", "http://h\r\nX: y"} {
		_, err := httpagent.NewCallback(httpagent.CallbackConfig{URL: url, Key: callbackKey})
		require.ErrorContains(t, err, "the URL of callbacks is not an absolute http or https URL", url)
	}
	_, err := httpagent.NewCallback(httpagent.CallbackConfig{URL: callbackBase, Key: "short"})
	require.ErrorContains(t, err, "openssl rand -hex 32")
}
