package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// If a sealed task fails, error.detail holds the message and the original detail, sealed. A node with the key shows both in their usual places.

// saysSealed says whether a text may stand in for a sealed message: agents and owners then write a text with the word "sealed".
func saysSealed(text string) bool { return strings.Contains(text, "sealed") }

// openedError returns an error with its message and detail opened; the same error if nothing of it is sealed, or it cannot be opened here.
func openedError(keys Keys, e *events.Error) *events.Error {
	if keys == nil || e == nil || !saysSealed(e.Message) || !events.IsSealed(e.Detail) {
		return e
	}
	text, err := keys.Open(e.Detail)
	if err != nil {
		return e
	}
	var in struct {
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(text, &in) != nil || in.Message == "" {
		return e
	}
	out := *e
	out.Message, out.Detail = in.Message, in.Detail
	return &out
}

// hidden says whether messages of the task may lie sealed in its steps.
func (s documents) hidden(t *events.Task) bool {
	return s.keys != nil && saysSealed(ReasonOf(t))
}

// whole returns the task with its steps, if its reason may hide a sealed message, which only the steps hold.
func (s documents) whole(ctx context.Context, t *events.Task) (*events.Task, error) {
	if !s.hidden(t) || len(t.Steps) > 0 {
		return t, nil
	}
	read, err := s.tasks.Task(ctx, t.ID)
	if err != nil {
		return nil, fmt.Errorf("read a task: %w", err)
	}
	if read == nil {
		return t, nil
	}
	return read, nil
}

// opened returns the task with the messages of its failures opened, also in its reason. It changes nothing in t.
func (s documents) opened(t *events.Task) *events.Task {
	if s.keys == nil {
		return t
	}
	out := t
	for i, step := range t.Steps {
		if step.Error == nil && (step.Undo == nil || step.Undo.Error == nil) {
			continue
		}
		shown := *step
		shown.Error = openedError(s.keys, step.Error)
		reason := replaced(out.Reason, step.Path, step.Error, shown.Error)
		if u := step.Undo; u != nil {
			undo := *u
			undo.Error = openedError(s.keys, u.Error)
			reason = replaced(reason, step.Path, u.Error, undo.Error)
			shown.Undo = &undo
		}
		if shown.Error == step.Error && (step.Undo == nil || shown.Undo.Error == step.Undo.Error) {
			continue
		}
		if out == t {
			x := *t
			x.Steps = slices.Clone(t.Steps)
			out = &x
		}
		out.Steps[i], out.Reason = &shown, reason
	}
	return out
}

// replaced puts the opened message of a step into a reason that is about this step.
func replaced(reason, step string, sealed, opened *events.Error) string {
	if sealed == opened || !strings.Contains(reason, strconv.Quote(step)) {
		return reason
	}
	return strings.ReplaceAll(reason, sealed.Message, opened.Message)
}

// messages opens the messages in a history, which later facts repeat in their reasons.
type messages struct {
	keys Keys
	// of has, by step, the text in place of the last sealed message, and the message itself.
	of map[string][2]string
}

// event returns an event with its messages opened.
func (m *messages) event(f LoggedFact) HistoryEvent {
	if m.keys == nil || !saysSealed(string(f.Record.Value)) {
		return EventOf(f)
	}
	var about struct {
		Step  string        `json:"step"`
		Error *events.Error `json:"error"`
	}
	if json.Unmarshal(f.Record.Value, &about) != nil {
		return EventOf(f)
	}
	if o := openedError(m.keys, about.Error); o != about.Error {
		if m.of == nil {
			m.of = map[string][2]string{}
		}
		m.of[about.Step] = [2]string{about.Error.Message, o.Message}
	}
	if pair, known := m.of[about.Step]; known {
		f.Record.Value = bytes.ReplaceAll(f.Record.Value, within(pair[0]), within(pair[1]))
	}
	return EventOf(f)
}

// within returns a text as it stands within a text of JSON.
func within(text string) []byte {
	b, _ := events.Marshal(text)
	return b[1 : len(b)-1]
}
