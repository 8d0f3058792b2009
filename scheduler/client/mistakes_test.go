package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
)

// refusesCalls is an engine that no call may reach.
func refusesCalls(t *testing.T) *client.Engine {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s was called", r.Method, r.URL) }))
	t.Cleanup(s.Close)
	e, err := client.OpenWith(client.HTTPConfig{URL: s.URL, RetryFor: -1})
	require.NoError(t, err)
	t.Cleanup(e.Close)
	return e
}

// calls has each kind of call about one task.
func calls(e *client.Engine, id string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"get":      func(ctx context.Context) error { _, err := e.Get(ctx, id); return err },
		"wait":     func(ctx context.Context) error { _, err := e.Wait(ctx, id); return err },
		"accepted": func(ctx context.Context) error { _, err := e.Accepted(ctx, client.Receipt{ID: id}); return err },
		"cancel":   func(ctx context.Context) error { _, err := e.Cancel(ctx, id, client.Request{}); return err },
		"signal":   func(ctx context.Context) error { _, err := e.Signal(ctx, id, client.Signal{Name: "go"}); return err },
		"send":     func(ctx context.Context) error { _, err := e.Send(ctx, id, client.Signal{Name: "go"}); return err },
		"history": func(ctx context.Context) (err error) {
			for _, err = range e.History(ctx, id) {
			}
			return err
		},
	}
}

func TestAnIDThatNoTaskCanHaveIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	e := refusesCalls(t)
	for _, id := range []string{"", "..", "a\x00b"} {
		for name, call := range calls(e, id) {
			err := call(t.Context())
			require.ErrorIs(t, err, client.ErrInvalid, "%s of %q", name, id)
			x, _ := errors.AsType[*client.Error](err)
			require.Equal(t, "/id", x.Places[0].Pointer, "%s of %q", name, id)
		}
	}
}

func TestARequestThatIsNotJSONHasItsPlace(t *testing.T) {
	t.Parallel()
	e := refusesCalls(t)
	bad := []byte("{bad")
	for pointer, call := range map[string]func(context.Context) (client.Granted, error){
		"/signal": func(ctx context.Context) (client.Granted, error) { return e.Signal(ctx, "t", client.Signal{}) },
		"/payload": func(ctx context.Context) (client.Granted, error) {
			return e.Signal(ctx, "t", client.Signal{Name: "go", Payload: bad})
		},
		"/with":  func(ctx context.Context) (client.Granted, error) { return e.Retry(ctx, "t", client.Retry{With: bad}) },
		"/input": func(ctx context.Context) (client.Granted, error) { return e.Rerun(ctx, "t", client.Rerun{Input: bad}) },
		"/output": func(ctx context.Context) (client.Granted, error) {
			return e.Skip(ctx, "t", client.Decision{Step: "a", Output: bad})
		},
	} {
		g, err := call(t.Context())
		require.ErrorIs(t, err, client.ErrInvalid, pointer)
		x, _ := errors.AsType[*client.Error](err)
		require.Len(t, x.Places, 1)
		require.Equal(t, pointer, x.Places[0].Pointer)
		require.NotEmpty(t, x.Places[0].Message)
		require.NotEmpty(t, g.RequestID)
	}
}

func TestAPageSizeBelowZeroIsRefused(t *testing.T) {
	t.Parallel()
	n := 0
	for _, err := range refusesCalls(t).List(t.Context(), client.Query{PageSize: -1}) {
		require.ErrorIs(t, err, client.ErrInvalid)
		require.ErrorContains(t, err, "limit: is -1")
		n++
	}
	require.Equal(t, 1, n)
}

func TestATextThatIsNotADefinitionIsRefusedInPlainWords(t *testing.T) {
	t.Parallel()
	e := refusesCalls(t)
	const noObject = "not valid: the definition is not an object with the members workflow and steps: Apply takes the text of a definition, not the name of its file"
	for definition, want := range map[string]string{
		"hello": noObject, "": noObject, "[1]": noObject,
		"steps: {}":          "not valid: the definition is without the name of its workflow; /workflow: is missing, or is not a text",
		"workflow: [a]":      "not valid: the definition is without the name of its workflow; /workflow: is missing, or is not a text",
		`{"workflow": ""}`:   "not valid: the definition is without the name of its workflow; /workflow: is missing, or is not a text",
		"workflow: &x\n - a": "not valid: the definition is without the name of its workflow; /workflow: is missing, or is not a text",
	} {
		_, err := e.Apply(t.Context(), []byte(definition))
		require.ErrorIs(t, err, client.ErrInvalid)
		require.EqualError(t, err, want, definition)
	}
}

func TestAClosedClientOverHTTPSaysSo(t *testing.T) {
	t.Parallel()
	e := refusesCalls(t)
	e.Close()
	all := calls(e, "t")
	all["submit"] = func(ctx context.Context) error { _, err := e.Submit(ctx, submission("t")); return err }
	all["submit two"] = func(ctx context.Context) error {
		results := e.SubmitAll(ctx, []client.Submission{submission("t"), submission("u")})
		return errors.Join(results[0].Err, results[1].Err)
	}
	all["run"] = func(ctx context.Context) error { _, err := e.Run(ctx, submission("t")); return err }
	all["apply"] = func(ctx context.Context) error { _, err := e.Apply(ctx, []byte("workflow: w\nsteps: {}")); return err }
	all["list"] = func(ctx context.Context) (err error) {
		for _, err = range e.List(ctx, client.Query{}) {
		}
		return err
	}
	for name, call := range all {
		err := call(t.Context())
		require.ErrorIs(t, err, client.ErrClosed, name)
		require.NotErrorIs(t, err, client.ErrUnavailable, "%s: nothing was sent", name)
	}
}

// The engine does not answer, and the client is closed meanwhile. What was sent may have taken effect.
func TestACloseEndsTheRepeats(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	var e *client.Engine
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		e.Close()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	e, err := client.Open(s.URL)
	require.NoError(t, err)
	_, err = e.Submit(t.Context(), submission("t"))
	require.ErrorIs(t, err, client.ErrUnavailable)
	require.EqualValues(t, 1, n.Load())
}

func TestParkedIsTakenForTheStateOfThatName(t *testing.T) {
	t.Parallel()
	e, err := client.Open(apitest.New().Serve(t))
	require.NoError(t, err)
	t.Cleanup(e.Close)
	for range e.List(t.Context(), client.Query{States: []client.State{"parked", client.StateUndoing}}) {
		t.Fatal("there is a task")
	}
	for _, err := range e.List(t.Context(), client.Query{States: []client.State{"broken"}}) {
		require.ErrorIs(t, err, client.ErrInvalid)
		require.ErrorContains(t, err, "parked means error")
	}
}
