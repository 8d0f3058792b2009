package agent

import (
	"context"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/traceparent"
)

// Trace begins the span of a function call. It is called only for sampled traces. a.Traceparent is the span of the attempt, the parent of the
// new span. Trace returns the context for the function, the trace context that the function passes on (empty if the span is not sampled), and a
// function that ends the span with the failure of the call, or with nil if it succeeded.
//
// The package imports no tracing library, so a Go program can use its own.
type Trace func(ctx context.Context, a Attempt) (_ context.Context, traceparent string, end func(*Failure))

// traced begins the span of a call, if there is one. The function that it returns is not nil.
func (x *executor) traced(ctx context.Context, q *request) (context.Context, func(*Failure)) {
	if x.trace == nil || q == nil || !traceparent.Sampled(q.traceparent) {
		return ctx, untraced
	}
	a := attemptOf(q)
	a.Traceparent = attemptTrace(q.traceparent, &q.work)
	ctx, call, end := x.trace(ctx, a)
	if call != "" {
		q.call.Store(&call)
	}
	return ctx, end
}

func untraced(*Failure) {}

func attemptTrace(of string, w *events.Work) string {
	return traceparent.OfAttempt(of, traceparent.Attempt{Ticket: w.Ticket, Step: w.Step, Operation: string(w.Operation), Number: w.Attempt})
}

// passedOn returns the trace context of the latest call for the attempt, or that of its task.
func (q *request) passedOn() string {
	if call := q.call.Load(); call != nil {
		return *call
	}
	return q.traceparent
}
