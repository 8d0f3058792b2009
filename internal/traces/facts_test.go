package traces

import (
	"strconv"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/traceparent"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const taskTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// begin is when the first fact of a test is decided.
var begin = events.At(time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC))

// seen is a task whose facts an observer sees, one a second.
type seen struct {
	t        *testing.T
	task     *events.Task
	tracer   *Tracer
	exporter *tracetest.InMemoryExporter
	see      func(*events.Task, *events.Fact)
	now      events.Instant
}

func story(t *testing.T) *seen {
	e := tracetest.NewInMemoryExporter()
	x, _ := over(t, e)
	return &seen{
		t: t, tracer: x, exporter: e, see: x.Facts(3), now: begin,
		task: &events.Task{ID: "t", Incarnation: "1-x/1", Run: 1, Workflow: "w", SubmittedAt: begin, Traceparent: taskTrace},
	}
}

func (s *seen) fact(b events.Body) {
	s.see(s.task, &events.Fact{Task: "t", Time: s.now, Traceparent: s.task.Traceparent, Body: b})
	s.now += 1000
}

// attempt is the trace context of an attempt's span.
func (s *seen) attempt(step string, op events.Operation, number int) string {
	return traceparent.OfAttempt(taskTrace, traceparent.Attempt{Ticket: "1-x/1", Step: step, Operation: string(op), Number: number})
}

// spans returns the spans as name, begin and end in seconds, outcome; and the trace contexts of each and of its parent.
func (s *seen) spans() (lines []string, contexts [][2]string) {
	require.NoError(s.t, s.tracer.provider.ForceFlush(s.t.Context()))
	for _, x := range s.exporter.GetSpans() {
		line := x.Name
		for _, at := range []time.Time{x.StartTime, x.EndTime} {
			line += " " + strconv.Itoa(int(at.Sub(begin.Time()).Seconds()))
		}
		set := attribute.NewSet(x.Attributes...)
		if outcome, ok := set.Value(keyOutcome); ok {
			line += " " + outcome.AsString()
		}
		if x.Status.Description != "" {
			line += " (" + x.Status.Description + ")"
		}
		lines = append(lines, line)
		contexts = append(contexts, [2]string{taskTrace[:36] + x.SpanContext.SpanID().String() + "-01", taskTrace[:36] + x.Parent.SpanID().String() + "-01"})
	}
	s.exporter.Reset()
	return lines, contexts
}

func TestEachOutcomeIsASpanFromItsStart(t *testing.T) {
	t.Parallel()
	s := story(t)
	retry := events.Verdict{Action: events.ActionRetry}
	s.fact(&events.StepStarted{Step: "a", Agent: "x", Attempt: 1})
	s.fact(&events.StepStarted{Step: "b", Agent: "x", Attempt: 1})
	s.fact(&events.StepFailed{Step: "a", Attempt: 1, Error: events.Error{Class: events.ClassRetryable, Code: "http_503", Message: "s3cr3t"}, Verdict: retry})
	s.fact(&events.StepStarted{Step: "a", Agent: "x", Attempt: 2})
	s.fact(&events.Timeout{Step: "a", Operation: events.Do, Attempt: 2, Verdict: retry})
	s.fact(&events.StepCompleted{Step: "b", Attempt: 1})
	s.fact(&events.StepStarted{Step: "a", Agent: "x", Attempt: 3})
	s.fact(&events.EffectFailed{Failed: &events.StepFailed{Step: "a", Attempt: 3, Error: events.Error{Class: events.ClassPermanent}}})
	s.fact(&events.CompensationStarted{Step: "b", Agent: "x", Attempt: 1})
	s.fact(&events.CompensationFailed{Step: "b", Attempt: 1, Error: events.Error{Class: events.ClassRetryable}})
	s.fact(&events.Compensated{Step: "b", Attempt: 1, Operator: events.Operator{Request: "r"}}) // an operator's: no attempt ran
	s.fact(&events.StepStarted{Step: "c", Agent: "x", Attempt: 1})
	s.fact(&events.StepFailed{Step: "c", Attempt: 1, Error: events.Error{Class: events.ClassPermanent, Code: "by_hand"}, Operator: events.Operator{Request: "r"}})
	s.fact(&events.TaskUndone{})
	lines, contexts := s.spans()
	require.Equal(t, []string{
		"attempt do a 0 2 failed (retryable: http_503)", "attempt do a 3 4 timed_out (timeout)", "attempt do b 1 5 completed",
		"attempt do a 6 7 refused (permanent)", "attempt undo b 8 9 failed (retryable)", "attempt do c 11 12 failed (permanent: by_hand)",
		"task w 0 13 undone (undone)",
	}, lines)
	task := traceparent.OfTask(taskTrace, "1-x/1", 1)
	require.Equal(t, [][2]string{
		{s.attempt("a", events.Do, 1), task}, {s.attempt("a", events.Do, 2), task}, {s.attempt("b", events.Do, 1), task},
		{s.attempt("a", events.Do, 3), task}, {s.attempt("b", events.Undo, 1), task}, {s.attempt("c", events.Do, 1), task},
		{task, taskTrace},
	}, contexts)
}

// A new owner has not seen how an attempt began, and knows it from the task.
func TestAnAttemptBegunByAnotherOwnerHasItsTimes(t *testing.T) {
	t.Parallel()
	s := story(t)
	s.task.Steps = []*events.Step{{Path: "a", Agent: "x", Attempt: 2, StartedAt: begin + 4000, Run: 2}}
	s.now = begin + 9000
	s.fact(&events.StepCompleted{Step: "a", Attempt: 2})
	lines, contexts := s.spans()
	require.Equal(t, []string{"attempt do a 4 9 completed"}, lines)
	require.Equal(t, [][2]string{{s.attempt("a", events.Do, 2), traceparent.OfTask(taskTrace, "1-x/1", 2)}}, contexts)
}

// Each run is a span. That of a parked task ends with the rerun; one that ended before has its span already.
func TestEachRunOfATaskIsASpan(t *testing.T) {
	t.Parallel()
	s := story(t)
	s.fact(&events.StepStarted{Step: "a", Agent: "x", Attempt: 1})
	s.fact(&events.StepCompleted{Step: "a", Attempt: 1})
	s.fact(&events.TaskRerun{Steps: []string{"a"}})
	s.fact(&events.RunBegun{Run: 2})
	s.task.Run = 2
	s.fact(&events.StepStarted{Step: "a", Agent: "x", Attempt: 2, Run: 2})
	s.fact(&events.StepCompleted{Step: "a", Attempt: 2})
	s.fact(&events.TaskProcessed{})
	s.fact(&events.TaskRerun{Steps: []string{"a"}})
	s.fact(&events.RunBegun{Run: 3})
	s.task.Run = 3
	s.fact(&events.TaskProcessed{})
	lines, contexts := s.spans()
	require.Equal(t, []string{
		"attempt do a 0 1 completed", "task w 0 2 rerun (rerun)", "attempt do a 4 5 completed", "task w 3 6 processed", "task w 8 9 processed",
	}, lines)
	require.Equal(t, contexts[1][0], contexts[0][1])
	require.Equal(t, contexts[3][0], contexts[2][1])
}

func TestADecisionBeginsWhenItsSubmissionWasWritten(t *testing.T) {
	t.Parallel()
	s := story(t)
	decided := events.Instant(0x018df2300800) + 2000
	for id, want := range map[string]events.Instant{
		"018df230-0800-7000-8000-000000000000": 0x018df2300800, // 2 s before
		"018ef230-0800-7000-8000-000000000000": decided,        // later
		"016df230-0800-7000-8000-000000000000": decided,        // years before
		"018df230-0800-4000-8000-000000000000": decided,        // no UUIDv7
		"order/17":                             decided,
		"":                                     decided,
	} {
		require.Equal(t, want, writtenAt(id, decided), id)
	}
	s.fact(&events.Submitted{Workflow: "w", Version: 1})
	lines, _ := s.spans()
	require.Equal(t, []string{"decision 0 0"}, lines)
}

func TestOnlySampledTasksHaveSpans(t *testing.T) {
	t.Parallel()
	s := story(t)
	for _, trace := range []string{"", "malformed", taskTrace[:53] + "00"} {
		s.task.Traceparent = trace
		s.fact(&events.Submitted{})
		s.fact(&events.StepStarted{Step: "a", Attempt: 1})
		s.fact(&events.StepCompleted{Step: "a", Attempt: 1})
		s.fact(&events.TaskProcessed{})
	}
	lines, _ := s.spans()
	require.Empty(t, lines)
}

// What is remembered of begun attempts is bounded, and of ended tasks nothing.
func TestBegunAttemptsTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	x, _ := over(t, tracetest.NewInMemoryExporter())
	o := &observer{tracer: x, open: map[string]*openTask{}}
	for i := range openTasks + 10 {
		o.see(&events.Task{}, &events.Fact{Task: strconv.Itoa(i), Traceparent: taskTrace, Body: &events.StepStarted{Step: "a", Attempt: 1}})
	}
	require.Len(t, o.open, 10)
	o.see(&events.Task{}, &events.Fact{Task: strconv.Itoa(openTasks), Traceparent: taskTrace, Body: &events.TaskTerminated{}})
	require.Len(t, o.open, 9)
}

// A fact of a task that is not sampled costs no allocation.
func BenchmarkAFactOfATaskThatIsNotSampled(b *testing.B) {
	o := &observer{open: map[string]*openTask{}}
	f := &events.Fact{Task: "t", Traceparent: taskTrace[:53] + "00", Body: &events.StepStarted{Step: "a", Attempt: 1}}
	b.ReportAllocs()
	for b.Loop() {
		o.see(nil, f)
	}
}
