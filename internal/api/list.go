package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/proxy"
)

const (
	// listWithin is how long all nodes together may take for a list.
	listWithin = proxy.AnswerWithin
	// listNodeWithin is how long one node may take for its part: a node that hangs must not use up the time in which the client
	// could have had the others' tasks.
	listNodeWithin = 3 * time.Second
	// listPatience is how long a node may read whole tasks for a page before it ends the page: it is well within listNodeWithin.
	listPatience = time.Second
	// listTries is more than one, because a partition may move after its owner was looked up and before the
	// owner is asked.
	listTries = 2
	// listBytes bounds the documents of one page, except the last one: a thousand tasks with inputs of half a megabyte
	// would otherwise be in memory here, and again where the lists of several nodes are merged.
	listBytes = 16 << 20
)

// briefMembers are the members of a task document that a list answers without reading the steps, the input and the output.
var briefMembers = []string{
	"id", "run", "workflow", "version", "state", "priority", "fair_by", "labels", "submitted_at", "updated_at", "ended_at", "deadline", "parked_at", "not_before",
	"locked_by", "failure_count", "reason", "paused", "schedule", "parent", memberWaiting, memberLeft,
}

// memberWaiting and memberLeft are answered only if they are asked for, because they take a read of each whole task that they can be about, one
// after the other.
const memberWaiting, memberLeft = "waiting_for", "left"

// listedWaits bounds the waits that a list shows of a task, and listedFor the bytes that say what each is for.
const listedWaits, listedFor = 3, 256

// wholeMembers are the others.
var wholeMembers = []string{"input", "output", "complete_by", "steps", "signals", "request"}

// lists answers lists of tasks: from this node's store for another node, from the stores of all nodes for a client.
type lists struct {
	list       Lists
	documents  documents
	proxy      *proxy.Proxy
	router     proxy.Router
	partitions int32
	room       listRoom
	now        func() time.Time
	log        logger
}

// ListQuery filters the list of tasks.
type ListQuery struct {
	State    []string  `query:"state,explode" doc:"pending, processing, processed, undoing, undone or error, also called parked; several, repeated or with commas between them, mean any of these"`
	Workflow string    `query:"workflow" doc:"The name of a workflow"`
	Label    []string  `query:"label,explode" doc:"key:value; several must all be there"`
	Since    string    `query:"since" doc:"Submitted at or after this instant, or this long ago" example:"24h"`
	Until    string    `query:"until" doc:"Submitted before this instant, or this long ago"`
	Schedule string    `query:"schedule" doc:"Only the tasks that this schedule started. A page may then be short, or empty, and still have a next"`
	Parent   string    `query:"parent" doc:"Only the children of this task, including detached ones and those of earlier tries. A page may then be short, or empty, and still have a next"`
	Failed   string    `query:"failed_step" doc:"The last attempt of this step, or of its undo, has failed. A page may then be short, or empty, and still have a next"`
	Code     string    `query:"error_code" doc:"The code of such an error, or its class if it has no code: with failed_step of that step, otherwise of any" example:"http_503"`
	Older    string    `query:"older_than" doc:"Has not changed since this instant, or for this long" example:"1h"`
	Waiting  string    `query:"waiting_for" doc:"What a step of the task, or the task as a whole, waits for: one of the kinds of waiting_for in a task. Each live task is read until a page is full, so a page may be short, or empty, and still have a next" example:"signal"`
	Agent    string    `query:"agent" doc:"A step of the task waits for this agent, be it missing, busy or paused; with waiting_for: in that way. A page may then be short, or empty, and still have a next"`
	Request  string    `query:"request" doc:"The ID of a request, job/ID for that of a job: only the tasks that have judged it, each with the outcome. A page may then be short, or empty, and still have a next"`
	Fields   []string  `query:"fields" doc:"The members of each task that are answered, with commas between them; all without it. A list without input, output, complete_by and steps does not read these, so it is fast for large tasks" example:"id,state,workflow,updated_at"`
	Limit    pageLimit `query:"limit" default:"100" doc:"Tasks a page"`
	Cursor   string    `query:"cursor" doc:"next of the page before"`
}

// TaskList is one page of tasks.
type TaskList struct {
	Tasks   []TaskDocument     `json:"tasks" nullable:"false" doc:"The newest first"`
	Next    string             `json:"next,omitempty" doc:"The cursor of the next page; absent on the last. While partitions are missing there is always one"`
	AsOf    []PartitionOffset  `json:"as_of,omitempty" doc:"How far the log of each partition was folded where it was read; end_offset of GET /v1/partitions shows how far that is behind"`
	Missing []MissingPartition `json:"missing,omitempty" doc:"The partitions whose tasks this page lacks; next begins there where this page would have begun"`
}

// PartitionOffset is how far a partition was folded.
type PartitionOffset struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset" doc:"The next offset to fold"`
}

// MissingPartition is a partition that could not be read.
type MissingPartition struct {
	Partition int32  `json:"partition"`
	Input     string `json:"input,omitempty" enum:"submissions,reports" doc:"For dead letters: the input that the partition is of"`
	Reason    string `json:"reason" enum:"taking-over,stopped,unavailable" doc:"taking-over: another node takes it over, or its owner does not answer; stopped: its owner cannot go on with it; unavailable: the Kafka brokers do not answer for it"`
	Detail    string `json:"detail,omitempty" doc:"Why it is stopped"`
}

// ListAnswer is a page of tasks.
type ListAnswer struct{ Body TaskList }

// TransformSchema describes the tasks of a list: if the query names fields, each task has only those members.
func (TaskList) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	tasks := *s.Properties["tasks"]
	listed := *r.SchemaFromRef(tasks.Items.Ref)
	listed.Required = nil
	r.Map()["ListedTask"] = &listed
	tasks.Items = &huma.Schema{Ref: strings.TrimSuffix(tasks.Items.Ref, "TaskDocument") + "ListedTask"}
	s.Properties["tasks"] = &tasks
	return s
}

func (s *lists) register(api huma.API) {
	list := needsOwner(api, huma.Operation{
		OperationID: "list-tasks", Method: http.MethodGet, Path: "/v1/tasks", Summary: "List tasks", Tags: []string{"tasks"},
		Description: "A page may be shorter than its limit and still have a next, as it ends early when its tasks are large. " +
			"All lists share a bound of memory: one that finds it full waits, and is then answered 503 with Retry-After. " +
			"A partition that cannot be read is named in missing, and the page holds the tasks of the others. Its tasks are not lost to a walk: next remembers where " +
			"they continue, and a later page holds them, which is then out of order with the earlier pages. If no partition of the page can be read, the answer is 503.",
	})
	huma.Register(api, list, s.read)
}

func (s *lists) read(ctx context.Context, in *ListQuery) (*ListAnswer, error) {
	q, err := s.query(in)
	if err != nil {
		return nil, err
	}
	asked, ok := s.proxy.Asked(exchangeOf(ctx).r)
	if !ok {
		return nil, parameterProblem(proxy.HeaderPartitions, "is not a list of partitions")
	}
	if err := s.room.enter(ctx, q, asked != nil); err != nil {
		return nil, err
	}
	out := &ListAnswer{}
	if asked != nil {
		out.Body, err = s.readFor(ctx, q, asked)
	} else {
		out.Body, err = s.readAll(ctx, q)
	}
	if err != nil {
		return nil, s.log.internal(ctx, "list tasks", err)
	}
	if asked == nil { // another node needs the members by which it merges
		for i := range out.Body.Tasks {
			out.Body.Tasks[i].only = q.Fields
		}
	}
	return out, nil
}

// readFor answers the list request of another node, either for all partitions that it asks about or not at all.
func (s *lists) readFor(ctx context.Context, q Query, asked []int32) (TaskList, error) {
	moved := func() error {
		if away := s.proxy.Away(asked); len(away) > 0 {
			return takeoverProblem(away...).with(proxy.HeaderMoved, "1")
		}
		return nil
	}
	if err := moved(); err != nil {
		return TaskList{}, err
	}
	q.Partitions = asked
	list, err := s.readHere(ctx, q)
	// The second look comes last: a partition that has left by then may have been incomplete when it was read.
	if err := moved(); err != nil {
		return TaskList{}, err
	}
	return list, err
}

// refusal returns the problem with which another node refused the question, or nil for other
// errors.
func refusal(err error) *Problem {
	refused, ok := errors.AsType[*proxy.RefusedError](err)
	if !ok {
		return nil
	}
	p := new(Problem)
	if json.Unmarshal(refused.Body, p) != nil || p.Status != refused.Status {
		return nil
	}
	p.Instance = ""
	return p
}

// readHere lists from this node's store.
func (s *lists) readHere(ctx context.Context, q Query) (TaskList, error) {
	read := q
	read.Brief = q.Brief && !q.waits()
	page, err := s.list.List(ctx, read)
	if errors.Is(err, ErrBadCursor) {
		return TaskList{}, parameterProblem("cursor", "is not a cursor of this list")
	}
	if err != nil {
		return TaskList{}, fmt.Errorf("read the list of tasks: %w", err)
	}
	if q.Request != "" {
		page.Tasks = judgedBy(page.Tasks, q.Request)
	}
	list := TaskList{Tasks: make([]TaskDocument, 0, len(page.Tasks)), Next: page.Next, AsOf: page.AsOf}
	size, look, begun := 0, s.documents.look(true), time.Now()
	for i, t := range page.Tasks {
		if size > listBytes || i > 0 && time.Since(begun) > listPatience {
			list.Next = s.list.Cursor(t.ID, t.SubmittedAt)
			break
		}
		if fits, err := s.waitsAs(ctx, &q, t, look); err != nil {
			return TaskList{}, err
		} else if !fits {
			continue
		}
		d, read, err := s.document(ctx, q, t, look)
		if err != nil {
			return TaskList{}, err
		}
		size += d.size() + read
		list.Tasks = append(list.Tasks, d)
	}
	return list, nil
}

// document returns the document of a task, and how many more bytes were read to make it.
func (s *lists) document(ctx context.Context, q Query, t *events.Task, l look) (d TaskDocument, read int, err error) {
	if q.Brief {
		if t, err = s.documents.whole(ctx, t); err != nil {
			return d, 0, err
		}
		d = s.documents.brief(t)
	} else if d, err = s.documents.of(ctx, t); err != nil {
		return d, 0, err
	} else {
		read = bytesOfItems(t)
	}
	if r, ok := t.Request(q.Request); ok && !q.Brief {
		d.Request = &RequestOutcome{Request: r.ID}
		d.Request.judged(r)
	}
	waits, left := !t.State.Ended() && slices.Contains(q.Fields, memberWaiting), mayHaveLeft(t) && slices.Contains(q.Fields, memberLeft)
	if !waits && !left {
		return d, read, nil
	}
	if q.Brief && !q.waits() { // it lacks the steps
		if t, err = s.documents.tasks.Task(ctx, t.ID); err != nil {
			return d, 0, fmt.Errorf("read a task: %w", err)
		}
	}
	if t == nil {
		return d, read, nil
	}
	if read += len(t.Input); q.Brief {
		for _, step := range t.Steps {
			read += stepBytes(step)
		}
	}
	if d.Left = left && len(events.LeftOf(t)) > 0; !waits {
		return d, read, nil
	}
	d.WaitingFor, err = s.documents.waiting(ctx, t, l)
	d.WaitingFor = d.WaitingFor[:min(len(d.WaitingFor), listedWaits)]
	for i := range d.WaitingFor {
		d.WaitingFor[i].For = events.Clip(d.WaitingFor[i].For, listedFor)
	}
	return d, read, err
}

// mayHaveLeft says whether a list looks for what an operator left of the task. A task that was never undone leaves something only of items whose
// failure was tolerated; to find these, a list would have to read each processed task.
func mayHaveLeft(t *events.Task) bool {
	switch t.State {
	case events.TaskStateUndone, events.TaskStateUndoing, events.TaskStateError, events.TaskStateTerminated:
		return true
	}
	return t.Run > 1
}

var taskStates = []string{
	string(events.TaskStatePending), string(events.TaskStateProcessing), string(events.TaskStateProcessed),
	string(events.TaskStateUndoing), string(events.TaskStateUndone), string(events.TaskStateError), string(events.TaskStateTerminated),
	string(events.TaskStateRejected),
}

func (s *lists) query(in *ListQuery) (Query, error) {
	q := Query{Workflow: in.Workflow, Limit: int(in.Limit), Cursor: in.Cursor}
	var faults []ProblemPlace
	fault := func(parameter, format string, args ...any) {
		faults = append(faults, ProblemPlace{Parameter: parameter, Message: fmt.Sprintf(format, args...)})
	}
	var ok bool
	if q.States, ok = parseStates(in.State); !ok {
		fault("state", "is not a state; the states are %s; %s means %s", strings.Join(taskStates, ", "), stateParked, events.TaskStateError)
	}
	q.setWaits(in, fault)
	if p := requestParameter(in.Request); p != nil {
		faults = append(faults, p.Errors...)
	}
	q.Request = in.Request
	q.Fields, q.Brief = in.Fields, len(in.Fields) > 0 && q.Request == ""
	for _, name := range in.Fields {
		whole := slices.Contains(wholeMembers, name)
		q.Brief = q.Brief && !whole
		if !whole && !slices.Contains(briefMembers, name) {
			fault("fields", "has a name that is not a member; the members are %s, %s", strings.Join(briefMembers, ", "), strings.Join(wholeMembers, ", "))
			break
		}
	}
	for _, l := range in.Label {
		k, v, ok := strings.Cut(l, ":")
		if !ok || k == "" {
			fault("label", "is not key:value")
			continue
		}
		if q.Labels == nil {
			q.Labels = map[string]string{}
		}
		q.Labels[k] = v
	}
	var err error
	if q.Since, err = s.instant(in.Since); err != nil {
		fault("since", "%s", err)
	}
	if q.Until, err = s.instant(in.Until); err != nil {
		fault("until", "%s", err)
	}
	q.Match = events.TaskMatch{Schedule: in.Schedule, Parent: in.Parent, FailedStep: in.Failed, ErrorCode: in.Code}
	if q.Match.ChangedBy, err = s.instant(in.Older); err != nil {
		fault("older_than", "%s", err)
	}
	if len(faults) > 0 {
		return q, problem(http.StatusUnprocessableEntity, codeInvalid, "The request has parameters that cannot be used.", faults...)
	}
	return q, nil
}

// stateParked is the word by which people and our texts call the state error.
const stateParked = "parked"

func parseStates(given []string) ([]events.TaskState, bool) {
	var states []events.TaskState
	for _, list := range given {
		for state := range strings.SplitSeq(list, ",") {
			if state == stateParked {
				state = string(events.TaskStateError)
			}
			switch {
			case state == "" && list == "": // an empty parameter does not filter
			case !slices.Contains(taskStates, state):
				return nil, false
			case !slices.Contains(states, events.TaskState(state)):
				states = append(states, events.TaskState(state))
			}
		}
	}
	return states, true
}

// instant reads an instant, or a duration before now.
func (s *lists) instant(text string) (events.Instant, error) {
	if text == "" {
		return 0, nil
	}
	if i, err := events.ParseInstant(text); err == nil {
		return i, nil
	}
	if d, err := events.ParseDuration(text); err == nil && d >= 0 {
		return events.At(s.now().Add(-d.Std())), nil
	}
	return 0, errors.New("is neither an instant such as 2026-11-21T14:00:00Z nor a duration such as 24h")
}

// values returns the query as parameters for another node, with instants for durations.
func (q *Query) values() url.Values {
	v := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	states := make([]string, len(q.States))
	for i, state := range q.States {
		states[i] = string(state)
	}
	set("state", strings.Join(states, ",")) // a node of an older version refuses this form; if the parameter were repeated, it would take only the first
	set("workflow", q.Workflow)
	set("cursor", q.Cursor)
	set("request", q.Request)
	set("schedule", q.Match.Schedule)
	set("parent", q.Match.Parent)
	set("failed_step", q.Match.FailedStep)
	set("error_code", q.Match.ErrorCode)
	set("waiting_for", string(q.WaitingFor))
	set("agent", q.Agent)
	set("fields", strings.Join(q.Fields, ","))
	for k, value := range q.Labels {
		v.Add("label", k+":"+value)
	}
	if q.Since != 0 {
		v.Set("since", q.Since.String())
	}
	if q.Until != 0 {
		v.Set("until", q.Until.String())
	}
	if q.Match.ChangedBy != 0 {
		v.Set("older_than", q.Match.ChangedBy.String())
	}
	return v
}
