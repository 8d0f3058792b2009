package whatif

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// Trace is what the log says about one task, as far as a replay needs it.
type Trace struct {
	Task        string         `json:"task"`
	Incarnation string         `json:"incarnation"`
	Version     int            `json:"version"`
	Definition  string         `json:"definition"`
	Accepted    events.Instant `json:"accepted"`
	// Submitted is the fact that accepted it, and Settings are those that its partition had adopted; nil for the defaults.
	Submitted *events.Submitted `json:"submitted"`
	Settings  *events.Settings  `json:"settings,omitempty"`
	Attempts  []*Attempt        `json:"attempts,omitempty"`
	// Held are attempts that were ready in the replay under the task's own policy, and that history does not have: they waited until the task ended.
	Held []*Attempt `json:"held,omitempty"`
	// Acts are the signals that it got, and what operators asked while it was not parked.
	Acts []Act `json:"acts,omitempty"`
	// OwnDeadline says that its deadline is that of its definition, and not of its submission.
	OwnDeadline bool `json:"own_deadline,omitzero"`
	// End is how it ended in history: processed, undone or error (parked), at EndedAt.
	End     events.TaskState `json:"end,omitempty"`
	EndedAt events.Instant   `json:"ended_at,omitzero"`
	// Skipped says why the task is not replayed; empty if it is.
	Skipped Reason `json:"skipped,omitempty"`
	// Detail is the error behind Skipped, if there was one.
	Detail string `json:"detail,omitempty"`
	// Own is how it ended when it was replayed under the policy that was in force.
	Own *Played `json:"own,omitempty"`
}

// Attempt is one attempt to do or to undo a step.
type Attempt struct {
	Path      string           `json:"path"`
	Operation events.Operation `json:"operation"`
	N         int              `json:"n"`
	Agent     string           `json:"agent"`
	Function  string           `json:"function,omitempty"`
	// Ready is when it could start. While the log is read, this is what the facts say; the replay under the task's own policy then puts its own instant
	// here, because other replays are compared with that one.
	Ready   events.Instant `json:"ready,omitzero"`
	Started events.Instant `json:"started"`
	// Ended is zero if the log says no end.
	Ended  events.Instant `json:"ended,omitzero"`
	Answer Answer         `json:"answer"`
}

// Answer is what came of an attempt.
type Answer struct {
	Result Result          `json:"result"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  *events.Error   `json:"error,omitempty"`
	Effect events.Effect   `json:"effect,omitempty"`
	// RetryAfter is what the agent asked for.
	RetryAfter events.Duration `json:"retry_after,omitzero"`
	// Gone says of an attempt that timed out that it did not count, since its agent had left or its request was not sent.
	Gone bool `json:"gone,omitempty"`
}

// forGood says whether the attempt failed in a way that no retry helps against. That is about the task, and not about the moment.
func (a *Answer) forGood() bool {
	return a.Error != nil && (a.Error.Class == events.ClassPermanent || a.Error.Class == events.ClassCheck || a.Error.Class == events.ClassLimit)
}

// Result is how an attempt ended, for the engine: an agent reported, or was silent until the attempt timed out.
type Result string

// The results.
const (
	Completed Result = "completed"
	Failed    Result = "failed"
	Silent    Result = "timed_out"
)

// Act is an input of a task that comes from neither an agent nor the engine.
type Act struct {
	At      events.Instant `json:"at"`
	Request events.Request `json:"request"`
}

// Played is how a replay ended.
type Played struct {
	// End is empty if it is unknown; then Why says the reason.
	End     events.TaskState `json:"end,omitempty"`
	EndedAt events.Instant   `json:"ended_at,omitzero"`
	Why     Reason           `json:"why,omitempty"`
	// Calls are the attempts that agents got, by agent; Taken and Drawn are how many answers are those of history, and drawn ones.
	Calls map[string]int `json:"calls,omitempty"`
	Taken int            `json:"taken"`
	Drawn map[string]int `json:"drawn,omitempty"`
	// Lacks is the call that has too few samples, if that is why the end is unknown.
	Lacks *events.Call `json:"lacks,omitempty"`
}

// Reason says why a task is not replayed, or why the end of a replay is unknown or differs.
type Reason string

// Why a task is not replayed. Those in biased depend on how the task went, so leaving such tasks out would make a policy look better or worse than it was:
// they count as not reproduced. The others depend on what the task was when it was submitted.
const (
	skipParent     Reason = "another task started it"
	skipChild      Reason = "other tasks do steps of it"
	skipSealed     Reason = "it has encrypted values"
	skipDefinition Reason = "the log no longer has its definition"
	skipOther      Reason = "its version differs from the policy file in more than the policy"
	skipClock      Reason = "the clock of the engine was corrected while it ran"
	skipOperator   Reason = "an operator decided about it before its end"
	skipOpen       Reason = "it had not ended"
	skipUnsent     Reason = "a broker refused a request of it for good"
	skipEngine     Reason = "the engine stopped during its replay"
)

var biased = map[Reason]bool{skipOperator: true, skipOpen: true, skipUnsent: true, skipEngine: true}

// Why a replay has no end, or another one than history.
const (
	whyUnobserved Reason = "attempts that history does not have"
	whyOrder      Reason = "the order of timers and answers"
	whyRejected   Reason = "the submission was not accepted again"
	whyStuck      Reason = "waits for a signal that history does not have"
	whyFew        Reason = "too few samples"
	whyLong       Reason = "too many attempts to replay"
	whyCensored   Reason = "how long attempts that timed out would have taken"
)

// calls counts the attempts of history, by agent.
func (t *Trace) calls() map[string]int {
	n := map[string]int{}
	for _, a := range t.Attempts {
		n[a.Agent]++
	}
	return n
}

// key names an attempt within a task.
type key struct {
	path string
	op   events.Operation
	n    int
}

func (a *Attempt) key() key { return key{a.Path, a.Operation, a.N} }

func (a *Attempt) call() events.Call {
	return events.Call{Agent: a.Agent, Function: a.Function, Operation: a.Operation}
}
