package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

var historyReflected = reflect.TypeFor[HistoryPage]()

// workflows answers for the definitions and applies new ones.
type workflows struct {
	workflows   Workflows
	deletions   Deletions
	schedules   Schedules
	definitions Definitions
	offers      Offers
	lists       *lists
	// limit is the maximum size of a definition, in bytes.
	limit int
	log   logger
}

// WorkflowPath is the path of a workflow.
type WorkflowPath struct {
	Name string `path:"name" doc:"The workflow's name"`
}

// WorkflowQuery asks for a version of a workflow.
type WorkflowQuery struct {
	WorkflowPath
	Version int `query:"version" minimum:"1" doc:"Absent: the current one"`
}

// WorkflowPut applies a definition.
type WorkflowPut struct {
	WorkflowPath
	DryRun bool   `query:"dry_run" doc:"Validate only: nothing is written"`
	By     string `query:"by" doc:"Who applies it, for the record. With access it is the name of the token"`
}

// WorkflowDocument is a version of a workflow.
type WorkflowDocument struct {
	Name        string          `json:"name"`
	Version     int             `json:"version"`
	Current     bool            `json:"current"`
	Hash        string          `json:"hash"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	AppliedAt   events.Instant  `json:"applied_at,omitzero" format:"date-time" doc:"When this content was last applied"`
	AppliedBy   string          `json:"applied_by,omitempty" doc:"Who applied it then; absent if that is not known, as for a file that a node read at its start"`
	Versions    []int           `json:"versions" nullable:"false"`
	Steps       []StepSummary   `json:"steps,omitempty"`
	Definition  json.RawMessage `json:"definition,omitempty" doc:"With $refs inlined"`
}

// StepSummary is a step of a workflow.
type StepSummary struct {
	ID          string   `json:"id"`
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Agent       string   `json:"agent,omitempty"`
	Operation   string   `json:"operation,omitempty" doc:"The operation of the agent, if it has a name"`
	Workflow    string   `json:"workflow,omitempty" doc:"The workflow of the task that does the step, if no agent does it"`
	For         string   `json:"for,omitempty" doc:"Which items the step has, if it has a for: for each of input.orders, 20 at a time"`
	Needs       []string `json:"needs,omitempty"`
	Undo        bool     `json:"undo,omitzero" doc:"The step names an undo"`
	Pivot       bool     `json:"pivot,omitzero" doc:"The point of no return"`
}

func (s *Step) summary() StepSummary {
	return StepSummary{ID: s.ID, Title: s.Title, Description: s.Description, Agent: s.Agent, Operation: s.Operation, Workflow: s.Workflow, For: s.For, Needs: s.Needs, Undo: s.HasUndo, Pivot: s.Pivot}
}

// WorkflowAnswer is a version of a workflow.
type WorkflowAnswer struct{ Body WorkflowDocument }

// WorkflowList is the current version of each workflow.
type WorkflowList struct {
	Workflows []WorkflowDocument `json:"workflows" nullable:"false"`
}

// WorkflowsAnswer is the list of workflows.
type WorkflowsAnswer struct{ Body WorkflowList }

// AppliedDocument is the result of applying a definition.
type AppliedDocument struct {
	Name     string         `json:"name"`
	Version  int            `json:"version"`
	Hash     string         `json:"hash"`
	Changed  bool           `json:"changed" doc:"False if that content was current already"`
	DryRun   bool           `json:"dry_run,omitzero"`
	Warnings []ProblemPlace `json:"warnings,omitempty"`
}

// AppliedAnswer is the result of applying a definition.
type AppliedAnswer struct{ Body AppliedDocument }

func (s *workflows) register(api huma.API) {
	const path = "/v1/workflows/{name}"
	tags := []string{"workflows"}
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "list-workflows", Method: http.MethodGet, Path: "/v1/workflows", Summary: "List workflows", Tags: tags,
	}), s.list)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "get-workflow", Method: http.MethodGet, Path: path, Summary: "Read a version of a workflow", Tags: tags,
	}), s.get)
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "put-workflow", Method: http.MethodPut, Path: path, Summary: "Apply a definition", Tags: tags,
		Description: "The body is YAML or JSON. Content that was applied before becomes current again under its version. " +
			"422 lists every fault with line and column.",
	}), s.put)
	describeBody(api, path, http.MethodPut, described{bytes: s.limit}, "application/yaml", contentJSON)
	s.registerDelete(api)
	s.registerPreview(api)
}

func (s *workflows) list(ctx context.Context, _ *struct{}) (*WorkflowsAnswer, error) {
	s.refresh(ctx)
	list, err := s.workflows.Workflows(ctx)
	if err != nil {
		return nil, s.log.internal(ctx, "list workflows", err)
	}
	out := WorkflowList{Workflows: make([]WorkflowDocument, len(list))}
	for i, w := range list {
		out.Workflows[i] = summary(w)
	}
	return &WorkflowsAnswer{Body: out}, nil
}

func summary(w *Workflow) WorkflowDocument {
	d := WorkflowDocument{Name: w.Name, Version: w.Version, Current: w.Current, Hash: w.Hash, Title: w.Title, Description: w.Description,
		AppliedAt: w.AppliedAt, AppliedBy: w.AppliedBy, Versions: w.Versions}
	if d.Versions == nil {
		d.Versions = []int{w.Version}
	}
	return d
}

// refreshWithin bounds a look at the end of definitions. If the brokers do not answer, the API answers from the
// definitions that this node knows.
const refreshWithin = 2 * time.Second

// refresh makes definitions visible that were applied at another node a moment ago. It returns false if it could not.
func (s *workflows) refresh(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, refreshWithin)
	defer cancel()
	err := s.workflows.Refresh(ctx)
	if err != nil {
		s.log.Debug("the end of definitions is not known; the answer may be old", "error", err)
	}
	return err == nil
}

func (s *workflows) get(ctx context.Context, in *WorkflowQuery) (*WorkflowAnswer, error) {
	s.refresh(ctx)
	w, err := s.workflows.Workflow(ctx, in.Name, in.Version)
	if err != nil {
		return nil, s.log.internal(ctx, "look up a workflow", err)
	}
	if w == nil {
		return nil, s.unknown(ctx, in.Name, in.Version, "")
	}
	steps, err := s.definitions.Steps(ctx, w.Hash)
	if err != nil {
		return nil, s.log.internal(ctx, "read the steps of a definition", err)
	}
	d := summary(w)
	d.Definition = w.Body
	for _, st := range steps {
		d.Steps = append(d.Steps, st.summary())
	}
	return &WorkflowAnswer{Body: d}, nil
}

func (s *workflows) put(ctx context.Context, in *WorkflowPut) (*AppliedAnswer, error) {
	source, err := exchangeOf(ctx).readBody(s.limit, "a definition")
	if err != nil {
		return nil, err
	}
	apply := s.workflows.Apply
	if in.DryRun {
		s.refresh(ctx)
		apply = s.workflows.Check
	}
	a, faults, err := apply(ctx, Draft{Name: in.Name, Source: source, By: exchangeOf(ctx).by(in.By)})
	if err != nil {
		p := s.log.internal(ctx, "apply a definition", err)
		if errors.Is(err, ErrNoAnswer) {
			p = problem(http.StatusServiceUnavailable, codeUnavailable,
				"The Kafka brokers do not answer at the moment. The definition may have been applied. Apply it again: a repeat is safe.").
				retryAfter(time.Second)
		}
		return nil, p
	}
	if len(faults) > 0 {
		n := "1 fault"
		if len(faults) > 1 {
			n = fmt.Sprintf("%d faults", len(faults))
		}
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The definition has "+n+".", faultPlaces(faults, "")...)
	}
	d := AppliedDocument{Name: a.Name, Version: a.Version, Hash: a.Hash, Changed: a.Changed, DryRun: in.DryRun}
	if len(a.Warnings) > 0 {
		d.Warnings = faultPlaces(a.Warnings, "")
	}
	d.Warnings = append(d.Warnings, s.unoffered(ctx, &a)...)
	return &AppliedAnswer{Body: d}, nil
}

// unoffered warns about operations that no live instance offers. Steps would wait for them, and wait forever if a name is wrong.
func (s *workflows) unoffered(ctx context.Context, a *Applied) (warnings []ProblemPlace) {
	offered := s.offers.Offered()
	warn := func(pointer, step string, c events.Call) {
		if !offered(c) {
			warnings = append(warnings, ProblemPlace{Pointer: pointer, Message: fmt.Sprintf(
				"no live instance of agent %q offers the operation %s of step %q: the step waits until one starts; see sagalog agents list", c.Agent, c.Verb(), step)})
		}
	}
	for _, st := range a.Steps {
		for _, c := range st.Calls {
			key := "/agent"
			if c.Operation == events.Undo {
				key = "/undo"
			}
			warn("/steps/"+st.ID+key, st.ID, c)
		}
	}
	return warnings
}

// unknown names the nearest workflow, or the versions that exist.
func (s *workflows) unknown(ctx context.Context, name string, version int, pointer string) error {
	list, err := s.workflows.Workflows(ctx)
	if err != nil {
		return s.log.internal(ctx, "list workflows", err)
	}
	names := make([]string, len(list))
	for i, w := range list {
		names[i] = w.Name
		if w.Name == name {
			text := fmt.Sprintf("workflow %s has no version %d; its versions are %v", name, version, w.Versions)
			return workflowProblem(text, pointer, "version")
		}
	}
	if len(names) == 0 {
		return workflowProblem("no workflow is applied; apply one first", pointer, "workflow")
	}
	return workflowProblem(fmt.Sprintf("no workflow has the name %q; %s", name, events.Suggest(name, names)), pointer, "workflow")
}

func workflowProblem(text, pointer, member string) error {
	p := problem(http.StatusNotFound, codeWorkflow, strings.ToUpper(text[:1])+text[1:])
	if pointer != "" {
		p.Errors = []ProblemPlace{{Pointer: pointer + member, Message: text}}
	}
	return p
}
