package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/pause"
)

// Request is what all requests about a task have in common.
type Request struct {
	// RequestID identifies the request: the same one again changes nothing, so a request whose answer was lost can be repeated. Default: a
	// UUIDv7, which is in the answer.
	RequestID string
	// Reason is for the history.
	Reason string
}

// Granted is the engine's answer to a request that it carries out.
type Granted struct {
	// RequestID is that of the request. It is also set if the call returns an error.
	RequestID string
	// State is the state of the task after the request.
	State State
	// Held says that the request waits for its task, which nobody has submitted yet. A signal is held for a day. A cancel is held for ten
	// minutes, if the engine could not find out in time whether its task exists; otherwise it gets ErrNotFound.
	Held bool
}

// Retry is a request to retry failed steps.
type Retry struct {
	// RequestID and Reason are as in Request.
	RequestID, Reason string
	// Step is the one to retry; default: each step that failed.
	Step string
	// Attempt, if it is not 0, makes the engine refuse unless this is the latest attempt of Step.
	Attempt int
	// With, if given, is the input of all further attempts of the one step that is retried, or of its undo, as JSON.
	With json.RawMessage
}

// Rerun is a request to run a task once more.
type Rerun struct {
	// RequestID and Reason are as in Request.
	RequestID, Reason string
	// From is the step from which the task runs once more; default: all steps.
	From string
	// Input, if given, is the task's input from then on, as JSON.
	Input json.RawMessage
}

// Decision is a request that settles a step by hand.
type Decision struct {
	// RequestID and Reason are as in Request.
	RequestID, Reason string
	// Step is the step.
	Step string
	// Operation is "do" or "undo"; default: undo if the task is being undone, otherwise do.
	Operation string
	// Output is what later steps see, as JSON; default null.
	Output json.RawMessage
}

// Failure is a request to end an attempt as failed.
type Failure struct {
	// RequestID and Reason are as in Request.
	RequestID, Reason string
	// Step is the step.
	Step string
	// Operation is "do" or "undo"; default: undo if the task is being undone and no attempt of the do runs, otherwise do.
	Operation string
	// Error is what the history says of the attempt; default: class permanent, with Reason as its message.
	Error *StepError
	// Effect is what the attempt may have changed outside: "none", "done_unknown" (something, but nothing is under way any more) or
	// "in_doubt", the default, with which nothing is undone before the attempt's complete-by time.
	Effect string
}

// Signal is a message to a step that waits for one.
type Signal struct {
	// RequestID and Reason are as in Request.
	RequestID, Reason string
	// Name is the one that the step waits for.
	Name string
	// Payload is JSON; default null. The output of the step is an object with the name as signal, and the payload as payload.
	Payload json.RawMessage
}

// body has the members of all requests. The engine refuses members that a verb does not take, so those that are not given are left out.
type body struct {
	Reason    string          `json:"reason,omitempty"`
	Step      string          `json:"step,omitempty"`
	Attempt   int             `json:"attempt,omitempty"`
	With      json.RawMessage `json:"with,omitempty"`
	From      string          `json:"from,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Operation string          `json:"operation,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Error     *failError      `json:"error,omitempty"`
	Effect    string          `json:"effect,omitempty"`
	Signal    string          `json:"signal,omitempty"`
	Payload   json.RawMessage `json:"payload,omitempty"`
}

type failError struct {
	Class   string `json:"class,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Cancel undoes a task. It is refused past the pivot, the point of no return, and if the task is parked because an undo failed.
//
// Like all requests it returns when the engine has granted or refused it, or when ctx ends. ErrRefused: the task does not allow it now, and *Error.Reason says
// why. ErrNotFound: no such task is known. ErrUnavailable: it is not known what became of it, so repeat it with Granted.RequestID.
func (e *Engine) Cancel(ctx context.Context, task string, r Request) (Granted, error) {
	return e.ask(ctx, asking{task, events.RequestCancel, r.RequestID}, body{Reason: r.Reason})
}

// Pause lets the running attempts of a task finish, and starts nothing else of it until Resume or Cancel.
func (e *Engine) Pause(ctx context.Context, task string, r Request) (Granted, error) {
	return e.ask(ctx, asking{task, events.RequestPause, r.RequestID}, body{Reason: r.Reason})
}

// Resume continues a paused task.
func (e *Engine) Resume(ctx context.Context, task string, r Request) (Granted, error) {
	return e.ask(ctx, asking{task, events.RequestResume, r.RequestID}, body{Reason: r.Reason})
}

// Terminate ends a task where it stands, and undoes nothing. It is refused while an attempt runs.
func (e *Engine) Terminate(ctx context.Context, task string, r Request) (Granted, error) {
	return e.ask(ctx, asking{task, events.RequestTerminate, r.RequestID}, body{Reason: r.Reason})
}

// Retry starts the failed steps of a parked task again. A step that waits for its next attempt starts at once.
func (e *Engine) Retry(ctx context.Context, task string, r Retry) (Granted, error) {
	return e.ask(ctx, asking{task, events.RequestRetry, r.RequestID}, body{Reason: r.Reason, Step: r.Step, Attempt: r.Attempt, With: r.With})
}

// Rerun runs a task once more that has ended or is parked. What the steps that run again did is undone first, and they get new idempotency
// keys, so services see new calls.
func (e *Engine) Rerun(ctx context.Context, task string, r Rerun) (Granted, error) {
	return e.ask(ctx, asking{task, events.RequestRerun, r.RequestID}, body{Reason: r.Reason, From: r.From, Input: r.Input})
}

// Skip goes on without a step that has not begun, has failed, has timed out or waits. The pivot cannot be skipped.
func (e *Engine) Skip(ctx context.Context, task string, r Decision) (Granted, error) {
	return e.ask(ctx, asking{task, events.RequestSkip, r.RequestID}, r.body())
}

// Complete records that a step, or its undo, was done by hand. It must have failed or timed out, or wait.
func (e *Engine) Complete(ctx context.Context, task string, r Decision) (Granted, error) {
	return e.ask(ctx, asking{task, events.RequestComplete, r.RequestID}, r.body())
}

func (r *Decision) body() body {
	return body{Reason: r.Reason, Step: r.Step, Operation: r.Operation, Output: r.Output}
}

// Fail ends a running attempt, or the wait for the next one. The policy of the step decides what follows.
func (e *Engine) Fail(ctx context.Context, task string, r Failure) (Granted, error) {
	b := body{Reason: r.Reason, Step: r.Step, Operation: r.Operation, Effect: r.Effect}
	if r.Error != nil {
		b.Error = &failError{Class: r.Error.Class, Code: r.Error.Code, Message: r.Error.Message}
	}
	return e.ask(ctx, asking{task, events.RequestFail, r.RequestID}, b)
}

// Signal sends a signal: the first step that waits for its name takes it, now or later. It may come up to a day before its task, and is
// refused while the task is being undone. ErrInvalid: no step of the task waits for that name, or the payload does not fit its schema.
func (e *Engine) Signal(ctx context.Context, task string, s Signal) (Granted, error) {
	return e.ask(ctx, asking{task, events.RequestSignal, s.RequestID}, body{Reason: s.Reason, Signal: s.Name, Payload: s.Payload})
}

// asking is one request.
type asking struct {
	task string
	verb events.Verb
	id   string
}

// check finds what no engine would take.
func (a *asking) check(b *body) error {
	e := &Error{Kind: ErrInvalid}
	collect(events.CheckTaskID(a.task), e)
	if a.verb == events.RequestSignal && b.Signal == "" {
		e.Places = append(e.Places, Place{Pointer: "/signal", Message: signalMissing})
	}
	for _, m := range []struct {
		pointer string
		value   json.RawMessage
	}{{"/with", b.With}, {"/input", b.Input}, {"/output", b.Output}, {"/payload", b.Payload}} {
		if len(m.value) > 0 && !json.Valid(m.value) {
			e.Places = append(e.Places, Place{Pointer: m.pointer, Message: notJSON})
		}
	}
	if len(e.Places) > 0 {
		return e
	}
	return nil
}

// ask sends a request until the log holds it, and waits until it is judged.
func (e *Engine) ask(ctx context.Context, a asking, b body) (Granted, error) {
	a.id = cmp.Or(a.id, uuid.Must(uuid.NewV7()).String())
	if err := a.check(&b); err != nil {
		return Granted{RequestID: a.id}, err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return Granted{RequestID: a.id}, &Error{Kind: ErrInvalid, Detail: err.Error()}
	}
	c := call{
		method: http.MethodPost, path: taskPath(a.task) + "/" + string(a.verb), query: url.Values{"wait": {waitStep.String()}},
		body: text, content: "application/json", key: a.id, wait: waitStep,
	}
	var receipt struct {
		Token  string `json:"token"`
		Result string `json:"result"`
		State  State  `json:"state"`
	}
	c.engines = func() bool { return receipt.Token != "" }
	g := Granted{RequestID: a.id}
	status, err := e.api.insistFor(ctx, c, &receipt)
	g.State, g.Held = receipt.State, receipt.Result == "held"
	if err != nil || g.Held || status == http.StatusOK {
		return g, err
	}
	return e.judged(ctx, a, receipt.Token)
}

// judged waits until a request that the log holds is judged. A read with its token says so.
func (e *Engine) judged(ctx context.Context, a asking, token string) (Granted, error) {
	g := Granted{RequestID: a.id}
	mayBeHeld := a.verb == events.RequestSignal || a.verb == events.RequestCancel
	for {
		t, err := e.read(ctx, a.task, reading{token: token})
		switch {
		case err == nil:
			g.State = t.State
			return g, nil
		case errors.Is(err, ErrNotFound) && mayBeHeld: // it was judged, and its task was not there
			g.Held = true
			return g, nil
		case !errors.Is(err, ErrUnavailable) || !pause.For(ctx, retryMost):
			return g, sent(err)
		}
	}
}
