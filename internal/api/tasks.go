package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

var problemReflected = reflect.TypeFor[Problem]()

// TaskPath is the path of a task.
type TaskPath struct {
	ID string `path:"id" doc:"The task's ID, percent-encoded"`
}

// ReceiptAnswer is a receipt with its status.
type ReceiptAnswer struct {
	Status   int
	Location string `header:"Location"`
	Body     Receipt
}

// TaskAnswer is a task.
type TaskAnswer struct{ Body TaskDocument }

// TaskQuery says how long to wait for what.
type TaskQuery struct {
	TaskPath
	Token string `query:"token" doc:"Of a submission or request: the answer is not older than it"`
	Wait  string `query:"wait" doc:"Return when the task has ended or is parked, or after this time, at most 60s" example:"5s"`
}

// ListQuery filters the list of tasks.
type ListQuery struct {
	State    string   `query:"state" doc:"pending, processing, processed, undoing, undone or error"`
	Workflow string   `query:"workflow" doc:"The name of a workflow"`
	Label    []string `query:"label,explode" doc:"key:value; several must all be there"`
	Since    string   `query:"since" doc:"Submitted at or after this instant, or this long ago" example:"24h"`
	Until    string   `query:"until" doc:"Submitted before this instant, or this long ago"`
	Limit    int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Tasks a page"`
	Cursor   string   `query:"cursor" doc:"next of the page before"`
}

// TaskList is one page of tasks.
type TaskList struct {
	Tasks []TaskDocument `json:"tasks" nullable:"false" doc:"The newest first"`
	Next  string         `json:"next,omitempty" doc:"The cursor of the next page; absent on the last"`
}

// ListAnswer is a page of tasks.
type ListAnswer struct{ Body TaskList }

var submissionExample = map[string]any{
	"workflow": "drone-delivery", "input": map[string]any{"ownerId": "o-7"}, "labels": map[string]any{"region": "north"}, "deadline": "10m",
}

func (s *Server) registerTasks(api huma.API) {
	put := operation(api, huma.Operation{
		OperationID: "put-task", Method: http.MethodPut, Path: "/v1/tasks/{id}", Summary: "Submit a task", Tags: []string{"tasks"},
		DefaultStatus: http.StatusAccepted,
		Description: "202 once the log holds it, 200 where the same submission was known already, 409 where another one holds the ID. " +
			"The log decides: a conflict that is not known yet, or to another node only, is answered 202 and becomes a dead letter, which the token tells.",
	})
	huma.Register(api, put, func(ctx context.Context, in *TaskPath) (*ReceiptAnswer, error) {
		if err := checkID(in.ID); err != nil {
			return nil, err
		}
		return s.submit(ctx, exchangeOf(ctx), in.ID)
	})
	post := operation(api, huma.Operation{
		OperationID: "post-task", Method: http.MethodPost, Path: "/v1/tasks", Summary: "Submit a task, or many", Tags: []string{"tasks"},
		DefaultStatus: http.StatusAccepted,
		Description: "As JSON like PUT; without id a UUIDv7 is generated. As application/x-ndjson one submission a line: the answer is " +
			"200 and NDJSON too, a line for each in their order, {\"line\",\"id\",\"status\",\"partition\",\"offset\"} or a problem with line and id.",
	})
	huma.Register(api, post, func(ctx context.Context, _ *struct{}) (*ReceiptAnswer, error) {
		return s.submit(ctx, exchangeOf(ctx), "")
	})
	get := mayMove(api, huma.Operation{
		OperationID: "get-task", Method: http.MethodGet, Path: "/v1/tasks/{id}", Summary: "Read a task", Tags: []string{"tasks"},
		Description: "With a token it waits until that input was judged, 5 s or as long as wait says. If it was not judged by then the answer is 503 " +
			"with Retry-After and the code not-yet; if it was rejected, 409 or 422 with the code rejected or conflict and the reason. " +
			"A wait goes on at the next owner when its partition is taken over meanwhile.",
	})
	huma.Register(api, get, s.getTask)
	list := mayMove(api, huma.Operation{
		OperationID: "list-tasks", Method: http.MethodGet, Path: "/v1/tasks", Summary: "List tasks", Tags: []string{"tasks"},
		Description: "A page may be shorter than its limit and still have a next. While the owner of a partition cannot be asked the answer is 503, " +
			"which names the partitions: no task is left out in silence.",
	})
	huma.Register(api, list, s.listTasks)
	submission := described{reflect.TypeFor[events.Submission](), submissionExample}
	describeBody(api, "/v1/tasks/{id}", http.MethodPut, submission, contentJSON)
	describeBody(api, "/v1/tasks", http.MethodPost, submission, contentJSON, contentNDJSON)
	for _, op := range []*huma.Operation{api.OpenAPI().Paths["/v1/tasks/{id}"].Put, api.OpenAPI().Paths["/v1/tasks"].Post} {
		known := *op.Responses["202"]
		known.Description = "It was there already; for NDJSON, the fates of the lines"
		op.Responses["200"] = &known
	}
}

func checkID(id string) error {
	if err := events.CheckTaskID(id); err != nil {
		var m *events.MemberError
		errors.As(err, &m)
		return problem(http.StatusUnprocessableEntity, codeInvalid, "The task ID of the path cannot be used.",
			ProblemPlace{Parameter: "id", Message: m.Message})
	}
	return nil
}

func taskPath(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

func (s *Server) getTask(ctx context.Context, in *TaskQuery) (*TaskAnswer, error) {
	if err := checkID(in.ID); err != nil {
		return nil, err
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	var tok token
	if in.Token != "" {
		if tok, err = s.awaitToken(ctx, in.ID, in.Token, wait); err != nil {
			return nil, err
		}
	}
	var t *events.Task
	if wait != nil && *wait > 0 {
		t, err = s.awaitEnd(ctx, in.ID, *wait-time.Since(start))
	} else {
		t, err = s.cfg.Tasks.Task(ctx, in.ID)
	}
	if err != nil {
		return nil, s.internal(ctx, "read a task", err)
	}
	if in.Token != "" {
		if p := s.rejection(ctx, tok, t); p != nil {
			return nil, p
		}
	}
	if t == nil {
		return nil, taskNotFound()
	}
	doc, err := s.document(ctx, t)
	if err != nil {
		return nil, err
	}
	return &TaskAnswer{Body: doc}, nil
}

func taskNotFound() *Problem {
	return problem(http.StatusNotFound, codeNotFound, "No task of this ID is known.")
}

func parseWait(text string) (*time.Duration, error) {
	if text == "" {
		return nil, nil
	}
	d, err := events.ParseDuration(text)
	if err != nil || d < 0 {
		return nil, parameterProblem("wait", "is not a duration such as 5s")
	}
	w := min(d.Std(), MaxWait)
	return &w, nil
}

func parameterProblem(name, message string) *Problem {
	return problem(http.StatusUnprocessableEntity, codeInvalid, "The request has parameters that cannot be used.",
		ProblemPlace{Parameter: name, Message: message})
}

// awaitToken returns when the input of the token was judged.
func (s *Server) awaitToken(ctx context.Context, id, text string, wait *time.Duration) (token, error) {
	t, ok := parseToken(text)
	if !ok || t.partition >= s.cfg.Partitions {
		return t, parameterProblem("token", "is not a token of this API")
	}
	if t.partition != events.Home(id, s.cfg.Partitions) {
		return t, parameterProblem("token", "is not a token of this task")
	}
	if t.offset < 0 {
		return t, nil
	}
	limit := DefaultTokenWait
	if wait != nil {
		limit = *wait
	}
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	bounded, done := context.WithTimeout(ctx, limit)
	defer done()
	err := s.cfg.Tasks.WaitPassed(bounded, t.input, t.partition, t.offset)
	switch {
	case err == nil:
		return t, nil
	case bounded.Err() != nil:
		return t, problem(http.StatusServiceUnavailable, codeNotYet,
			"The log holds it, and its partition has not come to it yet. Ask again with the same token.").retryAfter(time.Second)
	}
	return t, s.internal(ctx, "wait for a token", err)
}

// rejection tells why the input of a token had no effect, nil if it had.
func (s *Server) rejection(ctx context.Context, tok token, t *events.Task) error {
	if t != nil {
		switch {
		case tok.mark == "", tok.offset < 0:
			return nil
		case tok.input == events.Submissions && t.Content == tok.mark:
			return nil // it is the one that stands, or a repeat of it
		case tok.input == events.Submissions:
			p := conflictProblem()
			p.Reason = events.RejectConflict
			return p
		case t.HasRequest(tok.mark):
			return nil
		}
	}
	r, err := s.cfg.Rejections.Rejection(ctx, tok.input, tok.partition, tok.offset)
	if err != nil {
		return s.internal(ctx, "look up a rejection", err)
	}
	if r == nil {
		return nil
	}
	status := http.StatusUnprocessableEntity
	if r.Reason == events.RejectConflict || r.Reason == events.RejectRefused {
		status = http.StatusConflict
	}
	p := problem(status, codeRejected, "The log rejected it: "+strings.ReplaceAll(r.Reason, "_", " ")+detail(r.Detail)+". The dead letters hold it.")
	p.Reason = r.Reason
	return p
}

func detail(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// settled says whether nothing but an operator will change the task: it ended, or it is parked.
func settled(t *events.Task) bool { return t != nil && (t.State.Ended() || t.State == events.Parked) }

// awaitEnd returns the task when it has settled or the time is over; nil if it is not known even then.
func (s *Server) awaitEnd(ctx context.Context, id string, wait time.Duration) (*events.Task, error) {
	waiting, cancel := s.untilStop(ctx)
	defer cancel()
	waiting, done := context.WithTimeout(waiting, max(0, wait))
	defer done()
	for {
		changed := s.cfg.Tasks.Changed(id)
		t, err := s.cfg.Tasks.Task(ctx, id)
		if err != nil || settled(t) {
			return t, err
		}
		select {
		case <-changed:
		case <-waiting.Done():
			return s.cfg.Tasks.Task(ctx, id)
		}
		pause(waiting, lookPause)
	}
}

// lookPause bounds how often a waiting reader looks at its task: a busy partition commits hundreds of times a second,
// and nearly all of that is about other tasks.
const lookPause = 20 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (s *Server) listTasks(ctx context.Context, in *ListQuery) (*ListAnswer, error) {
	q, err := s.query(in)
	if err != nil {
		return nil, err
	}
	asked, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	out := &ListAnswer{}
	if asked != nil {
		out.Body, err = s.listOf(ctx, q, asked)
	} else {
		out.Body, err = s.listAll(ctx, q)
	}
	if err != nil {
		return nil, s.internal(ctx, "list tasks", err)
	}
	return out, nil
}

// listBytes bounds the documents of one page, beside its last: a thousand tasks with inputs of half a megabyte would
// else be held in memory here, and again where the lists of several nodes are merged.
const listBytes = 16 << 20

// listHere lists from this node's store.
func (s *Server) listHere(ctx context.Context, q Query) (TaskList, error) {
	page, err := s.cfg.Tasks.List(ctx, q)
	if errors.Is(err, ErrBadCursor) {
		return TaskList{}, parameterProblem("cursor", "is not a cursor of this list")
	}
	if err != nil {
		return TaskList{}, fmt.Errorf("read the list of tasks: %w", err)
	}
	list := TaskList{Tasks: make([]TaskDocument, 0, len(page.Tasks)), Next: page.Next}
	size := 0
	for _, t := range page.Tasks {
		if size > listBytes {
			list.Next = s.cfg.Tasks.Cursor(t.ID, t.SubmittedAt)
			break
		}
		d, err := s.document(ctx, t)
		if err != nil {
			return TaskList{}, err
		}
		size += d.size()
		list.Tasks = append(list.Tasks, d)
	}
	return list, nil
}

var taskStates = []string{
	string(events.Pending), string(events.Processing), string(events.Processed),
	string(events.Undoing), string(events.Undone), string(events.Parked),
}

func (s *Server) query(in *ListQuery) (Query, error) {
	q := Query{State: events.TaskState(in.State), Workflow: in.Workflow, Limit: in.Limit, Cursor: in.Cursor}
	var faults []ProblemPlace
	fault := func(parameter, format string, args ...any) {
		faults = append(faults, ProblemPlace{Parameter: parameter, Message: fmt.Sprintf(format, args...)})
	}
	if in.State != "" && !slices.Contains(taskStates, in.State) {
		fault("state", "is not a state; %s", events.Suggest(in.State, taskStates))
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
	if len(faults) > 0 {
		return q, problem(http.StatusUnprocessableEntity, codeInvalid, "The request has parameters that cannot be used.", faults...)
	}
	return q, nil
}

// instant reads an instant, or a duration before now.
func (s *Server) instant(text string) (events.Instant, error) {
	if text == "" {
		return 0, nil
	}
	if i, err := events.ParseInstant(text); err == nil {
		return i, nil
	}
	if d, err := events.ParseDuration(text); err == nil && d >= 0 {
		return events.At(s.cfg.Now().Add(-d.Std())), nil
	}
	return 0, errors.New("is neither an instant such as 2026-11-21T14:00:00Z nor a duration such as 24h")
}
