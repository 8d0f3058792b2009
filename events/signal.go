package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// SignalReceived keeps a signal for a task until a step that waits for it takes it, by its StepCompleted or StepFailed.
type SignalReceived struct {
	Request string `json:"request"`
	// Signal is its name.
	Signal  string          `json:"signal"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	By      string          `json:"by,omitempty"`
}

// KeptSignal is a signal that no step has taken yet.
type KeptSignal struct {
	// Request is the ID of its request.
	Request string          `json:"request"`
	Signal  string          `json:"signal"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// Fact is the position of its SignalReceived.
	Fact Position `json:"fact"`
}

// The bounds of signals. A task keeps at most 1,000 of them and 1 MiB of their payloads: all are loaded with the task. A partition holds for tasks
// that do not exist yet at most 1,000 of them and 16 MiB, for a day: they are in memory, and their submission may come from a nightly job.
const (
	MaxKeptSignals     = 1_000
	MaxKeptSignalBytes = 1 << 20
	MaxHeldSignals     = 1_000
	MaxHeldSignalBytes = 16 << 20
	HoldSignalsFor     = 24 * time.Hour
)

// KeptBytes returns how many bytes the payloads of the kept signals have.
func KeptBytes(kept []KeptSignal) (n int) {
	for i := range kept {
		n += len(kept[i].Payload)
	}
	return n
}

// HoldFor returns how long a request is held for a task that does not exist.
func (s *Settings) HoldFor(v Verb) Duration {
	if v == RequestSignal {
		return Duration(HoldSignalsFor)
	}
	return s.HeldFor
}

// SignalOutput returns the output of a step that takes a signal: {"signal", "payload"}.
func SignalOutput(signal string, payload json.RawMessage) json.RawMessage {
	if len(payload) == 0 {
		payload = json.RawMessage("null")
	}
	name, _ := Marshal(signal) // a text
	return slices.Concat([]byte(`{"signal":`), name, []byte(`,"payload":`), payload, []byte("}"))
}

// received keeps a signal, in the order of arrival.
func received(t *Task, b *SignalReceived) error {
	if t.HasRequest(b.Request) || t.Undoing() {
		return fmt.Errorf("%w: signal %q comes twice, or while the task is %s", ErrImpossible, b.Request, t.State)
	}
	t.judged(RequestSignal, b.Request, "")
	t.Kept = append(t.Kept, KeptSignal{Request: b.Request, Signal: b.Signal, Payload: b.Payload, Fact: t.Last})
	return nil
}

// take takes a kept signal for a step that waits for it.
func take(t *Task, s *Step, request string) error {
	if request == "" {
		return nil
	}
	i := slices.IndexFunc(t.Kept, func(k KeptSignal) bool { return k.Request == request })
	if i < 0 || !s.Waits() || !slices.Contains(s.Wait.Signals, t.Kept[i].Signal) {
		return fmt.Errorf("%w: step %q takes the signal %q, which is not kept, or for which it does not wait", ErrImpossible, s.Path, request)
	}
	t.changeRequest(request)
	//mutant:signal-is-taken-once
	t.Kept = slices.Delete(slices.Clone(t.Kept), i, i+1)
	return nil
}
