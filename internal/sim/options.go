package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// Options choose what a run is about. What is zero is drawn from the seed.
type Options struct {
	// Off switches rules of the owner off, to show that each of them is needed.
	Off supervisor.Rule
	// Faults are the probabilities of faults; nil draws them.
	Faults *Faults
	// Config is the base of every owner's configuration; nil draws it.
	Config *supervisor.Config
	Nodes  int
	// Partitions of the namespace.
	Partitions int32
	// Tasks is how many task IDs the clients use.
	Tasks int
	// Chaos is how long faults last, in virtual time.
	Chaos time.Duration
	// Remember is Settings.RememberFor.
	Remember time.Duration
	// Trace keeps what happened. Run does so by itself when a run fails.
	Trace bool
}

// Faults are probabilities from 0 to 1, of each append, answer, effect and so on.
type Faults struct {
	Lost, Silent, Error, Split, Apart, Double, Reorder float64
	AnswerTwice, Slow                                  float64
	Refuse, EffectTwice, AskFails                      float64
	AgentSilent, AgentFails, AgentLate, AgentTwice     float64
	Misplaced, Duplicate, Conflict, Garbage, Cancel    float64
	// Crash, Pause and Reassign are how many of each happen in a run, on average.
	Crash, Pause, Reassign float64
}

// drawFaults swarms: each run has some kinds of faults often and others never, since faults hide one another.
func drawFaults(r *rand.Rand) *Faults {
	p := func(most float64) float64 {
		switch r.IntN(4) {
		case 0, 1:
			return 0
		case 2:
			return most / 5
		}
		return most * r.Float64()
	}
	return &Faults{
		Lost: p(0.1), Silent: p(0.1), Error: p(0.1), Split: p(0.1), Apart: p(0.1), Double: p(0.1), Reorder: p(0.3),
		AnswerTwice: p(0.3), Slow: p(0.2),
		Refuse: p(0.2), EffectTwice: p(0.3), AskFails: p(0.3),
		AgentSilent: p(0.3), AgentFails: p(0.5), AgentLate: p(0.3), AgentTwice: p(0.4),
		Misplaced: p(0.3), Duplicate: 0.1 + p(0.4), Conflict: p(0.2), Garbage: p(0.2), Cancel: p(0.5),
		Crash: p(8), Pause: p(8), Reassign: p(8),
	}
}

// drawConfig chooses small bounds: what is rare in production happens in each run.
func drawConfig(r *rand.Rand, remember time.Duration) supervisor.Config {
	s := events.DefaultSettings()
	s.HashEvery = 1 + r.IntN(12)
	s.Grace = events.Duration(500 * time.Millisecond)
	s.HeldFor = events.Duration(time.Duration(2+r.IntN(10)) * time.Second)
	s.HeldRequests = 1 + r.IntN(6)
	s.RememberFor = events.Duration(remember)
	if r.IntN(4) == 0 {
		s.TaskFacts = 12 + r.IntN(30)
	}
	return supervisor.Config{
		Namespace: "sim", Settings: s,
		BatchFacts: 2 + r.IntN(9), BatchBytes: 4 << 10 << r.IntN(4), InFlight: 1 + r.IntN(4), Queue: 1 + r.IntN(6), Tasks: 1 + r.IntN(10),
		Unsettled: 4 + r.IntN(40), Window: 1 + r.IntN(5), PassEvery: 1 + r.IntN(8), UnknownAfter: 3 * time.Second, LagMax: 3 * time.Second,
	}
}

// Report is what a run found.
type Report struct {
	Seed uint64
	// Violation is the first broken invariant, empty if none.
	Violation string
	// Trace is what happened up to it.
	Trace []string
	// Counts of what the run exercised.
	Steps, Facts, Void, Epochs, Tasks, Crashes int
	// Kinds counts the accepted facts by name.
	Kinds map[events.Name]int
	// Digest is a hash over everything that landed: two runs of one seed are equal.
	Digest uint64
	// Virtual is how long the run took in the world's own time.
	Virtual time.Duration
}

// Failed says whether an invariant was broken.
func (r *Report) Failed() bool { return r.Violation != "" }

// String returns the violation with the last part of the trace.
func (r *Report) String() string {
	if !r.Failed() {
		return fmt.Sprintf("seed %d: %d facts, %d void, %d epochs, %d tasks in %s", r.Seed, r.Facts, r.Void, r.Epochs, r.Tasks, r.Virtual)
	}
	tail := r.Trace
	if len(tail) > 120 {
		tail = tail[len(tail)-120:]
	}
	return fmt.Sprintf("seed %d: %s\n%s", r.Seed, r.Violation, strings.Join(tail, "\n"))
}
