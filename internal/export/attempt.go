package export

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// Attempt is a row of the table of attempts: one call of an agent, or one child, to do or to undo a step. An attempt that has not ended at the end of the
// range has no outcome.
type Attempt struct {
	Partition   int32  `parquet:"partition"`
	Task        string `parquet:"task"`
	Run         int32  `parquet:"run,optional"`
	Incarnation string `parquet:"incarnation,optional"`
	Workflow    string `parquet:"workflow,optional,dict"`
	Version     int32  `parquet:"version,optional"`
	Step        string `parquet:"step,dict"`
	Item        *int32 `parquet:"item"`
	// Agent is the agent, and Function its operation if that has a name. An attempt that a child makes has the task of the child instead.
	Agent     string `parquet:"agent,optional,dict"`
	Function  string `parquet:"function,optional,dict"`
	Child     string `parquet:"child,optional"`
	Operation string `parquet:"operation,dict"`
	Attempt   int32  `parquet:"attempt"`
	// IdempotencyKey is what the service gets; the attempts of one do have the same.
	IdempotencyKey string `parquet:"idempotency_key,optional"`
	Instance       string `parquet:"instance,optional,dict"`
	// ReadyAt is since when it could have started, StartedAt when the owner decided that it starts, AgentStartedAt and AgentFinishedAt are times of the agent's
	// clock, and EndedAt is when the owner decided that it ended.
	ReadyAt         *int64 `parquet:"ready_at,timestamp(millisecond)"`
	StartedAt       *int64 `parquet:"started_at,timestamp(millisecond)"`
	AgentStartedAt  *int64 `parquet:"agent_started_at,timestamp(millisecond)"`
	AgentFinishedAt *int64 `parquet:"agent_finished_at,timestamp(millisecond)"`
	EndedAt         *int64 `parquet:"ended_at,timestamp(millisecond)"`
	CompleteBy      *int64 `parquet:"complete_by,timestamp(millisecond)"`
	// Outcome is completed, failed or timed_out. By is the operator who decided it, if one did.
	Outcome string `parquet:"outcome,optional,dict"`
	By      string `parquet:"by,optional,dict"`
	// Class, Code and Message are those of the error; the class of a time-out is timeout.
	Class   string `parquet:"class,optional,dict"`
	Code    string `parquet:"code,optional,dict"`
	Message string `parquet:"message,optional"`
	Effect  string `parquet:"effect,optional,dict"`
	// Verdict is what the supervisor decided after a failure, VerdictReason why, and NextAt when the next attempt may start.
	Verdict       string `parquet:"verdict,optional,dict"`
	VerdictReason string `parquet:"verdict_reason,optional,dict"`
	NextAt        *int64 `parquet:"next_at,timestamp(millisecond)"`
	// PolicyHash stands for what the definition says about attempts to do or to undo the step: retry, times and what follows.
	PolicyHash string `parquet:"policy_hash,optional,dict"`
	// Queue, Work and Report are in seconds: from ready to started, the agent's work, and from there to the owner's decision.
	Queue  *float64 `parquet:"queue_s"`
	Work   *float64 `parquet:"work_s"`
	Report *float64 `parquet:"report_s"`
	// StartedOffset and EndedOffset are the facts in the partition.
	StartedOffset *int64 `parquet:"started_offset"`
	EndedOffset   *int64 `parquet:"ended_offset"`
}

// Attempts exports the table of attempts into the directory attempts of cfg.Dir, like Facts. An attempt belongs to the day on which it ended or, if it has not,
// on which it started, and so do the bounds of cfg.
func Attempts(ctx context.Context, cfg Config) (Result, error) {
	return export(ctx, cfg, "attempts", func(int32) (maker[Attempt], error) {
		return &attempts{
			namespace: cfg.NamespaceID, payloads: !cfg.NoPayloads, running: map[attemptOf]*Attempt{}, definitions: definitions{all: map[adopted]definition{}},
		}, nil
	}, nil)
}

// attempts makes the table of attempts.
type attempts struct {
	namespace uuid.UUID
	payloads  bool
	running   map[attemptOf]*Attempt
	definitions
}

type attemptOf struct {
	task, step string
	operation  events.Operation
	n          int
}

func (t *attempts) pass(*events.Record) error { return nil }

func (t *attempts) close() error { return nil }

func (t *attempts) take(r *events.Record, f *Fact, _ *lives, emit func(entry[Attempt]) error) error {
	if err := t.note(r, f); err != nil {
		return err
	}
	e, ok, err := t.ends(r, f)
	if err != nil || !ok {
		return err
	}
	return emit(e)
}

// ends returns the row of the attempt that a fact ends; false if it ends none.
func (t *attempts) ends(r *events.Record, f *Fact) (e entry[Attempt], ok bool, err error) {
	switch events.Name(f.Type) {
	case events.NameStepStarted, events.NameCompensationStarted, events.NameStepProgressed:
	case events.NameStepCompleted, events.NameStepFailed, events.NameTimeout, events.NameCompensated, events.NameCompensationFailed:
	default:
		return e, false, nil
	}
	fact, err := events.DecodeFact(r)
	if err != nil {
		return e, false, err
	}
	task := strings.Clone(f.Task) // which is kept as long as the attempt runs
	switch b := fact.Body.(type) {
	case *events.StepStarted:
		t.started(f, attemptOf{task, b.Step, events.Do, b.Attempt}, begun{b.Agent, b.Function, b.Child, b.ReadyAt, b.CompleteBy, b.Run})
	case *events.CompensationStarted:
		t.started(f, attemptOf{task, b.Step, events.Undo, b.Attempt}, begun{b.Agent, b.Function, b.Child, b.ReadyAt, b.CompleteBy, b.Run})
	case *events.StepProgressed:
		if a := t.running[attemptOf{task, b.Step, events.Do, b.Attempt}]; a != nil {
			a.CompleteBy = at(b.CompleteBy)
		}
	case *events.StepCompleted:
		return t.ended(f, attemptOf{task, b.Step, events.Do, b.Attempt}, ending{outcome: "completed", of: b.Outcome, by: b.Operator})
	case *events.StepFailed:
		return t.ended(f, attemptOf{task, b.Step, events.Do, b.Attempt}, ending{"failed", b.Outcome, b.Operator, &b.Error, b.Effect, &b.Verdict})
	case *events.Compensated:
		return t.ended(f, attemptOf{task, b.Step, events.Undo, b.Attempt}, ending{outcome: "completed", of: b.Outcome, by: b.Operator})
	case *events.CompensationFailed:
		return t.ended(f, attemptOf{task, b.Step, events.Undo, b.Attempt}, ending{"failed", b.Outcome, b.Operator, &b.Error, "", &b.Verdict})
	case *events.Timeout:
		return t.ended(f, attemptOf{task, b.Step, b.Operation, b.Attempt}, ending{outcome: "timed_out", failure: &events.Error{Class: events.ClassTimeout}, verdict: &b.Verdict})
	}
	return e, false, nil
}

// begun is what the fact says by which an attempt begins.
type begun struct {
	agent, function  string
	child            *events.ChildCall
	ready, completes events.Instant
	run              int
}

func (t *attempts) started(f *Fact, of attemptOf, b begun) {
	a := t.row(f, of)
	a.Run = int32(max(1, b.run)) // that of the step: of an undo, the run whose do it undoes
	a.Agent, a.Function = b.agent, b.function
	if b.child != nil {
		a.Child = b.child.Task
	} else {
		w := events.Work{Task: f.Task, Ticket: f.Incarnation, Run: int(a.Run), Step: of.step}
		a.IdempotencyKey = w.Key(t.namespace, of.operation)
	}
	a.ReadyAt, a.StartedAt, a.CompleteBy, a.StartedOffset = at(cmp.Or(b.ready, events.Instant(f.Time))), at(events.Instant(f.Time)), at(b.completes), new(f.Offset)
	a.Queue = between(a.ReadyAt, a.StartedAt)
	t.running[of] = a
}

// row returns a row with what each fact of an attempt says.
func (t *attempts) row(f *Fact, of attemptOf) *Attempt {
	a := &Attempt{
		Partition: f.Partition, Task: of.task, Run: f.Run, Incarnation: strings.Clone(f.Incarnation), Workflow: f.Workflow, Version: f.Version, Step: f.Step, Item: f.Item,
		Operation: string(of.operation), Attempt: int32(of.n),
	}
	a.PolicyHash = t.policy(adopted{f.Workflow, f.Version}, f.Step, of.operation)
	return a
}

// ending is how an attempt ended.
type ending struct {
	outcome string
	of      events.Outcome
	by      events.Operator
	failure *events.Error
	effect  events.Effect
	verdict *events.Verdict
}

// ended returns the row of an attempt that ended. An end of attempt zero is that of a step of which no attempt was running.
func (t *attempts) ended(f *Fact, of attemptOf, x ending) (e entry[Attempt], ok bool, err error) {
	if of.n == 0 {
		return e, false, nil
	}
	a := t.running[of]
	if a == nil { // its beginning is gone from the log
		a = t.row(f, of)
		a.ReadyAt = at(x.of.ReadyAt)
	}
	delete(t.running, of)
	a.Outcome, a.By, a.Effect = x.outcome, x.by.By, string(x.effect)
	a.Instance, a.AgentStartedAt, a.AgentFinishedAt = x.of.Instance, at(x.of.StartedAt), at(x.of.FinishedAt)
	a.EndedAt, a.EndedOffset = at(events.Instant(f.Time)), new(f.Offset)
	a.Work, a.Report = between(a.AgentStartedAt, a.AgentFinishedAt), between(a.AgentFinishedAt, a.EndedAt)
	if x.failure != nil {
		a.Class, a.Code = string(x.failure.Class), x.failure.Code
		if t.payloads {
			a.Message = x.failure.Message
		}
	}
	if x.verdict != nil {
		a.Verdict, a.VerdictReason, a.NextAt = string(x.verdict.Action), x.verdict.Reason, at(x.verdict.At)
	}
	return t.entry(a, f.Offset, f.Time), true, nil
}

func (t *attempts) entry(a *Attempt, offset, time int64) entry[Attempt] {
	return entry[Attempt]{a, offset, time, a.Workflow, len(a.Task) + len(a.Message) + len(a.VerdictReason) + len(a.IdempotencyKey)}
}

func (t *attempts) left(emit func(entry[Attempt]) error) error {
	list := slices.SortedFunc(maps.Values(t.running), func(x, y *Attempt) int { return cmp.Compare(*x.StartedOffset, *y.StartedOffset) })
	for _, a := range list {
		if err := emit(t.entry(a, *a.StartedOffset, *a.StartedAt)); err != nil {
			return err
		}
	}
	return nil
}

// at returns a time for a column; nil for zero.
func at(i events.Instant) *int64 {
	if i == 0 {
		return nil
	}
	ms := int64(i)
	return &ms
}

// between returns the seconds between two times of a row; nil if one is missing.
func between(from, to *int64) *float64 {
	if from == nil || to == nil {
		return nil
	}
	s := float64(*to-*from) / 1000
	return &s
}
