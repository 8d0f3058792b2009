package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestCancellingAndRetryingATask(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "x")
	r := e.run("task", "cancel", "x", "--reason", "late", "--request-id", "k")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "undoing")
	require.JSONEq(t, `{"id":"k","kind":"cancel","task":"x","reason":"late"}`, string(e.Inputs(events.Reports)[0].Value))
	require.Equal(t, 3, e.run("task", "cancel", "nope").code)
	e.submit(t, "y")
	e.Finish("y")
	require.Equal(t, 4, e.run("task", "cancel", "y").code)
	e.submit(t, "p")
	e.Park("p", "why")
	e.Change("p", &events.StepFailed{}, func(t *events.Task) { t.Steps = []*events.Step{{Path: "ship", State: events.StepStateFailed}} })
	r = e.run("task", "retry", "p", "--step", "ship")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "processing")
	require.Equal(t, 2, e.run("task", "retry", "p", "--step", "shop").code)
	r = e.run("task", "retry", "p", "--request-id", "in-vain")
	require.Equal(t, 4, r.code)
	require.Contains(t, r.err, "nothing can be retried")
	require.Equal(t, 4, e.run("task", "retry", "p", "--request-id", "in-vain").code, "the same request again is answered the same")
	require.Equal(t, 2, e.run("task", "cancel", "p", "--wait-for", "2m").code)
	e.Manual = true
	require.Equal(t, 0, e.run("task", "cancel", "p", "--no-wait").code)
	r = e.run("task", "cancel", "p", "--wait-for", "1ms", "--request-id", "slow")
	require.Equal(t, 5, r.code)
	require.Contains(t, r.err, "--request-id slow")
}

func TestARerunAsksBecauseServicesSeeNewCalls(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "x")
	e.Finish("x")
	r := e.run("task", "rerun", "x", "--from", "ship")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "services will see new calls")
	require.Contains(t, r.err, "--yes")
	require.Empty(t, e.Inputs(events.Reports))
	r = e.run("task", "rerun", "x", "--from", "ship", "--input", `{"n":2}`, "--reason", "the address was wrong", "--request-id", "k", "--yes")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "undoing")
	require.JSONEq(t, `{"id":"k","kind":"rerun","task":"x","from":"ship","input":{"n":2},"reason":"the address was wrong"}`, string(e.Inputs(events.Reports)[0].Value))
	require.Equal(t, 2, e.run("task", "rerun", "x", "--from", "shop", "--yes").code, "it has no such step")
	require.Equal(t, 4, e.run("task", "cancel", "x", "--yes").code, "the task has ended; a script may always say --yes")
}

// A skipped undo leaves what the step did, so nobody skips it unasked: neither with --operation nor because the task is being undone.
func TestSkippingAnUndoAsksFirst(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.submit(t, "x")
	e.Park("x", "the bank is closed")
	e.Change("x", &events.StepFailed{}, func(t *events.Task) {
		t.Steps = []*events.Step{{Path: "ship", State: events.StepStateFailed, Attempt: 1}}
	})
	refused := func(args ...string) {
		r := e.run(append([]string{"task", "skip", "x", "--step", "ship"}, args...)...)
		require.Equal(t, 2, r.code, r.err)
		require.Contains(t, r.err, "leaves what the step did")
		require.Contains(t, r.err, "give --yes")
	}
	refused("--operation", "undo")
	require.Empty(t, e.Inputs(events.Reports))
	require.Equal(t, 0, e.run("task", "skip", "x", "--step", "ship").code, "the step itself is skipped unasked")
	asked := len(e.Inputs(events.Reports))
	require.Contains(t, string(e.Inputs(events.Reports)[asked-1].Value), `"operation":"do"`, "a task that is being undone by then refuses it")

	e.submit(t, "y")
	e.Park("y", "the bank is closed")
	e.Change("y", &events.StepFailed{}, func(t *events.Task) {
		t.ParkedFrom = events.TaskStateUndoing
		t.Steps = []*events.Step{{Path: "ship", State: events.StepStateUndoFailed, Attempt: 1, Undoable: true, Touched: true, Undo: &events.UndoState{State: events.StepStateFailed, Attempt: 1}}}
	})
	r := e.run("task", "skip", "y", "--step", "ship")
	require.Equal(t, 2, r.code, r.err)
	require.Contains(t, r.err, "leaves what the step did")
	require.Len(t, e.Inputs(events.Reports), asked)
	r = e.run("task", "skip", "y", "--step", "ship", "--yes", "--request-id", "k")
	require.NotEqual(t, 2, r.code, r.err)
	require.Len(t, e.Inputs(events.Reports), asked+1)
}

// If the task cannot be read, nobody knows whether an undo would be skipped: the request is not sent.
func TestASkipIsNotSentIfTheTaskCannotBeRead(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			sent.Add(1)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"status":403,"code":"forbidden","title":"Forbidden","detail":"The token is not for reading."}`)
	}))
	defer s.Close()
	for _, ids := range [][]string{{"x"}, {"x", "y"}} {
		r := run(append(append([]string{"task", "skip"}, ids...), "--step", "ship", "--api", s.URL)...)
		require.NotEqual(t, 0, r.code)
		require.Contains(t, r.err, "not for reading")
	}
	require.Zero(t, sent.Load())
}
