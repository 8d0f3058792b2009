package httpagent_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func TestAnUndoThatFindsNothing(t *testing.T) {
	t.Parallel()
	const gone = `do:   {method: PUT, path: "/x"}
undo: {method: DELETE, path: "/x", gone: undone}`
	for name, c := range map[string]struct {
		binding string
		output  string
		attempt int
		undone  bool
	}{
		"the outcome of the do is unknown":       {"", "", 1, true},
		"the do completed":                       {"", `{"id":"1"}`, 1, false},
		"the do completed without a body":        {"", `null`, 1, false},
		"an earlier attempt to undo failed":      {"", `{"id":"1"}`, 2, true},
		"the binding says that it is always so":  {gone, `{"id":"1"}`, 1, true},
		"another status, the outcome is unknown": {"", "", 1, false},
	} {
		for _, code := range []int{http.StatusNotFound, http.StatusGone} {
			if strings.HasPrefix(name, "another") {
				code = http.StatusConflict
			}
			t.Run(name+" "+strconv.Itoa(code), func(t *testing.T) {
				t.Parallel()
				binding := oneTry
				if c.binding != "" {
					binding = oneTry[:strings.Index(oneTry, "do:")] + c.binding
				}
				h := bind(t, binding, serve(t, status(code)))
				w := h.Work("package", events.Undo, anInput)
				w.Output, w.Attempt = []byte(c.output), c.attempt
				h.Send(w)
				r, ok := h.Await(w)
				require.True(t, ok)
				if c.undone {
					require.Equal(t, events.ResultCompleted, r.Result, "%+v", r.Error)
					return
				}
				require.Equal(t, events.ClassPermanent, r.Error.Class)
			})
		}
	}
}

func TestAnUndoFindsNothingAfterAnEarlierTryInDoubt(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader([]int{http.StatusBadGateway, http.StatusNotFound}[min(1, calls.Add(1)-1)])
	}))
	require.Equal(t, events.ResultCompleted, h.Undo("package", anInput, map[string]any{"id": "1"}).Result)
	require.EqualValues(t, 2, calls.Load())
}

func TestADoThatFindsNothingIsRefused(t *testing.T) {
	t.Parallel()
	r := bind(t, oneTry, serve(t, status(http.StatusNotFound))).Do("package", anInput)
	require.Equal(t, events.ClassPermanent, r.Error.Class)
	require.Equal(t, events.EffectNone, r.Effect)
}

func TestTheBodyOfASuccessfulUndoDoesNotMatter(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"not JSON": "deleted", "too long": strings.Repeat("x", 300<<10), "empty": "", "JSON": `{"id":"1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := bind(t, oneTry, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(body))
			}))
			r := h.Undo("package", anInput, map[string]any{"id": "1"})
			require.Equal(t, events.ResultCompleted, r.Result, "%+v", r.Error)
		})
	}
}
