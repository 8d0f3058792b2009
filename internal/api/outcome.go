package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

const outcomePath = "/v1/requests/{request}"

// The results of a request.
const (
	resultGranted = "granted"
	resultRefused = "refused"
	resultHeld    = "held"
	resultUnknown = "unknown"
)

// RequestOutcome says what became of a request.
type RequestOutcome struct {
	Request  string      `json:"request" doc:"The ID of the request"`
	Verb     events.Verb `json:"verb,omitempty" doc:"What it asks for; absent if that is not known"`
	Task     string      `json:"task,omitempty" doc:"The task's ID"`
	Result   string      `json:"result,omitempty" enum:"granted,refused,held,unknown" doc:"held: the request waits for its task, which was not submitted yet; unknown: the task has not judged such a request, or is not known. Absent from an answer that did not wait"`
	Reason   string      `json:"reason,omitempty" doc:"Why it was refused, and what to do"`
	Position string      `json:"position,omitempty" doc:"The position of the fact that grants or refuses it"`
	State    string      `json:"state,omitempty" doc:"The state of the task now"`
}

// OutcomeQuery names a request.
type OutcomeQuery struct {
	Request string `path:"request" doc:"The ID of the request"`
	Task    string `query:"task" required:"true" doc:"The task's ID"`
}

// OutcomeAnswer is the outcome of a request.
type OutcomeAnswer struct{ Body RequestOutcome }

func (s *requests) registerOutcome(api huma.API) {
	op := needsOwner(api, huma.Operation{
		OperationID: "get-request", Method: http.MethodGet, Path: outcomePath, Summary: "Ask what became of a request", Tags: []string{"tasks"},
		Description: "A task remembers the requests that it granted or refused for as long as it is remembered itself.",
	})
	huma.Register(api, op, s.outcome)
}

func (s *requests) outcome(ctx context.Context, in *OutcomeQuery) (*OutcomeAnswer, error) {
	if err := checkID(in.Task); err != nil {
		return nil, err
	}
	t, err := s.tasks.Task(ctx, in.Task)
	if err != nil {
		return nil, s.log.internal(ctx, "read a task", err)
	}
	out := RequestOutcome{Request: in.Request, Task: in.Task, Result: resultUnknown}
	if t != nil {
		out.State = string(t.State)
		if r, ok := t.Request(in.Request); ok {
			out.judged(r)
			return &OutcomeAnswer{out}, nil
		}
	}
	held, err := s.held(ctx, in.Task, in.Request, t)
	if err != nil {
		return nil, err
	}
	if held != nil {
		out.Result, out.Verb = resultHeld, held.Kind
	}
	return &OutcomeAnswer{out}, nil
}

// held returns the request if it is held: for a task that is not known, or that has not judged it yet.
func (s *requests) held(ctx context.Context, task, id string, t *events.Task) (*events.Request, error) {
	if t == nil {
		held, err := s.tasks.Held(ctx, task, id)
		if err != nil {
			return nil, s.log.internal(ctx, "look up a held request", err)
		}
		return held, nil
	}
	for i := range t.Held {
		if t.Held[i].ID == id {
			return &t.Held[i], nil
		}
	}
	return nil, nil
}

func (o *RequestOutcome) judged(r events.JudgedRequest) {
	o.Verb, o.Position, o.Reason, o.Result = r.Verb, r.Fact.String(), r.Refused, resultGranted
	if r.Refused != "" {
		o.Result = resultRefused
	}
}

// judgedAnswer answers a request that was judged.
func judgedAnswer(receipt RequestReceipt, t *events.Task, r events.JudgedRequest) (*RequestAnswer, error) {
	if r.Verb != receipt.Verb {
		return nil, problem(http.StatusConflict, codeConflict, fmt.Sprintf("The request ID %q is that of an earlier %s of this task: give this %s another one.", receipt.Request, r.Verb, receipt.Verb))
	}
	if r.Refused != "" {
		return nil, refusedProblem(r.Refused, t.State)
	}
	receipt.judged(r)
	receipt.State = string(t.State)
	return &RequestAnswer{Status: http.StatusOK, Body: receipt}, nil
}

// refusedProblem says why a request is refused.
func refusedProblem(reason string, state events.TaskState) *Problem {
	p := problem(http.StatusConflict, codeRefused, "The request is refused: "+reason)
	p.Reason, p.State = reason, string(state)
	return p
}

// awaitJudged waits until the request at that offset has been judged, or the time is up, and says what became of it.
func (s *requests) awaitJudged(ctx context.Context, receipt RequestReceipt, offset int64, wait time.Duration) (*RequestAnswer, error) {
	waiting, cancel := s.life.until(ctx)
	defer cancel()
	bounded, done := context.WithTimeout(waiting, wait)
	defer done()
	later := &RequestAnswer{Status: http.StatusAccepted, Body: receipt}
	if err := s.inputs.WaitPassed(bounded, events.Reports, receipt.Partition, offset); err != nil {
		if bounded.Err() != nil {
			return later, nil
		}
		return nil, s.log.internal(ctx, "wait for a request", err)
	}
	t, err := s.tasks.Task(ctx, receipt.ID)
	if err != nil {
		return nil, s.log.internal(ctx, "read a task", err)
	}
	if t != nil {
		if r, ok := t.Request(receipt.Request); ok {
			return judgedAnswer(receipt, t, r)
		}
	}
	rejected, err := s.rejections.Rejection(ctx, events.Reports, receipt.Partition, offset)
	if err != nil {
		return nil, s.log.internal(ctx, "look up a rejection", err)
	}
	if rejected != nil {
		state := events.TaskState("")
		if t != nil {
			state = t.State
		}
		return nil, refusedProblem(rejected.Detail, state)
	}
	if held, err := s.held(ctx, receipt.ID, receipt.Request, t); err != nil {
		return nil, err
	} else if held != nil {
		later.Body.Result = resultHeld
	}
	return later, nil
}
