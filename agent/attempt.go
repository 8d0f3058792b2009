package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Attempt describes the attempt that a function makes.
type Attempt struct {
	Task     string
	Run      int
	Workflow string
	Version  int
	Step     string
	Agent    string
	// Function is the operation of the agent, if it has a name.
	Function  string
	Operation events.Operation
	Attempt   int
	// Try counts the tries of this attempt inside the agent, from 1. It is always 1 without WithRetry.
	Try int
	// Repeated says, of an undo, that another instance may have carried it out before, so there may be nothing left to undo.
	Repeated bool
	// Again says that another call for the attempt may still be carried out when this one is over: another instance may have received the
	// request, or an earlier try is in doubt.
	Again bool
	// CompleteBy is when the engine stops waiting. The context ends then (a little earlier for a retry inside the
	// agent, so that its failure can still be reported).
	CompleteBy time.Time
	// Heartbeat is set if the attempt must call Progress: CompleteBy is then its end in any case.
	Heartbeat time.Duration
	// LastProgress is the last progress in the log of the earlier attempts of the step as JSON; nil if they showed nothing. See the function LastProgress.
	LastProgress json.RawMessage
	// IdempotencyKey is the same in all attempts of this operation of this step in this run. Pass it to the remote
	// service, so that it can drop duplicates. A later task with the same ID has new keys.
	IdempotencyKey string
	// Undoes is set for an undo: the IdempotencyKey of the do that it reverses. Pass it on, so that the remote service can refuse
	// the do if it arrives after the undo.
	Undoes string
	// Traceparent is the W3C trace context to pass on; never empty.
	Traceparent string
}

type attemptKey struct{}

// FromContext returns the attempt that ctx belongs to, and false outside one.
func FromContext(ctx context.Context) (Attempt, bool) {
	switch v := ctx.Value(attemptKey{}).(type) {
	case *request:
		return attemptOf(v), true
	case Attempt:
		return v, true
	default:
		return Attempt{}, false
	}
}

// WithAttempt returns a context that carries a, like the context that the runner passes to a function. It is for testing functions.
func WithAttempt(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// InDoubt says that an earlier call for the attempt that ctx belongs to may still be carried out, although the function returns a
// success: the undo must not begin until that call is over. (A failure says so by its effect.)
func InDoubt(ctx context.Context) {
	if q, ok := ctx.Value(attemptKey{}).(*request); ok {
		q.doubt.Store(true)
	}
}

// Accepted says that the attempt that ctx belongs to goes on elsewhere after the function has returned without an error, and that whoever
// carries it out reports how it ends. Nothing is reported here, and the attempt takes no room here any more. For the engine it runs until that
// report comes or its complete-by time is over.
func Accepted(ctx context.Context) {
	if q, ok := ctx.Value(attemptKey{}).(*request); ok {
		q.accepted.Store(true)
	}
}

func attemptOf(q *request) Attempt {
	w := &q.work
	by := w.CompleteBy.Time()
	if q.beats != nil {
		by = q.beats.cap
	}
	return Attempt{
		Task: w.Task, Run: w.Run, Workflow: w.Workflow, Version: w.Version, Step: w.Step, Agent: w.Agent, Function: w.Function,
		Operation: w.Operation, Attempt: w.Attempt, Try: max(1, int(q.tries.Load())), Repeated: q.shared && w.Operation == events.Undo, Again: q.shared || q.doubt.Load(),
		CompleteBy: by,
		Heartbeat:  w.Heartbeat.Std(), LastProgress: w.Progress,
		IdempotencyKey: w.IdempotencyKey, Undoes: w.Undoes, Traceparent: q.passedOn(),
	}
}
