package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const previewPath = "/v1/workflows/{name}/preview"

// previewID is the task's ID in a preview that names none.
const previewID = "preview"

// PreviewBody says what would be submitted.
type PreviewBody struct {
	ID      string          `json:"id,omitempty" doc:"The task's ID, for expressions that use it; absent: preview"`
	Version int             `json:"version,omitempty" minimum:"1" doc:"Absent: the current one"`
	Input   json.RawMessage `json:"input,omitempty" doc:"Absent: null"`
}

// PreviewDocument is what a task would do first.
type PreviewDocument struct {
	Name     string            `json:"name"`
	Version  int               `json:"version"`
	Faults   []ProblemPlace    `json:"faults,omitempty" doc:"Why a submission with this input would be rejected; no step is shown then"`
	Labels   map[string]string `json:"labels,omitempty" doc:"The labels that the workflow gives to the task"`
	Priority int               `json:"priority,omitzero" doc:"The priority that the workflow gives to the task"`
	FairBy   string            `json:"fair_by,omitempty" doc:"The key for turns in the queues of agents that the workflow gives to the task"`
	Steps    []PreviewStep     `json:"steps,omitempty"`
}

// PreviewStep is what is known about a step before the task exists.
type PreviewStep struct {
	StepSummary
	If        string          `json:"if,omitempty" doc:"The condition"`
	Condition *bool           `json:"condition,omitempty" doc:"What the condition gives; absent if it depends on steps that are not over"`
	Skipped   bool            `json:"skipped,omitzero"`
	Starts    bool            `json:"starts,omitzero" doc:"The step is among the first to start"`
	Items     *int            `json:"items,omitempty" doc:"How many items a step with for would have; absent for others, and if its list depends on steps that are not over"`
	With      json.RawMessage `json:"with,omitempty" doc:"The resolved input of a step that starts, or of its first item"`
	Error     string          `json:"error,omitempty" doc:"Why the condition or the input cannot be evaluated"`
}

// PreviewAnswer is what a task would do first.
type PreviewAnswer struct{ Body PreviewDocument }

func (s *workflows) registerPreview(api huma.API) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "preview-workflow", Method: http.MethodPost, Path: previewPath, Summary: "What a task would do first", Tags: []string{"workflows"},
		Description: "Checks an input, judges the conditions that do not depend on steps that are not over, and resolves the inputs of the first steps. Nothing is started or written.",
	}), s.preview)
	example := map[string]any{"input": map[string]any{"item": "x"}}
	describeBody(api, previewPath, http.MethodPost, described{reflect.TypeFor[PreviewBody](), example, s.limit}, contentJSON)
	api.OpenAPI().Paths[previewPath].Post.RequestBody.Required = false
}

func (s *workflows) preview(ctx context.Context, in *WorkflowPath) (*PreviewAnswer, error) {
	body, err := exchangeOf(ctx).readPreview(s.limit)
	if err != nil {
		return nil, err
	}
	s.refresh(ctx)
	w, err := s.workflows.Workflow(ctx, in.Name, body.Version)
	switch {
	case err != nil:
		return nil, s.log.internal(ctx, "look up a workflow", err)
	case w == nil:
		return nil, s.unknown(ctx, in.Name, body.Version, "")
	}
	sub := &events.Submission{ID: body.ID, Workflow: w.Name, Version: w.Version, Input: body.Input}
	accepted, faults, err := s.definitions.Accept(ctx, Definition{Name: w.Name, Version: w.Version, Hash: w.Hash}, sub)
	if err != nil {
		return nil, s.log.internal(ctx, "check an input", err)
	}
	d := PreviewDocument{Name: w.Name, Version: w.Version}
	if len(faults) > 0 {
		d.Faults = faultPlaces(faults, "")
		return &PreviewAnswer{Body: d}, nil
	}
	d.Labels, d.Priority, d.FairBy = accepted.Labels, accepted.Priority, accepted.FairBy
	steps, err := s.definitions.Preview(ctx, w.Hash, &events.Task{
		ID: body.ID, Run: 1, Workflow: w.Name, Version: w.Version, State: events.TaskStatePending,
		Labels: accepted.Labels, Priority: accepted.Priority, Input: body.Input,
	})
	if err != nil {
		return nil, s.log.internal(ctx, "preview a workflow", err)
	}
	for _, x := range steps {
		d.Steps = append(d.Steps, PreviewStep{
			StepSummary: x.summary(),
			If:          x.If, Condition: x.Condition, Skipped: x.Skipped, Starts: x.Starts, Items: x.Items, With: x.With, Error: x.Error,
		})
	}
	return &PreviewAnswer{Body: d}, nil
}

// readPreview reads the body {"id","version","input"}, which is optional.
func (x exchange) readPreview(limit int) (body PreviewBody, err error) {
	body.ID, body.Input = previewID, json.RawMessage("null")
	data, err := x.readBody(limit, "a preview")
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return body, err
	}
	if err := x.acceptsJSON(); err != nil {
		return body, err
	}
	var faults []ProblemPlace
	err = x.readMembers(data, []string{"id", "version", "input"}, func(name string, raw json.RawMessage) {
		switch name {
		case "id":
			if json.Unmarshal(raw, &body.ID) != nil || events.CheckTaskID(body.ID) != nil {
				faults = append(faults, ProblemPlace{Pointer: "/id", Message: "is not the ID of a task"})
			}
		case "version":
			if json.Unmarshal(raw, &body.Version) != nil || body.Version < 1 {
				faults = append(faults, ProblemPlace{Pointer: "/version", Message: "is not a version: versions count from 1"})
			}
		case "input":
			var err error
			if body.Input, err = events.Compact(raw); err != nil {
				faults = append(faults, ProblemPlace{Pointer: "/input", Message: fmt.Sprint("cannot be used: ", err)})
			}
		}
	})
	if err == nil && len(faults) > 0 {
		err = problem(http.StatusUnprocessableEntity, codeInvalid, "This cannot be previewed.", faults...)
	}
	return body, err
}
