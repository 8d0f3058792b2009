package supervisor

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// A signal is kept by its task until a step that waits for it takes it. So it makes no difference whether it comes before, with or after its wait.

// signalled keeps a signal. The owner checks its name and its payload by the definition: see granted.
func signalled(t *events.Task, q *events.Request) (events.Body, Refusal) {
	switch {
	case q.Signal == "":
		return nil, Refusal{"the request names no signal", true}
	case t.Undoing():
		return refused("%s, and takes no signal", events.RefusedUndoing)
	case len(t.Kept) >= events.MaxKeptSignals || events.KeptBytes(t.Kept)+len(q.Payload) > events.MaxKeptSignalBytes:
		return refused("%s", events.RefusedKept)
	}
	return &events.SignalReceived{Request: q.ID, Signal: q.Signal, Payload: q.Payload, Reason: q.Reason, By: q.By}, Refusal{}
}

// takable says why no step of the task can take a signal. The output of that step must be within its limit, too.
func takable(i *inbox, t *events.Task, b *events.SignalReceived) (why string, _ error) {
	if b.Payload, why = payloadOf(i, b.Signal, b.Payload); why != "" {
		return why, nil
	}
	if err := i.planner.prepare(t); err != nil {
		return err.Error(), nil
	}
	return i.sched.CheckSignal(t, b.Signal, b.Payload)
}

// payloadOf returns the payload of a signal as it stands in a fact, or why it cannot: the output of the step that takes it has a limit.
func payloadOf(i *inbox, signal string, raw []byte) ([]byte, string) {
	return given(raw, "payload", i.settings().PayloadBytes-len(events.SignalOutput(signal, []byte("0"))))
}

// unholdable says why a request for a task that does not exist cannot be held. Signals have bounds of their own in number and size, because they carry payloads.
func unholdable(i *inbox, q *events.Request) string {
	count, bytes, signal := 0, len(q.Payload), q.Kind == events.RequestSignal
	for _, h := range i.state.Held() {
		if (h.Request.Kind == events.RequestSignal) == signal {
			count++
			bytes += len(h.Request.Payload)
		}
	}
	switch {
	case signal && (count >= events.MaxHeldSignals || bytes > events.MaxHeldSignalBytes):
		return fmt.Sprintf("%d signals for unknown tasks are held already, with %d bytes; the limits are %d and %d bytes: submit their tasks first", count, bytes-len(q.Payload), events.MaxHeldSignals, events.MaxHeldSignalBytes)
	case !signal && count >= i.settings().HeldRequests:
		return fmt.Sprintf("%d requests for unknown tasks are held already, which is the limit: submit their tasks first, or raise the setting held_requests", count)
	}
	return ""
}
