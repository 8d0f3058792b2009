package api

import (
	"encoding/json"
	"reflect"

	"github.com/sagalog/sagalog/events"
)

// RetryBody is the body of a retry.
type RetryBody struct {
	Step    string          `json:"step,omitempty" doc:"absent: each step that failed"`
	Attempt int             `json:"attempt,omitempty" minimum:"1" doc:"The attempt to retry; refused if it is not the latest one of the step"`
	With    json.RawMessage `json:"with,omitempty" doc:"The input of all further attempts of the one step that is retried, or of its undo, in place of the input that the definition gives"`
	Reason  string          `json:"reason,omitempty" doc:"For the history"`
}

// RerunBody is the body of a rerun.
type RerunBody struct {
	From   string          `json:"from,omitempty" doc:"The step from which the task runs once more; absent: all steps"`
	Input  json.RawMessage `json:"input,omitempty" doc:"The task's input from then on; absent: unchanged"`
	Reason string          `json:"reason,omitempty" doc:"For the history"`
}

// SignalBody is the body of a signal.
type SignalBody struct {
	Signal  string          `json:"signal" doc:"The name for which a step waits"`
	Payload json.RawMessage `json:"payload,omitempty" doc:"What the step gets; absent: null. It must fit the schema of the step"`
	Reason  string          `json:"reason,omitempty" doc:"For the history"`
}

// DecisionBody is the body of a skip or a complete.
type DecisionBody struct {
	Step      string          `json:"step" doc:"The step"`
	Operation string          `json:"operation,omitempty" enum:"do,undo" doc:"Whether the request is about the do or the undo of the step; absent: undo if the task is being undone, otherwise do"`
	Output    json.RawMessage `json:"output,omitempty" doc:"The output that later steps see; absent: null"`
	Reason    string          `json:"reason,omitempty" doc:"For the history"`
}

// FailBody is the body of a fail.
type FailBody struct {
	Step      string     `json:"step" doc:"The step"`
	Operation string     `json:"operation,omitempty" enum:"do,undo" doc:"Whether the request is about the do or the undo of the step; absent: undo if the task is being undone and no attempt of the do runs, otherwise do"`
	Error     *FailError `json:"error,omitempty" doc:"The error of the attempt"`
	Effect    string     `json:"effect,omitempty" enum:"none,done_unknown,in_doubt" doc:"What the attempt may have changed; absent: in_doubt, and nothing is undone before its complete-by time"`
	Reason    string     `json:"reason,omitempty" doc:"For the history"`
}

// FailError is the error with which an operator fails an attempt.
type FailError struct {
	Class   string `json:"class,omitempty" enum:"retryable,permanent,internal,limit" doc:"absent: permanent"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty" doc:"absent: the reason"`
}

// failClasses are the classes of an error with which an operator may fail an attempt.
var failClasses = []events.Class{events.ClassRetryable, events.ClassPermanent, events.ClassInternal, events.ClassLimit}

// stepRoutes describe the calls for what an operator decides about a step.
var stepRoutes = []requestRoute{
	{
		events.RequestSkip, "Skip a step",
		"The task goes on without the step, which has not begun, failed, timed out or waits for its next attempt, and is not the pivot. If it may have had an effect, it is still undone when " +
			"the task is. A skipped undo counts as done, and what the step did is left.",
		reflect.TypeFor[DecisionBody](), map[string]any{"step": "drone", "output": map[string]any{"id": 17}, "reason": "a courier brings it"},
	},
	{
		events.RequestComplete, "Complete a step by hand",
		"Says that a step, or its undo, that failed, timed out or waits for its next attempt was done by hand. Completing the pivot passes the point of no return. While an attempt runs, fail it first.",
		reflect.TypeFor[DecisionBody](), map[string]any{"step": "drone", "output": map[string]any{"id": 17}, "reason": "booked by telephone"},
	},
	{
		events.RequestFail, "Fail an attempt",
		"Ends the running attempt of a step or of its undo now, or the wait for the next one. The policy of the step decides what follows, and the agent is asked to stop.",
		reflect.TypeFor[FailBody](), map[string]any{"step": "drone", "error": map[string]any{"class": "permanent", "message": "the drone is lost"}},
	},
}
