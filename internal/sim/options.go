package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Options choose what a run is about. What is zero is drawn from the seed. As JSON they stand in the command that
// replays a run.
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
	// Trace keeps what happened. Run does so by itself when a run fails.
	Trace bool `json:"-"`
	// Twin folds the whole log again at the end, in every run; otherwise in one of sixteen.
	Twin bool `json:",omitzero"`
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

// Faults are probabilities from 0 to 1, of each append, answer, effect and so on.
type Faults struct {
	// Of an append: it is lost, its answer is, it is refused though it landed, half of it landed, it lands in parts, twice,
	// before an earlier one, or half a minute late.
	Lost, Silent, Error, Split, Apart, Double, Reorder, VeryLate float64 `json:",omitzero"`
	// AnswerTwice is of an answer, Slow of anything on its way.
	AnswerTwice, Slow float64 `json:",omitzero"`
	// Of an effect: it is refused for good, or lands twice. AskFails is of a question.
	Refuse, EffectTwice, AskFails float64 `json:",omitzero"`
	// Of an attempt: no report, a failure, a report around its complete-by time or long after, a report twice, a slow one,
	// and reports that contradict one another or are of attempts that there are not.
	AgentSilent, AgentFails, AgentLate, AgentTwice, AgentSlow, Odd float64 `json:",omitzero"`
	// Of a task: its inputs lie in another partition, are repeated, contradict it, or are no inputs at all; somebody cancels
	// it, or retries it; its payload lies around a limit; deciding about it panics.
	Misplaced, Duplicate, Conflict, Garbage, Cancel, Retry, Oversize, Panic float64 `json:",omitzero"`
	// How many there are in a run, on average: crashes, pauses, hand-overs, jumps of a node's clock, floods of one partition,
	// outages of an agent, and restarts of an agent that gets its work again.
	Crash, Pause, Reassign, Jump, Flood, AgentDown, AgentRestart float64 `json:",omitzero"`
}

// Report is what a run found.
type Report struct {
	Seed uint64
	// Options are those of the run, with all that was drawn.
	Options Options
	// Violation is the first broken invariant, empty if none.
	Violation string
	// Trace is what happened up to it.
	Trace []string
	// Counts of what the run exercised.
	Steps, Facts, Void, Epochs, Tasks, Crashes int
	// Kinds counts the accepted facts by name.
	Kinds map[events.Name]int
	// Saw counts the situations that the run came to.
	Saw Coverage
	// Digest is a hash over everything that landed: two runs of one seed are equal.
	Digest uint64
	// Virtual is how long the run took in the world's own time.
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
