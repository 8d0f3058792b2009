package api

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// TaskDocument is a task. Absent values are left out; counts are always present.
type TaskDocument struct {
	ID       string            `json:"id"`
	Run      int               `json:"run"`
	Workflow string            `json:"workflow"`
	Version  int               `json:"version"`
	State    string            `json:"state" enum:"pending,processing,processed,undoing,undone,error,terminated,rejected"`
	Priority int               `json:"priority"`
	FairBy   string            `json:"fair_by,omitempty" doc:"The key of the task in the queues of agents: of equal priority, keys take turns"`
	Labels   map[string]string `json:"labels,omitempty"`
	Input    json.RawMessage   `json:"input,omitempty"`
	Output   json.RawMessage   `json:"output,omitempty"`

	SubmittedAt events.Instant `json:"submitted_at" format:"date-time"`
	UpdatedAt   events.Instant `json:"updated_at" format:"date-time"`
	EndedAt     events.Instant `json:"ended_at,omitzero" format:"date-time"`
	Deadline    events.Instant `json:"deadline,omitzero" format:"date-time"`
	ParkedAt    events.Instant `json:"parked_at,omitzero" format:"date-time" doc:"When it was parked"`
	NotBefore   events.Instant `json:"not_before,omitzero" format:"date-time" doc:"Nothing of the task starts before this instant; absent once it has come"`

	Schedule string          `json:"schedule,omitempty" doc:"The schedule that started the task"`
	Parent   *ParentDocument `json:"parent,omitempty" doc:"The task that started this one, to do one of its steps"`
	Paused   *events.Paused  `json:"paused,omitempty" doc:"Who paused the task, since when, and why"`

	LockedBy     string         `json:"locked_by,omitempty" doc:"The node that owns the task while it is live"`
	CompleteBy   events.Instant `json:"complete_by,omitzero" format:"date-time" doc:"The earliest of the running attempts"`
	FailureCount int            `json:"failure_count"`
	Reason       string         `json:"reason,omitempty" doc:"Why it is parked, undoing, undone or terminated, or was not accepted"`

	Left bool `json:"left,omitzero" doc:"An operator skipped the undo of a step: left of the steps says which. In a list only if fields names it, and then only of tasks that are undone, terminated, parked or being undone, or that ran again"`

	Steps []StepDocument `json:"steps" nullable:"false" doc:"All steps of the definition in its order. Items of a fan-out are not in it: GET /v1/tasks/{id}/steps/{step}/items lists them"`

	WaitingFor []WaitingDocument `json:"waiting_for,omitempty" doc:"What steps are waiting for; in a list only if fields names it, and then the first three, without who has the permits of limits"`

	Signals []SignalDocument `json:"signals,omitempty" doc:"The signals that have come and that no step has taken yet, in their order"`

	Request *RequestOutcome `json:"request,omitempty" doc:"What became of the request that the parameter request of a list names"`

	At *AtDocument `json:"at,omitempty" doc:"With the parameter at: the last fact that the document reflects"`

	// only lists the members that are written; nil means all.
	only []string
}

// MarshalJSON writes the requested members.
func (d TaskDocument) MarshalJSON() ([]byte, error) {
	type whole TaskDocument // a type without this method
	b, err := json.Marshal(whole(d))
	if err != nil || d.only == nil {
		return b, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return nil, err
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return !slices.Contains(d.only, name) })
	return json.Marshal(members)
}

// SignalDocument is a signal that no step has taken yet.
type SignalDocument struct {
	Signal       string `json:"signal" doc:"Its name"`
	Request      string `json:"request" doc:"The ID of its request"`
	Fact         string `json:"fact" doc:"The position of its SignalReceived, which the history shows with its time, its payload and who sent it"`
	PayloadBytes int    `json:"payload_bytes" doc:"How long the payload is in the log; 0 without one"`
}

func signalDocuments(t *events.Task) []SignalDocument {
	var list []SignalDocument
	for i := range t.Kept {
		k := &t.Kept[i]
		list = append(list, SignalDocument{Signal: k.Signal, Request: k.Request, Fact: k.Fact.String(), PayloadBytes: len(k.Payload)})
	}
	return list
}

// StepDocument is a step of a task.
type StepDocument struct {
	ID           string          `json:"id"`
	Agent        string          `json:"agent,omitempty"`
	Child        string          `json:"child,omitempty" doc:"The task that does the step, or did its latest attempt"`
	Workflow     string          `json:"workflow,omitempty" doc:"The workflow of the task that does the step, if no agent does it"`
	Operation    string          `json:"operation,omitempty" doc:"The operation of the agent, if it has a name"`
	State        string          `json:"state" enum:"not_started,running,waiting,completed,failed,timed_out,skipped,undoing,undone,undo_failed"`
	Attempt      int             `json:"attempt"`
	StartedAt    events.Instant  `json:"started_at,omitzero" format:"date-time"`
	EndedAt      events.Instant  `json:"ended_at,omitzero" format:"date-time"`
	CompleteBy   events.Instant  `json:"complete_by,omitzero" format:"date-time"`
	RetryAt      events.Instant  `json:"retry_at,omitzero" format:"date-time"`
	StartBy      events.Instant  `json:"start_by,omitzero" format:"date-time" doc:"No attempt starts from then on"`
	FailureCount int             `json:"failure_count"`
	Input        json.RawMessage `json:"input,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	Error        *events.Error   `json:"error,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	With         json.RawMessage `json:"with,omitempty" doc:"The input that an operator gave for all further attempts"`
	Left         bool            `json:"left,omitzero" doc:"In this run or an earlier one, an operator skipped the undo of the step, of one of its children, or of a step inside a child: what that did stays"`
	Continued    bool            `json:"continued,omitzero" doc:"It timed out, or is an item whose failure is tolerated, and the task went on without it"`
	Heartbeat    events.Duration `json:"heartbeat,omitzero" doc:"How long the running attempt may be silent"`
	CapBy        events.Instant  `json:"cap_by,omitzero" format:"date-time" doc:"When the running attempt ends whatever progress it shows"`
	Progress     json.RawMessage `json:"progress,omitempty" doc:"The last progress that was recorded, of any attempt"`
	ProgressedAt events.Instant  `json:"progressed_at,omitzero" format:"date-time"`
	Undo         *UndoDocument   `json:"undo,omitempty"`
	FanOut       *FanOutDocument `json:"fan_out,omitempty" doc:"The items of a step with for, once they have begun"`
}

// UndoDocument is the undo of a step.
type UndoDocument struct {
	State        string         `json:"state"`
	Attempt      int            `json:"attempt"`
	StartedAt    events.Instant `json:"started_at,omitzero" format:"date-time"`
	EndedAt      events.Instant `json:"ended_at,omitzero" format:"date-time"`
	CompleteBy   events.Instant `json:"complete_by,omitzero" format:"date-time"`
	RetryAt      events.Instant `json:"retry_at,omitzero" format:"date-time"`
	StartBy      events.Instant `json:"start_by,omitzero" format:"date-time" doc:"No attempt starts from then on"`
	FailureCount int            `json:"failure_count"`
	Error        *events.Error  `json:"error,omitempty"`
	Skipped      bool           `json:"skipped,omitzero" doc:"An operator skipped it: what the step did in this run is left"`
}

// ParentDocument says which step of another task a task does.
type ParentDocument struct {
	Task  string `json:"task"`
	Step  string `json:"step"`
	Depth int    `json:"depth" doc:"How many ancestors the task has"`
	// Released says that the parent no longer needs the task.
	Released bool `json:"released,omitzero" doc:"The parent no longer needs the task: it is forgotten, or the step was detached"`
}

func parentDocument(p *events.Parent) *ParentDocument {
	if p == nil {
		return nil
	}
	return &ParentDocument{Task: p.Link.Task, Step: p.Link.Path, Depth: p.Depth, Released: !p.Kept()}
}

// documents makes the documents of tasks.
type documents struct {
	definitions Definitions
	tasks       Tasks
	cluster     Cluster
	offers      Offers
	pauses      AgentPauses
	nodes       Nodes
	keys        Keys // nil: what is sealed stays so
	partitions  int32
	namespaceID string
	node        string
	now         func() time.Time
	// past says that this is a copy of the past: nothing is known of the agents that ran then.
	past bool
	log  logger
}

func (s documents) of(ctx context.Context, t *events.Task) (TaskDocument, error) {
	var steps []Step
	if t.Definition != "" { // a child that was not accepted has none
		var err error
		if steps, err = s.definitions.Steps(ctx, t.Definition); err != nil {
			return TaskDocument{}, s.log.internal(ctx, "read the steps of a definition", err)
		}
	}
	t = s.opened(t)
	d := s.brief(t)
	d.Input, d.Output, d.CompleteBy, d.Steps = t.Input, t.Output, t.CompleteBy(), stepDocuments(steps, t)
	d.Left = len(events.LeftOf(t)) > 0
	d.Signals = signalDocuments(t)
	return d, nil
}

// brief returns the members of briefMembers.
func (s documents) brief(t *events.Task) TaskDocument {
	t = s.opened(t)
	d := TaskDocument{
		ID: t.ID, Run: t.Run, Workflow: t.Workflow, Version: t.Version, State: string(t.State), Priority: t.Priority, FairBy: t.FairBy, Labels: t.Labels,
		SubmittedAt: t.SubmittedAt, UpdatedAt: t.UpdatedAt, EndedAt: t.EndedAt, Deadline: t.Deadline, NotBefore: t.NotBefore,
		FailureCount: t.FailureCount, Reason: ReasonOf(t), Paused: t.Paused, Schedule: t.Schedule, Parent: parentDocument(t.Parent),
	}
	if t.State == events.TaskStateError {
		d.ParkedAt = t.ParkedAt
	}
	if !t.State.Ended() {
		d.LockedBy = s.cluster.Owner(events.Home(t.ID, s.partitions))
	}
	return d
}

// ReasonOf returns the reason of a task while it holds: a task that went on keeps its last one.
func ReasonOf(t *events.Task) string {
	switch t.State {
	case events.TaskStateError, events.TaskStateUndoing, events.TaskStateUndone, events.TaskStateTerminated, events.TaskStateRejected:
		return t.Reason
	}
	return ""
}

// size is about how many bytes a task takes in an answer.
func (d *TaskDocument) size() int {
	n := 512 + len(d.Input) + len(d.Output) + 256*(len(d.WaitingFor)+len(d.Signals))
	for i := range d.Steps {
		s := &d.Steps[i]
		n += 256 + len(s.Input) + len(s.Output)
		if s.Error != nil {
			n += len(s.Error.Detail)
		}
	}
	return n
}

// stepDocuments lists the definition's steps in its order, started or not, and then those that only the task has.
func stepDocuments(defined []Step, t *events.Task) []StepDocument {
	list := make([]StepDocument, 0, len(defined))
	listed := make(map[string]bool, len(defined))
	for _, d := range defined {
		listed[d.ID] = true
		doc := StepDocument{ID: d.ID, Agent: d.Agent, Operation: d.Operation, Workflow: d.Workflow, State: string(events.StepStateNotStarted)}
		if s := t.Step(d.ID); s != nil {
			doc = stepDocument(s)
			doc.FanOut = fanOutDocument(t, s)
			doc.Workflow = d.Workflow
			if doc.Agent == "" {
				doc.Agent, doc.Operation = d.Agent, d.Operation
			}
		}
		list = append(list, doc)
	}
	for _, s := range t.Steps {
		if !events.IsItem(s.Path) && !listed[s.Path] {
			doc := stepDocument(s)
			doc.FanOut = fanOutDocument(t, s)
			list = append(list, doc)
		}
	}
	return list
}

func stepDocument(s *events.Step) StepDocument {
	d := StepDocument{
		ID: s.Path, Agent: s.Agent, Child: s.Child(), Operation: s.Function, State: string(s.State), Attempt: s.Attempt, StartedAt: s.StartedAt, EndedAt: s.EndedAt,
		RetryAt: s.RetryAt, StartBy: s.StartBy, FailureCount: s.FailureCount, Input: s.Input, Output: s.Output, Error: s.Error, Reason: s.Reason,
		With: s.With, Left: s.Left, Continued: s.Continued, Progress: s.Progress, ProgressedAt: s.ProgressedAt,
	}
	// The complete-by time belongs to the latest attempt, and means nothing once that has an outcome.
	if s.State == events.StepStateRunning {
		d.CompleteBy, d.EndedAt, d.Heartbeat, d.CapBy = s.CompleteBy, 0, s.Heartbeat, s.CapBy
	}
	if u := s.Undo; u != nil {
		d.Undo = &UndoDocument{
			State: string(u.State), Attempt: u.Attempt, StartedAt: u.StartedAt, EndedAt: u.EndedAt, RetryAt: u.RetryAt, StartBy: u.StartBy,
			FailureCount: u.FailureCount, Error: u.Error, Skipped: u.Skipped,
		}
		if u.State == events.StepStateRunning {
			d.Undo.CompleteBy, d.Undo.EndedAt = u.CompleteBy, 0
		}
	}
	return d
}
