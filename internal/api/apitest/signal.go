package apitest

import (
	"context"
	"encoding/json"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// CheckSignal implements api.Definitions: the steps wait for signals that are named go, whose payload is an object or absent.
func (e *Engine) CheckSignal(_ context.Context, _ *events.Task, signal string, payload json.RawMessage) ([]api.Fault, error) {
	var v map[string]any
	switch {
	case signal != "go":
		return []api.Fault{{Pointer: "/signal", Message: "no step waits for it"}}, nil
	case len(payload) > 0 && json.Unmarshal(payload, &v) != nil:
		return []api.Fault{{Pointer: "/payload", Message: "must be an object"}}, nil
	}
	return nil, nil
}
