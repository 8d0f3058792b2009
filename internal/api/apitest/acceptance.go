package apitest

import (
	"context"
	"encoding/json"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Accept implements api.Definitions.
func (e *Engine) Accept(_ context.Context, _ api.Definition, sub *events.Submission) (events.Acceptance, []api.Fault, error) {
	var v struct{ Item any }
	a := events.Acceptance{Labels: sub.Labels, Priority: sub.Priority}
	if len(sub.Input) == 0 || json.Unmarshal(sub.Input, &v) != nil {
		return a, []api.Fault{{Pointer: "/input", Message: "must be an object"}}, nil
	}
	switch item, ok := v.Item.(string); {
	case !ok:
		return a, []api.Fault{{Pointer: "/input/item", Message: "must be a text"}}, nil
	case item == "unlabelled":
		return a, []api.Fault{{Pointer: "/labels/item", Message: "the label of the workflow is a list"}}, nil
	}
	if v.Item == "labelled" {
		a.Labels, a.Priority = map[string]string{"item": "labelled"}, 7
	}
	return a, nil, nil
}
