package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// begin is the time at which every world starts.
const begin events.Instant = 1_800_000_000_000

// World is one simulated run. One goroutine owns it.
type World struct {
	opt    Options
	faults Faults
	cfg    supervisor.Config
	rng    *rand.Rand
	// aside is a separate source of randomness for sampled checks, so that they do not change the run.
	aside  *rand.Rand
	now    events.Instant
	agenda agenda
	order  uint64

	parts []*partition
	nodes []*node
	// group holds, for each partition, the node that should own it.
	group   []int
	agents  *agents
	offers  *offers
	clients *clients
	// schedules are those of the namespace.
	schedules   *schedules
	families    *families
	namedLimits *namedLimits
	// settings are the namespace's settings.
	settings *settings
	levels   *levels
	// catalogEnd is how many workflows have been applied.
	catalogEnd int
	healed     bool
	// permitsLost says that a record about a permit, or of a parent or child, may have been lost, so that it is repeated after an hour, and patient that the world waits
	// for that.
	permitsLost, patient bool
	clocks               clocks
	// mute says until when a topic takes no effect.
	mute map[string]events.Instant
	// absent are the agents that are away for hours, with the times at which they left.
	absent map[string]events.Instant
	outage outage

	// limitless says that limits may have been exceeded because partitions went on from checkpoints of different times, and unpromised names the tasks, with
	// their tickets, whose effects went on after their checkpoint.
	limitless  bool
	unpromised map[string]bool

	// cuts counts the cuts of a long run, and copies the copies of the namespace.
	cuts, copies int
	violation    string
	trace        []string
	report       Report
}

// event is something that happens at a virtual time.
type event struct {
	at    events.Instant
	order uint64
	run   func()
}

type agenda []*event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || (a[i].at == a[j].at && a[i].order < a[j].order)
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(*event)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	return last
}

// Run runs one seed until an invariant breaks or the world is at rest. A failed run is run again with a trace.
func Run(seed uint64, opt Options) *Report {
	r := run(seed, opt)
	if r.Failed() && !opt.Trace {
		opt.Trace = true
		traced := run(seed, opt)
		if traced.Violation != r.Violation {
			// The engine's code depends on more than its arguments, which is the worst possible finding here.
			traced.Violation = "INV4: the same seed ran differently a second time; first " + r.Violation + "; then " + traced.Violation
		}
		return traced
	}
	return r
}

func run(seed uint64, opt Options) *Report { return &play(seed, opt).report }

// play returns the world of a seed at its end.
func play(seed uint64, opt Options) *World {
	w := newWorld(seed, opt)
	partitions := w.opt.Partitions // a copy has others
	w.start()
	w.loop(w.now.Add(w.opt.Chaos), func() bool { return false })
	w.heal()
	w.away()
	w.loop(w.now.Add(healing), w.atRest)
	if w.violation == "" && !w.atRest() && w.permitsLost {
		w.patient = true
		w.loop(w.now.Add(3*events.RepeatAfter), w.atRest)
	}
	if w.violation == "" && w.atRest() && keepsWaiting(w) != "" {
		awaitBlocked(w)
	}
	w.families.awaitReleases()
	if w.violation == "" && !w.atRest() {
		w.fail("the world does not come to rest: %s", w.unrest())
	}
	w.finish()
	w.report.Seed, w.report.Options, w.report.Violation, w.report.Trace = seed, w.opt, w.violation, w.trace
	w.report.Options.Partitions = partitions
	w.report.Virtual = w.now.Sub(begin)
	return w
}

// healing bounds the time that a world without faults may take to come to rest: a corrected clock is suspected for a
// minute, retries, cool-downs, held requests and deadlines take up to a minute and a half, and twice that for an
// owner whose log is ahead of its clock, and a transaction may stay open for three minutes.
const healing = 11 * time.Minute

func newWorld(seed uint64, opt Options) *World {
	// The options are drawn from a separate stream, so that setting some of them does not change the others.
	dice := rand.New(rand.NewPCG(seed, 0x0974105))
	w := &World{rng: rand.New(rand.NewPCG(seed, 0x5a6a106)), aside: rand.New(rand.NewPCG(seed, 0xa51de)), now: begin, catalogEnd: appliedAtStart}
	opt.resolve(dice, rand.New(rand.NewPCG(seed, 0x5e771)))
	w.opt, w.faults, w.cfg = opt, *opt.Faults, drawConfig(dice, &opt)
	w.cfg.Settings.KeepLog = drawKeepLog(rand.New(rand.NewPCG(seed, 0xca221e5)))
	if w.opt.year() {
		w.cfg.Settings.KeepLog = events.Duration(w.opt.KeepLog)
	}
	w.outage = drawOutage(rand.New(rand.NewPCG(seed, 0x007a6e)), &w.opt)
	w.settings, w.levels, w.clocks.w = newSettings(w), newLevels(w), w
	w.report.Kinds = map[events.Name]int{}
	w.namedLimits = newNamedLimits(w, seed)
	w.mute, w.absent, w.unpromised = map[string]events.Instant{}, map[string]events.Instant{}, map[string]bool{}
	for p := range w.opt.Partitions {
		w.parts = append(w.parts, newPartition(w, p))
	}
	w.agents, w.offers, w.clients = newAgents(w, drawServices(rand.New(rand.NewPCG(seed, 0x5e271ce)), w.faults.Unkind)), newOffers(w), newClients(w, seed)
	w.schedules = newWorldSchedules(w)
	w.families = newFamilies(w, seed)
	for i := range w.opt.Nodes {
		w.nodes = append(w.nodes, newNode(w, i))
	}
	return w
}

// loop runs events until the time, until done, or until an invariant breaks.
func (w *World) loop(until events.Instant, done func() bool) {
	for w.violation == "" && len(w.agenda) > 0 && w.agenda[0].at <= until {
		e := heap.Pop(&w.agenda).(*event)
		w.now = max(w.now, e.at)
		w.report.Steps++
		e.run()
		if (w.report.Steps%64 == 0 || w.patient) && done() { // a patient world has few steps, most of them at times when something moves
			return
		}
		if most := maxSteps + stepsPerSecond*int(w.opt.Chaos.Seconds()) + int(stepsPerHour*w.opt.Faults.Away); w.report.Steps > most {
			w.fail("the world does not come to rest within %d steps: %s", most, w.unrest())
		}
	}
	w.now = max(w.now, min(until, w.now.Add(time.Millisecond)))
}

// maxSteps, with stepsPerSecond of the time with faults and stepsPerHour of the time in which agents are away, is far above what a
// run takes: more is a livelock. (While agents are away, requests to another may be lost for good: an outage. All its tasks try
// again all the time then, each try a round of carrying.)
const (
	maxSteps       = 400_000
	stepsPerSecond = 10
	stepsPerHour   = 50_000
)

// after has run called d milliseconds from now.
func (w *World) after(d int, run func()) {
	w.order++
	heap.Push(&w.agenda, &event{at: w.now + events.Instant(d), order: w.order, run: run})
}

// chance draws a fault.
func (w *World) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// lag draws how long a message is in flight, in milliseconds: mostly short, sometimes long.
func (w *World) lag() int {
	if !w.healed && w.chance(w.faults.Slow) {
		if w.rng.IntN(8) == 0 {
			return w.rng.IntN(4500)
		}
		return w.rng.IntN(300)
	}
	return w.rng.IntN(4)
}

// fail notes the first violation.
func (w *World) fail(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
		w.note("VIOLATION: %s", w.violation)
	}
}

// note adds a line to the trace.
func (w *World) note(format string, args ...any) {
	if w.opt.Trace {
		w.trace = append(w.trace, fmt.Sprintf("%8.3f ", w.now.Sub(begin).Seconds())+fmt.Sprintf(format, args...))
	}
}

// start brings up the nodes, and plans the actions of clients and chaos.
func (w *World) start() {
	w.group = make([]int, len(w.parts))
	for _, n := range w.nodes {
		n.boot()
	}
	for p := range w.parts {
		w.group[p] = w.rng.IntN(len(w.nodes))
		w.nodes[w.group[p]].assign(p, true)
	}
	w.clients.plan()
	w.schedules.plan()
	w.families.plan()
	w.namedLimits.plan()
	w.chaos()
	countDays(w)
}

// heal ends the faults: every node is up, each partition is assigned to one of them, agents answer.
func (w *World) heal() {
	if w.violation != "" {
		return
	}
	w.note("the world heals")
	w.healed = true
	if w.faults.Wrong > 0 {
		w.clocks.compare()
	}
	w.faults = Faults{}
	for _, n := range w.nodes {
		// Otherwise nobody notices, and the clock is believed after a minute. A clock that stays behind the agents'
		// clocks does not heal: they consider every request late, and no work is done until somebody sets the clock
		// (README).
		if unnoticed := w.rng.IntN(2) == 1; !unnoticed || n.ahead < 0 {
			n.ahead = 0
		}
		n.revive()
	}
	w.levels.heal()
	for p := range w.parts {
		for i, n := range w.nodes {
			n.assign(p, i == w.group[p])
		}
	}
	w.agents.heal()
	w.offers.heal()
	w.settings.heal()
	w.schedules.heal()
	w.namedLimits.heal()
}
