package httpagent_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A call whose attempt is stopped says so, and not that the service took too long.
func TestACallThatIsBrokenOffSaysWhy(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, r *http.Request) {
		close(began)
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	w := h.Work("package", events.Do, anInput)
	w.CompleteBy = events.At(time.Now().Add(time.Hour))
	h.Send(w)
	<-began
	stop, err := events.EncodeStop(events.Stop{Task: w.Task, Run: 1, Step: w.Step, Operation: w.Operation, Attempt: 1, Ticket: w.Ticket}, events.Subject{ID: "s", Source: "test", Time: events.At(time.Now())})
	require.NoError(t, err)
	h.Sources["package"].Add(stop)
	r, ok := h.Await(w)
	require.True(t, ok)
	require.Equal(t, "stopped", r.Error.Code)
	require.Equal(t, events.EffectInDoubt, r.Effect)
	require.Contains(t, r.Error.Message, "its attempt was no longer needed; the whole request had been sent")
}
