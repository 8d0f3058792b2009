package traces

import (
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/traceparent"
	"go.opentelemetry.io/otel/attribute"
)

// openTasks bounds the tasks of a partition whose running attempts are remembered. If there are more, all are forgotten. The spans of those
// attempts then begin at the time in the task's state, which may be that of a later attempt.
const openTasks = 10_000

// observer makes the spans of the facts of one partition. Owned by the goroutine that owns the partition.
type observer struct {
	tracer    *Tracer
	partition int32
	open      map[string]*openTask
}

// openTask is a task that has not ended since an attempt of it began.
type openTask struct {
	attempts map[attemptName]begun
	// run is its latest run, and runBegan when that began; zero for the first.
	run      int
	runBegan events.Instant
}

type attemptName struct {
	step      string
	operation events.Operation
	number    int
}

// begun is what the fact that began an attempt said.
type begun struct {
	at    events.Instant
	agent string
	run   int
}

// outcome is how an attempt ended.
type outcome struct {
	attemptName
	result   string
	instance string
	err      *events.Error
	effect   events.Effect
	verdict  events.Action
	// byHand says that an operator decided it. Only then may there have been no attempt.
	byHand bool
}

// The outcomes of attempts.
const (
	resultCompleted = "completed"
	resultFailed    = "failed"
	resultTimedOut  = "timed_out"
	resultRefused   = "refused" // the brokers refused the work request
	resultRerun     = "rerun"   // of a task that was parked
)

// Facts returns a function that makes spans from the facts of a partition. It must be called with each durable fact in order, and with the
// current state of its task, nil if the task is gone. It retains neither.
func (t *Tracer) Facts(partition int32) func(*events.Task, *events.Fact) {
	o := &observer{tracer: t, partition: partition, open: map[string]*openTask{}}
	return o.see
}

func (o *observer) see(t *events.Task, f *events.Fact) {
	if f.Task == "" || !traceparent.Sampled(f.Traceparent) {
		return
	}
	switch b := f.Body.(type) {
	case *events.Submitted:
		o.decided(f, b)
	case *events.StepStarted:
		o.began(f, attemptName{b.Step, events.Do, b.Attempt}, begun{f.Time, b.Agent, events.RunOf(b.Run)})
	case *events.CompensationStarted:
		o.began(f, attemptName{b.Step, events.Undo, b.Attempt}, begun{f.Time, b.Agent, events.RunOf(b.Run)})
	case *events.TaskRerun:
		if open := o.open[f.Task]; open != nil && t != nil { // it was parked, so its run has not ended yet
			o.task(t, f, open.run, resultRerun)
			delete(o.open, f.Task)
		}
	case *events.RunBegun:
		open := o.remember(f.Task)
		open.run, open.runBegan = b.Run, f.Time
	case *events.TaskProcessed:
		o.over(t, f, events.TaskStateProcessed)
	case *events.TaskUndone:
		o.over(t, f, events.TaskStateUndone)
	case *events.TaskTerminated:
		o.over(t, f, events.TaskStateTerminated)
	default:
		if x, ok := outcomeOf(f.Body); ok {
			o.ended(t, f, x)
		}
	}
}

// outcomeOf returns how an attempt ended, and false if the fact ends none.
func outcomeOf(b events.Body) (x outcome, ok bool) {
	switch b := b.(type) {
	case *events.StepCompleted:
		x = completed(attemptName{b.Step, events.Do, b.Attempt}, b.Outcome, b.Operator)
	case *events.Compensated:
		x = completed(attemptName{b.Step, events.Undo, b.Attempt}, b.Outcome, b.Operator)
	case *events.StepFailed:
		x = failed(b, resultFailed)
	case *events.CompensationFailed:
		x = undoFailed(b, resultFailed)
	case *events.Timeout:
		x = outcome{
			attemptName: attemptName{b.Step, b.Operation, b.Attempt}, result: resultTimedOut, err: &events.Error{Class: events.ClassTimeout},
			effect: events.EffectInDoubt, verdict: b.Verdict.Action,
		}
	case *events.EffectFailed:
		if b.Failed != nil {
			x = failed(b.Failed, resultRefused)
		} else if b.CompensationFailed != nil {
			x = undoFailed(b.CompensationFailed, resultRefused)
		}
	}
	return x, x.number > 0
}

func completed(a attemptName, o events.Outcome, by events.Operator) outcome {
	return outcome{attemptName: a, result: resultCompleted, instance: o.Instance, byHand: by.Request != ""}
}

func failed(b *events.StepFailed, result string) outcome {
	return outcome{attemptName{b.Step, events.Do, b.Attempt}, result, b.Instance, &b.Error, b.Effect, b.Verdict.Action, b.Request != ""}
}

func undoFailed(b *events.CompensationFailed, result string) outcome {
	return outcome{attemptName{b.Step, events.Undo, b.Attempt}, result, b.Instance, &b.Error, events.EffectInDoubt, b.Verdict.Action, b.Request != ""}
}

func (o *observer) decided(f *events.Fact, b *events.Submitted) {
	o.tracer.record(past{
		name: "decision", self: traceparent.OfDecision(f.Traceparent, f.Position().String()), parent: f.Traceparent,
		start: writtenAt(f.CauseID, f.Time), end: f.Time,
		attributes: []attribute.KeyValue{keyTask.String(f.Task), keyWorkflow.String(b.Workflow), keyVersion.Int(b.Version), keyPartition.Int(int(o.partition))},
	})
}

// oldestInput bounds the age of an input at its decision. The time when it was written comes from another clock.
const oldestInput = events.Instant(24 * time.Hour / time.Millisecond)

// writtenAt returns when an input was written. The ID of an input from the API contains the time (UUIDv7). For others the time is not known, and
// writtenAt returns that of the decision.
func writtenAt(id string, decided events.Instant) events.Instant {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return decided
	}
	at := events.At(time.Unix(u.Time().UnixTime()))
	if at > decided || decided-at > oldestInput {
		return decided
	}
	return at
}

// remember returns what is remembered of a task.
func (o *observer) remember(task string) *openTask {
	open := o.open[task]
	if open == nil {
		if len(o.open) >= openTasks {
			clear(o.open)
		}
		open = &openTask{attempts: map[attemptName]begun{}, run: 1}
		o.open[task] = open
	}
	return open
}

func (o *observer) began(f *events.Fact, a attemptName, b begun) {
	open := o.remember(f.Task)
	open.attempts[a] = b
	open.run = max(open.run, b.run)
}

// forget returns how an attempt began, if that is remembered, and forgets it.
func (o *observer) forget(task string, a attemptName) (b begun, ok bool) {
	if open := o.open[task]; open != nil {
		b, ok = open.attempts[a]
		delete(open.attempts, a)
	}
	return b, ok
}

// begunAs returns how an attempt began that is not remembered, from the state of the task. An owner that has just taken the partition over needs
// this.
func begunAs(t *events.Task, f *events.Fact, a attemptName) begun {
	s := t.Step(a.step)
	if s == nil {
		return begun{f.Time, "", events.RunOf(t.Run)}
	}
	b, latest := begun{s.StartedAt, s.Agent, events.RunOf(s.Run)}, s.Attempt
	if a.operation == events.Undo && s.Undo != nil {
		b.at, b.agent, latest = s.Undo.StartedAt, s.Undo.Agent, s.Undo.Attempt
	}
	if latest != a.number || b.at == 0 {
		b.at = f.Time
	}
	return b
}

func (o *observer) ended(t *events.Task, f *events.Fact, x outcome) {
	b, ok := o.forget(f.Task, x.attemptName)
	if t == nil || x.byHand && !ok {
		return
	}
	if !ok {
		b = begunAs(t, f, x.attemptName)
	}
	p := past{
		name: "attempt " + string(x.operation) + " " + x.step, parent: traceparent.OfTask(f.Traceparent, t.Incarnation, b.run),
		self: traceparent.OfAttempt(f.Traceparent, traceparent.Attempt{
			Ticket: t.Incarnation, Step: x.step, Operation: string(x.operation), Number: x.number,
		}),
		start: b.at, end: f.Time,
		attributes: []attribute.KeyValue{
			keyTask.String(f.Task), keyWorkflow.String(t.Workflow), keyPartition.Int(int(o.partition)), keyStep.String(x.step),
			keyOperation.String(string(x.operation)), keyAttempt.Int(x.number), keyAgent.String(b.agent), keyOutcome.String(x.result),
		},
	}
	if x.instance != "" {
		p.attributes = append(p.attributes, keyInstance.String(x.instance))
	}
	if x.err != nil {
		var more []attribute.KeyValue
		more, p.failed = failure(x.err.Class, x.err.Code, x.effect)
		p.attributes = append(append(p.attributes, more...), keyVerdict.String(string(x.verdict)))
	}
	o.tracer.record(p)
}

func (o *observer) over(t *events.Task, f *events.Fact, state events.TaskState) {
	if t != nil {
		o.task(t, f, events.RunOf(t.Run), string(state))
	}
	delete(o.open, f.Task)
}

// task makes the span of a run of a task that has ended with f.
func (o *observer) task(t *events.Task, f *events.Fact, run int, result string) {
	p := past{
		name: "task " + t.Workflow, self: traceparent.OfTask(f.Traceparent, t.Incarnation, run), parent: f.Traceparent,
		start: t.SubmittedAt, end: f.Time,
		attributes: []attribute.KeyValue{
			keyTask.String(f.Task), keyWorkflow.String(t.Workflow), keyVersion.Int(t.Version), keyRun.Int(run),
			keyPartition.Int(int(o.partition)), keyOutcome.String(result),
		},
	}
	if open := o.open[f.Task]; open != nil && open.run == run && open.runBegan != 0 {
		p.start = open.runBegan
	}
	if result != string(events.TaskStateProcessed) {
		p.failed = result
	}
	o.tracer.record(p)
}
