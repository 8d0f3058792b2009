package events

import (
	"cmp"
	"encoding/json"
)

// Ready is an attempt that could start. Plan finds them, and Admit chooses among them.
type Ready struct {
	Task      string
	Path      string
	Operation Operation
	Agent     string
	// Function is the operation of the agent, if it has a name: see Call.
	Function string
	Priority int
	// FairBy is the key of the task: of equal priority, keys take turns. It does not count among attempts with the same key.
	FairBy string
	// Since is when the task was accepted: of equal priority, the older task goes first.
	Since Instant
	// NotBefore is when it may start; zero means at once.
	NotBefore Instant
}

// Before is the order of the queue: undos first, since they free what others wait for; then the higher priority; then
// the older task.
func (r Ready) Before(o Ready) bool {
	if (r.Operation == Undo) != (o.Operation == Undo) {
		return r.Operation == Undo
	}
	return cmp.Or(
		cmp.Compare(o.Priority, r.Priority),
		cmp.Compare(r.Since, o.Since),
		cmp.Compare(r.Task, o.Task),
		cmp.Compare(r.Path, o.Path),
	) < 0
}

// Line is a part of a queue: the attempts to do or to undo whose tasks have one key. They start in the order of Ready.Before, and of
// equal priority the keys take turns.
type Line struct {
	// Queue is ReadyKey.Queue.
	Queue     string
	Operation Operation
	FairBy    string
}

// Plan holds the decisions that follow from a task's state alone, without inputs and timers.
type Plan struct {
	// Facts are the follow-ups that are due now, in order: CancelRequested, StepSkipped, StepFailed of an expression,
	// TaskParked, TaskProcessed, TaskUndone. If a later one depends on an earlier one, Plan returns only the earlier; it is
	// called again until the plan is quiet (INV5).
	Facts []Body
	// Broken are steps whose condition failed to evaluate: each becomes a StepFailed before any work is sent.
	Broken []Broken
	// Ready are the attempts that may start.
	Ready []Ready
	// Unopened is set if more may follow that depends on a sealed value that cannot be opened now: the plan must be made again.
	Unopened *NoKeyError
	// Cost is the work of the expressions that were evaluated, in units of their budget.
	Cost int
}

// OutputHint says what an operator can do about a task that is parked because it has no output although all its steps are done.
func OutputHint(t *Task) string {
	if t.Irrevocable() {
		return "; a retry ends the task with the output null"
	}
	return "; a retry ends the task with the output null, and a cancel undoes it"
}

// Broken is a step that cannot start.
type Broken struct {
	Path      string
	Operation Operation
	Error     Error
	// Signal is the request of the signal that it takes, if the check of the step refuses the output.
	Signal string
	Output json.RawMessage
}

// Quiet says whether the plan has no facts to write. It may still start attempts (INV5).
func (p *Plan) Quiet() bool { return len(p.Facts) == 0 && len(p.Broken) == 0 }

// Policy is what a definition says about failures of a step's operation.
type Policy struct {
	CompleteWithin Duration
	Attempts       int
	Backoff        Duration
	Factor         float64
	MaxBackoff     Duration
	Then           Action
	// OnTimeout says what happens when the time of the step is over: undo, park or continue. If it is empty, Then says it.
	OnTimeout     Action
	CoolDown      Duration
	CoolDownTimes int
}

// Acceptance is what a task gets when its submission is accepted.
type Acceptance struct {
	Labels   map[string]string
	Priority int
	// FairBy is the key by which the queues take turns; empty without one.
	FairBy string
	// Concurrency is nil if the task needs no permit to run.
	Concurrency *Concurrency
	// RemindAfter is the soft limit of the task; zero if it has none.
	RemindAfter Duration
	// RememberFor is how long the task is remembered after its end; zero if the settings say it.
	RememberFor Duration
	// Unopened is set if the input cannot be opened now. Then the other fields mean nothing.
	Unopened *NoKeyError
	// Closed is set if the input can never be opened.
	Closed bool
	// Cost is the work of the expressions that were evaluated, in units of their budget.
	Cost int
}

// Start is what a definition prescribes for the start of an attempt.
type Start struct {
	CompleteWithin Duration
	// Within is how long after the first attempt another may start; zero means that there is no limit.
	Within Duration
	// Heartbeat is zero if the attempt need not show progress.
	Heartbeat Duration
	// RemindAfter is the soft limit of the step, which the first attempt begins; zero if it has none.
	RemindAfter Duration
	Input       json.RawMessage
	Output      json.RawMessage
	Condition   *bool
	Pivot       bool
	Undoable    bool
	// Child is set if a task does the attempt, and no agent.
	Child *ChildCall
	// Cost is the work of the expressions that were evaluated, in units of their budget.
	Cost int
}

// StepTraits are what an operator's request needs to know of a step as it is defined.
type StepTraits struct {
	// Known says that the definition has the step.
	Known bool
	Pivot bool
	// Calls says that the step calls an agent. One that waits or sleeps calls nobody, and has no input.
	Calls bool
	// Items says that the step has a for.
	Items bool
}
