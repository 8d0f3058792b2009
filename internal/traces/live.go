package traces

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Submission begins the span of a submission to the API. parent is the trace context that the client sent, which may be missing or malformed.
// It returns the trace context for the record, and a function that ends the span with the status of the answer.
func (t *Tracer) Submission(parent string, since time.Time) (string, func(task, workflow string, status int)) {
	_, s, carried := t.live(context.Background(), parent, "submission", trace.SpanKindServer, since)
	return carried, func(task, workflow string, status int) {
		// A submission that is refused may name anything, and thousands of spans may wait.
		s.SetAttributes(keyTask.String(events.Clip(task, events.MaxTaskID)), keyWorkflow.String(events.Clip(workflow, events.MaxTaskID)), keyStatus.Int(status))
		if status >= http.StatusInternalServerError {
			s.SetStatus(codes.Error, http.StatusText(status))
		}
		s.End()
	}
}

// Call implements agent.Trace.
func (t *Tracer) Call(ctx context.Context, a agent.Attempt) (context.Context, string, func(*agent.Failure)) {
	ctx, s, carried := t.live(ctx, a.Traceparent, strings.Join([]string{"call", string(a.Operation), a.Step}, " "), trace.SpanKindClient, time.Now())
	if !s.IsRecording() {
		return ctx, "", func(*agent.Failure) {}
	}
	s.SetAttributes(
		keyTask.String(a.Task), keyWorkflow.String(a.Workflow), keyVersion.Int(a.Version), keyRun.Int(a.Run), keyStep.String(a.Step),
		keyOperation.String(string(a.Operation)), keyAttempt.Int(a.Attempt), keyTry.Int(a.Try), keyAgent.String(a.Agent),
	)
	return ctx, carried, func(f *agent.Failure) {
		if f != nil {
			attributes, text := failure(f.Class, f.Code, f.Effect)
			s.SetAttributes(attributes...)
			s.SetStatus(codes.Error, text)
		}
		s.End()
	}
}
