package traces

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/traceparent"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// The attributes of spans.
const (
	keyTask      = attribute.Key("sagalog.task")
	keyWorkflow  = attribute.Key("sagalog.workflow")
	keyVersion   = attribute.Key("sagalog.workflow.version")
	keyRun       = attribute.Key("sagalog.run")
	keyPartition = attribute.Key("sagalog.partition")
	keyStep      = attribute.Key("sagalog.step")
	keyOperation = attribute.Key("sagalog.operation")
	keyAttempt   = attribute.Key("sagalog.attempt")
	keyTry       = attribute.Key("sagalog.try")
	keyAgent     = attribute.Key("sagalog.agent")
	keyInstance  = attribute.Key("sagalog.agent.instance")
	keyOutcome   = attribute.Key("sagalog.outcome")
	keyEffect    = attribute.Key("sagalog.effect")
	keyVerdict   = attribute.Key("sagalog.verdict")
	keyErrorType = attribute.Key("error.type")
	keyErrorCode = attribute.Key("sagalog.error.code")
	keyStatus    = attribute.Key("http.response.status_code")
)

// maxCode bounds the code of an error, which a service may choose.
const maxCode = 64

// failure returns the attributes of a failed attempt or call, and the description of its status. The message is not among them.
func failure(class events.Class, code string, effect events.Effect) ([]attribute.KeyValue, string) {
	code = events.Clip(code, maxCode)
	text := string(class)
	out := []attribute.KeyValue{keyErrorType.String(text), keyEffect.String(string(effect))}
	if code != "" {
		out, text = append(out, keyErrorCode.String(code)), text+": "+code
	}
	return out, text
}

// past is a span of something that is over.
type past struct {
	name string
	// self and parent are the trace contexts of the span and of its parent.
	self, parent string
	start, end   events.Instant
	attributes   []attribute.KeyValue
	// failed is why it failed, or "".
	failed string
}

func (t *Tracer) record(p past) {
	ctx := context.WithValue(within(context.Background(), p.parent), spanKey{}, spanOf(p.self))
	_, s := t.tracer.Start(ctx, p.name, trace.WithTimestamp(p.start.Time()), trace.WithAttributes(p.attributes...))
	if p.failed != "" {
		s.SetStatus(codes.Error, p.failed)
	}
	s.End(trace.WithTimestamp(max(p.start, p.end).Time()))
}

// within returns a context in which spans begin as children of a trace context, if that is valid.
func within(ctx context.Context, parent string) context.Context {
	if !traceparent.Valid(parent) {
		return ctx
	}
	id, _ := trace.TraceIDFromHex(traceparent.Trace(parent))
	var flags trace.TraceFlags
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: spanOf(parent), TraceFlags: flags.WithSampled(traceparent.Sampled(parent)), Remote: true,
	}))
}

func spanOf(of string) trace.SpanID {
	id, _ := trace.SpanIDFromHex(traceparent.Span(of))
	return id
}

// header returns the trace context of a span, for its children.
func header(s trace.Span) string {
	c := s.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

type spanKey struct{}

// identifiers gives a span the ID that its context holds, and a random one otherwise.
type identifiers struct{}

// NewIDs implements trace.IDGenerator.
func (i identifiers) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id, i.NewSpanID(ctx, id)
}

// NewSpanID implements trace.IDGenerator.
func (identifiers) NewSpanID(ctx context.Context, _ trace.TraceID) (id trace.SpanID) {
	id, _ = ctx.Value(spanKey{}).(trace.SpanID)
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}

// live begins a span of something that happens now, and returns the trace context to pass on.
func (t *Tracer) live(ctx context.Context, parent, name string, kind trace.SpanKind, since time.Time) (context.Context, trace.Span, string) {
	ctx, s := t.tracer.Start(within(ctx, parent), name, trace.WithSpanKind(kind), trace.WithTimestamp(since))
	if !s.SpanContext().IsSampled() && traceparent.Valid(parent) {
		return ctx, s, parent // no span exists between the parent and what follows
	}
	return ctx, s, header(s)
}
