package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Options choose the kind of a run. A zero field is drawn from the seed. The command that replays a run contains them
// as JSON.
type Options struct {
	// Off switches rules of the owner off, to show that each of them is needed.
	Off supervisor.Rule `json:",omitzero"`
	// Faults are the probabilities of faults; nil draws them.
	Faults *Faults `json:",omitempty"`
	Nodes  int     `json:",omitzero"`
	// Partitions of the namespace.
	Partitions int32 `json:",omitzero"`
	// Tasks is how many task IDs the clients use.
	Tasks int `json:",omitzero"`
	// Chaos is how long faults last, in virtual time.
	Chaos time.Duration `json:",omitzero"`
	// Remember is Settings.RememberFor.
	Remember time.Duration `json:",omitzero"`
	// KeepLog is Settings.KeepLog. If it is set, the run is a long one: Year.
	KeepLog time.Duration `json:",omitzero"`
	// Remind is Settings.RemindAfter; 0 means never.
	Remind time.Duration `json:",omitzero"`
	// Trace records what happened. Run sets it itself when a run fails.
	Trace bool `json:"-"`
	// EachDay is called at the end of each day of a long run.
	EachDay func(Day) `json:"-"`
	// Twin folds the whole log again at the end of every run; otherwise this happens in one run out of sixteen.
	Twin bool `json:",omitzero"`
	// NoItems says that no task has a step with items.
	NoItems bool `json:",omitzero"`
	// uncopied says that the namespace is not copied, so that its topics are all that it ever had.
	uncopied bool
}

// ParseOptions reads what Options.String wrote.
func ParseOptions(text string) (o Options, err error) {
	if text == "" {
		return o, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf("read the options of a run: %w", err)
	}
	return o, nil
}

// String returns the options as ParseOptions reads them.
func (o Options) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		return err.Error() // numbers always encode
	}
	return string(b)
}

// Faults are probabilities from 0 to 1, for each append, answer, effect and so on.
type Faults struct {
	// An append is lost, its answer is lost, it is refused although it landed, half of it landed, or it lands in parts, twice,
	// before an earlier one, or half a minute late.
	Lost, Silent, Error, Split, Apart, Double, Reorder, VeryLate float64 `json:",omitzero"`
	// AnswerTwice is for an answer, Slow for anything in flight.
	AnswerTwice, Slow float64 `json:",omitzero"`
	// An effect is refused for good, or lands twice. Mute: its topic answers nothing for up to a minute. AskFails: a question
	// fails.
	Refuse, EffectTwice, Mute, AskFails float64 `json:",omitzero"`
	// The outcome of an attempt: it has no report, a failure, a report around its complete-by time or long after
	// it, a repeated report, a slow one, or reports that contradict one another or name attempts that never
	// existed.
	AgentSilent, AgentFails, AgentLate, AgentTwice, AgentSlow, Odd float64 `json:",omitzero"`
	// The service behind an agent is unkind: it carries out a do after its undo, at once or after a while, answers "not found" to an
	// undo of nothing, or remembers a key for longer than a task is remembered.
	Unkind float64 `json:",omitzero"`
	// The inputs of a task are in another partition, are repeated, contradict it, or are not inputs at all; somebody
	// cancels or retries it; its payload has a size around a limit; deciding about it panics.
	Misplaced, Duplicate, Conflict, Garbage, Cancel, Retry, Oversize, Panic float64 `json:",omitzero"`
	// The average number in a run: crashes, pauses, hand-overs, jumps of a node's clock, floods of one partition,
	// outages of an agent, restarts of an agent that gets its work again, and times when no instance offers an operation.
	Crash, Pause, Reassign, Jump, Flood, AgentDown, AgentRestart, AgentGone, AgentPaused float64 `json:",omitzero"`
	// Judging the submission of a task ends the process.
	Lethal float64 `json:",omitzero"`
	// The average number of changes of the settings.
	Settings float64 `json:",omitzero"`
	// The average number of times that the oldest records of an input are deleted, including some that are not judged. An
	// operator accepts each loss later.
	Trim float64 `json:",omitzero"`
	// The average number of upgrades of a node to a newer build, or of the namespace to its level; with 0, all nodes have one build.
	Levels float64 `json:",omitzero"`
	// The average number of transactions on a partition of an input that stay open for seconds or minutes.
	Transaction float64 `json:",omitzero"`
	// A topic stops taking effects and does not recover: the work of an agent, the alerts, or the dead letters of an input.
	Outage float64 `json:",omitzero"`
	// The average number of times that a node starts with a clock that is minutes to days ahead and nobody notices for a while.
	Wrong float64 `json:",omitzero"`
	// The average number of schedules.
	Schedules float64 `json:",omitzero"`
	// LateStarts is the probability that the second copy of a submission of a schedule arrives up to a minute late, when its task may be forgotten.
	// With the same probability a schedule starts tasks that are forgotten soon.
	LateStarts float64 `json:",omitzero"`
	// The average number of tasks that start other tasks.
	Families float64 `json:",omitzero"`
	// The probability that a task has a step with items.
	FanOuts float64 `json:",omitzero"`
	// The average number of copies of the namespace into one with another number of partitions.
	Copy float64 `json:",omitzero"`
	// How many hours some agents stay away after the other faults have ended.
	Away float64 `json:",omitzero"`
}

// Report is what a run found.
type Report struct {
	Seed uint64
	// Options are the options of the run, including those that were drawn.
	Options Options
	// Violation is the first broken invariant, empty if none.
	Violation string
	// Trace lists the events up to the violation.
	Trace []string
	// Counts of what happened in the run.
	Steps, Facts, Void, Epochs, Tasks, Crashes int
	// Kinds counts the accepted facts by name.
	Kinds map[events.Name]int
	// Saw counts the situations that occurred in the run.
	Saw Coverage
	// Digest is a hash of everything that landed: two runs of one seed have the same digest.
	Digest uint64
	// Virtual is how long the run took in virtual time.
	Virtual time.Duration
}

// Failed says whether an invariant was broken.
func (r *Report) Failed() bool { return r.Violation != "" }

// Replay returns the command that runs it again.
func (r *Report) Replay() string {
	return fmt.Sprintf("go test ./internal/sim -run TestEverySeedKeepsTheInvariants -v -sim.seed=%d -sim.opt='%s'", r.Seed, r.Options)
}

// String returns the violation with the last part of the trace.
func (r *Report) String() string {
	if !r.Failed() {
		return fmt.Sprintf("seed %d: %d facts, %d void, %d epochs, %d tasks in %s", r.Seed, r.Facts, r.Void, r.Epochs, r.Tasks, r.Virtual)
	}
	tail := r.Trace
	if len(tail) > 120 {
		tail = tail[len(tail)-120:]
	}
	return fmt.Sprintf("seed %d: %s\n%s\nto run it again: %s", r.Seed, r.Violation, strings.Join(tail, "\n"), r.Replay())
}
