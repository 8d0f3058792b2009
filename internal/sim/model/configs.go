package model

import "github.com/sagalog/sagalog/events"

// Bound says how much of the model is searched.
type Bound int

// The bounds. Each contains the one before.
const (
	// Small takes seconds and runs with every test.
	Small Bound = 1
	// CI takes a minute or two.
	CI Bound = 2
	// Long takes ten seconds or more for each search, and about seven minutes for all on two cores. CI searches a third of them in
	// each run, and each of them before a release.
	Long Bound = 3
	// Large takes hours.
	Large Bound = 4
)

// Turns is how many runs of CI, each with another turn, search all long configurations and all mutants.
const Turns = 6

// Bounded is a configuration and the smallest bound that includes it.
type Bounded struct {
	Config
	Bound Bound
	// Turn says in which of the Turns a run of CI searches a long configuration.
	Turn int
}

type faults = map[Budget]int

// submit is a task that is submitted when the world begins.
func submit(task string, workflow string) Client {
	return Client{Kind: Submit, Task: task, Workflow: workflow, AtStart: true}
}

// later is an input that comes once, at any time.
func later(kind Kind, task, workflow string) Client {
	return Client{Kind: kind, Task: task, Workflow: workflow, Times: 1}
}

// lateStart is the submission of a schedule, which comes once more at any time.
var lateStart = []Client{
	{Kind: Submit, Task: "T1", Workflow: "none", Schedule: "s", AtStart: true},
	{Kind: Submit, Task: "T1", Workflow: "none", Schedule: "s", Times: 1},
}

// TaskOf returns the n-th task whose home, of two partitions, is the given one.
func TaskOf(home int32, n int) string {
	for i := 0; ; i++ {
		id := "T" + string(rune('1'+i))
		if events.Home(id, 2) == home {
			if n--; n == 0 {
				return id
			}
		}
	}
}

// Configurations lists the configurations that are searched. Name describes each, together with its budgets.
func Configurations() []Bounded {
	var all []Bounded
	long := 0
	add := func(b Bound, c Config) {
		c.Coarse = true
		all = append(all, Bounded{Config: c, Bound: b, Turn: long % Turns})
		if b == Long {
			long++
		}
	}
	for _, group := range []func(func(Bound, Config)){ownership, effects, timing, delays, others, byHand, permits, children, limits, reruns, trims, carries, fanOuts, namespaceCopies} {
		group(add)
	}
	return all
}

// A task of one step, and one that ends by itself.
var (
	one  = []Client{submit("T1", "one")}
	none = []Client{submit("T1", "none")}
)

// ownership covers claim, fence, append, crash, hand-over, and batches of several facts.
func ownership(add func(Bound, Config)) {
	add(Small, Config{Name: "a crash", Clients: one, Budgets: faults{Crashes: 1, LateAppends: 1, LateEffects: 1}})
	add(Small, Config{Name: "an unknown outcome", Clients: one, Budgets: faults{Unknowns: 1, LateAppends: 1, LateEffects: 1}})
	add(Small, Config{Name: "reordered and doubled", Clients: one, InFlight: 3, Budgets: faults{Reorders: 1, Doubles: 1, LateAppends: 1}})
	add(Small, Config{Name: "lost and reordered", Clients: one, InFlight: 3, Budgets: faults{LostAppends: 1, Reorders: 1, LateAppends: 1}})
	add(Small, Config{Name: "an older store, none", Clients: one, Budgets: faults{OlderStores: 1, LostStores: 1}})
	add(CI, Config{Name: "two crashes", Clients: none, Budgets: faults{Crashes: 2, LateAppends: 2}})
	add(Large, Config{Name: "two crashes, work", Clients: one, Budgets: faults{Crashes: 2, LateAppends: 2}})
	add(CI, Config{Name: "two unknown outcomes", Clients: none, Budgets: faults{Unknowns: 2, LateAppends: 2}})
	add(Large, Config{Name: "two unknown outcomes, work", Clients: one, Budgets: faults{Unknowns: 2, LateAppends: 2}})
	add(CI, Config{Name: "two lost, two reordered", Clients: one, InFlight: 3, Budgets: faults{LostAppends: 2, Reorders: 2}})
	add(Long, Config{Name: "two doubled", Clients: one, InFlight: 3, Budgets: faults{Doubles: 2, LateAppends: 2}})
	add(Large, Config{Name: "two doubled, reordered", Clients: one, InFlight: 3, Budgets: faults{Doubles: 2, LateAppends: 2, Reorders: 1}})
	add(CI, Config{Name: "two tasks, a crash", Clients: []Client{submit("T1", "one"), submit("T2", "none")}, InFlight: 3, Budgets: faults{Crashes: 1, LateAppends: 1}})
	add(Long, Config{Name: "a hand-over", Clients: one, Budgets: faults{Reassigns: 1}})
	two := []Client{submit("T1", "none"), submit("T2", "none")}
	add(Small, Config{Name: "lost submissions", Clients: two, Budgets: faults{Trims: 2}})
	add(CI, Config{Name: "lost submissions, a hand-over", Clients: none, Budgets: faults{Trims: 1, Reassigns: 1, LateAppends: 1}})
	add(Long, Config{Name: "lost submissions, a crash, duplicates", Clients: append(two[:1:1], later(Submit, "T1", "none")), PassEvery: 1, Budgets: faults{Trims: 2, Crashes: 1, LateAppends: 1}})
	add(Long, Config{Name: "lost submissions, an unknown outcome", Clients: two, Budgets: faults{Trims: 2, Unknowns: 1, LateAppends: 1}})
	add(Long, Config{Name: "lost submissions, timers", Clients: []Client{submit("T1", "none"), later(Submit, "T2", "one")}, Budgets: faults{Trims: 1, Passes: 1}})
	add(Small, Config{Name: "a sleep", Clients: one, Budgets: faults{Sleeps: 1, Crashes: 1}})
	add(Long, Config{Name: "a sleep, a hand-over", Clients: one, InFlight: 1, Budgets: faults{Sleeps: 1, Reassigns: 1}})
	add(Long, Config{Name: "a hand-over, no work", Clients: none, Budgets: faults{Reassigns: 1, StaleClaims: 1, LateAppends: 1}})
	add(CI, Config{Name: "two hand-overs, no work", Clients: none, Budgets: faults{Reassigns: 2}})
	add(Small, Config{Name: "a hand-over, other settings", Clients: none, Settings: true, Budgets: faults{Reassigns: 1}})
	newer := []Client{submit("T1", newerWorkflow)}
	add(CI, Config{Name: "a hand-over to an older node", Older: 2, Catalog: true, Clients: newer, Budgets: faults{Reassigns: 1, LateAppends: 1}})
	add(Small, Config{Name: "a hand-over from an older node", Older: 1, Catalog: true, Clients: newer, Budgets: faults{Crashes: 1}})
	add(CI, Config{Name: "a hand-over and a crash", Clients: none, Budgets: faults{Reassigns: 1, Crashes: 1}})
	add(CI, Config{Name: "a hand-over, doubled claims", Clients: none, ClaimAcks: true, Budgets: faults{Reassigns: 1, Doubles: 1, LateAppends: 1}})
	add(Large, Config{Name: "a hand-over, late appends", Clients: one, Budgets: faults{Reassigns: 1, LateAppends: 1}})
	add(Large, Config{Name: "a hand-over, stale claims", Clients: one, Budgets: faults{Reassigns: 1, StaleClaims: 1, LateAppends: 1}})
	add(Large, Config{Name: "two hand-overs", Clients: one, Budgets: faults{Reassigns: 2}})
	add(Small, Config{Name: "a late store, a crash", LateStore: true, Clients: one, Budgets: faults{Crashes: 1, LateAppends: 1, LateEffects: 1}})
	add(CI, Config{Name: "a late store, an unknown outcome", LateStore: true, Clients: one, Budgets: faults{Unknowns: 1, LateAppends: 1, LateEffects: 1}})
	add(Long, Config{Name: "a late store, a hand-over", LateStore: true, Clients: one, Budgets: faults{Reassigns: 1}})
	add(CI, Config{Name: "a late store, two tasks, a crash", LateStore: true, Clients: []Client{submit("T1", "one"), submit("T2", "none")}, InFlight: 3, Tasks: 1, Budgets: faults{Crashes: 1, LateAppends: 1}})
	add(Small, Config{Name: "facts read in pages, a crash", Pages: true, Replays: true, Clients: []Client{submit("T1", "one"), {Kind: Garbage, AtStart: true}}, Budgets: faults{Crashes: 1, LateEffects: 1}})
	add(Small, Config{Name: "batches, in parts", Clients: []Client{submit("T1", "one"), submit("T2", "none")}, BatchFacts: 8, InFlight: 2, Budgets: faults{Splits: 1, Crashes: 1}})
	lethal := Client{Kind: Lethal, Task: "T2", Workflow: "none", AtStart: true}
	add(Small, Config{Name: "a lethal input", Clients: []Client{submit("T1", "none"), lethal, submit("T3", "none")}, BatchFacts: 8})
	add(Small, Config{Name: "a lethal input, definitions", Catalog: true, Clients: []Client{lethal}, BatchFacts: 8})
	add(CI, Config{Name: "a lethal input, a crash", Clients: []Client{lethal, submit("T1", "none")}, BatchFacts: 8, Budgets: faults{Crashes: 1}})
	add(CI, Config{Name: "a lethal input, a hand-over", Nodes: 2, Clients: []Client{lethal}, Budgets: faults{Reassigns: 1}})
	add(CI, Config{Name: "two lethal inputs", Clients: []Client{lethal, {Kind: Lethal, Task: "T4", Workflow: "none", AtStart: true}}, BatchFacts: 8})
	add(CI, Config{Name: "batches, two faults", Clients: []Client{submit("T1", "none"), submit("T2", "none")}, BatchFacts: 8, InFlight: 2, Budgets: faults{Splits: 2, LostAppends: 1, Unknowns: 1, LateAppends: 1}})
	add(CI, Config{Name: "batches, reordered", Clients: []Client{submit("T1", "none"), submit("T2", "none")}, BatchFacts: 3, InFlight: 2, Budgets: faults{Reorders: 1}})
}

// effects covers the watermark, InputsPassed, and forwards.
func effects(add func(Bound, Config)) {
	add(CI, Config{Name: "watermark, slow acks", Clients: one, Budgets: faults{SlowAcks: 1, Crashes: 1, LateEffects: 1}})
	add(Large, Config{Name: "watermark, an unknown outcome", Clients: []Client{submit("T1", "none"), later(Conflict, "T1", "none"), later(Submit, "T1", "none")}, Budgets: faults{Passes: 1, Unknowns: 1}})
	add(Small, Config{Name: "duplicates passed", Clients: []Client{submit("T1", "none"), later(Submit, "T1", "none"), later(Conflict, "T1", "none")}, PassEvery: 1, Budgets: faults{Crashes: 1}})
	add(Long, Config{Name: "garbage, markers", Clients: []Client{submit("T1", "none"), later(Garbage, "", ""), later(Marker, "", "")}, Budgets: faults{Refusals: 1, Passes: 1}})
	add(Large, Config{Name: "garbage, markers, more", Clients: []Client{submit("T1", "none"), later(Garbage, "", ""), later(Marker, "", "")}, Budgets: faults{Crashes: 1, Refusals: 1, Passes: 1}})
	add(Small, Config{Name: "a delayed dead letter", Delays: true, Clients: []Client{submit("T1", "none"), later(Garbage, "", "")}, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Long, Config{Name: "a delayed dead letter, slow acks", Delays: true, Clients: []Client{submit("T1", "none"), {Kind: Garbage, Times: 2}}, Budgets: faults{Passes: 1, Crashes: 1, SlowAcks: 1, LateEffects: 1}})
	add(Long, Config{Name: "a delayed dead letter, a hand-over", Delays: true, Clients: []Client{{Kind: Garbage, AtStart: true}}, Budgets: faults{Passes: 1, Reassigns: 1}})
	add(CI, Config{Name: "delayed dead letters", Delays: true, Clients: []Client{{Kind: Garbage, AtStart: true, Times: 1}}, Budgets: faults{Passes: 2, Crashes: 1}})
	add(Long, Config{Name: "delayed work, a crash", Delays: true, Clients: one, Budgets: faults{Passes: 1, Crashes: 1}})
	replies := func(workflow string) []Client {
		return []Client{{Kind: Submit, Task: "T1", Workflow: workflow, AtStart: true, Replies: true}}
	}
	add(Small, Config{Name: "replies, a crash", Clients: replies("one"), Budgets: faults{Crashes: 1}})
	add(Small, Config{Name: "replies, a second attempt", Nodes: 1, Clients: replies("one"), Outcomes: []Outcome{Failed}, Budgets: faults{Failures: 1}})
	add(Small, Config{Name: "replies, a dead letter", Clients: append(replies("none"), Client{Kind: Conflict, Task: "T1", Workflow: "none", Times: 1, Replies: true}), Budgets: faults{Crashes: 1}})
	add(Small, Config{Name: "a refused reply", Nodes: 1, Delays: true, Clients: replies("none"), Budgets: faults{Refusals: 1, Passes: 1}})
	add(Long, Config{Name: "a delayed reply, a crash", Nodes: 1, Delays: true, Clients: replies("none"), Budgets: faults{Passes: 2, Crashes: 1}})
	stray := Client{Kind: Submit, Task: TaskOf(1, 1), Workflow: "none", AtStart: true}
	home := submit(TaskOf(0, 1), "none")
	add(Small, Config{Name: "a forward", Partitions: 2, Clients: []Client{stray, home}, Budgets: faults{Crashes: 1, Refusals: 1, LateEffects: 1}})
	add(Long, Config{Name: "a delayed forward", Delays: true, Partitions: 2, Clients: []Client{stray, home}, Budgets: faults{Crashes: 1, Refusals: 1, Passes: 1}})
	add(CI, Config{Name: "a forward, passing time", Partitions: 2, Clients: []Client{stray}, Alerts: true, Budgets: faults{Crashes: 1, Refusals: 1, LateEffects: 1, Passes: 1}})
	add(Long, Config{Name: "a forward, passing time, more", Partitions: 2, Clients: []Client{stray}, Alerts: true, Budgets: faults{Crashes: 1, Refusals: 2, SlowAcks: 1, LateEffects: 1, Passes: 1}})
}

// delays covers tasks that wait for their time.
func delays(add func(Bound, Config)) {
	notYet := func(workflow string) []Client {
		return []Client{{Kind: Submit, Task: "T1", Workflow: workflow, NotBefore: "5s", AtStart: true}}
	}
	add(Small, Config{Name: "a task that waits for its time", Nodes: 1, Clients: append(notYet("one"), later(Pause, "T1", "one"), later(Cancel, "T1", "one")), Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a task that waits for its time, a crash", Clients: notYet("none"), Budgets: faults{Passes: 1, Crashes: 1, LateAppends: 1}})
	add(Long, Config{Name: "a task that waits for its time, a hand-over", Clients: notYet("none"), Budgets: faults{Passes: 1, Reassigns: 1, LateAppends: 1}})
	add(CI, Config{Name: "a task that waits for its time, a deadline", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: append(notYet("dated"), later(Pause, "T1", "dated"), later(Resume, "T1", "dated")), Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a wrong clock, a task that waits for its time", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: notYet("none"), Budgets: faults{Reassigns: 1, Passes: 1}})
}

// timing covers timers, sweeps and held requests.
func timing(add func(Bound, Config)) {
	add(Small, Config{Name: "a timer", Clients: one, Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a timer, a deadline", Nodes: 1, Clients: []Client{submit("T1", "dated")}, Budgets: faults{Passes: 1}})
	nap := []Client{submit("T1", "nap")}
	add(Small, Config{Name: "a step that sleeps", Nodes: 1, Clients: append(nap[:1:1], later(Pause, "T1", "nap"), later(Resume, "T1", "nap")), Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a step that sleeps, a cancel", Nodes: 1, Clients: append(nap[:1:1], later(Cancel, "T1", "nap")), Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a step that sleeps, a crash", Clients: nap, Budgets: faults{Passes: 1, Crashes: 1, LateAppends: 1}})
	add(Long, Config{Name: "a step that sleeps, a hand-over", Clients: nap, Budgets: faults{Passes: 1, Reassigns: 1, LateAppends: 1}})
	add(Small, Config{Name: "a wrong clock, a step that sleeps", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: nap, Budgets: faults{Reassigns: 1, Passes: 1}})
	signalled := []Client{submit("T1", "ask"), {Kind: Signal, Task: "T1", Workflow: "ask", Times: 2}, later(Signal, "T1", "ask")}
	add(Long, Config{Name: "a signal", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: signalled, Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a signal before its task", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{later(Submit, "T1", "ask"), later(Signal, "T1", "ask"), later(Cancel, "T1", "ask")}})
	add(CI, Config{Name: "a signal, a crash", InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "ask"), later(Signal, "T1", "ask")}, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Large, Config{Name: "signals, a crash", InFlight: 1, Clients: signalled, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Large, Config{Name: "a signal, a pause", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: append(signalled[:2:2], later(Pause, "T1", "ask"), later(Resume, "T1", "ask")), Budgets: faults{Passes: 1}})
	add(Long, Config{Name: "a timer, a crash", Clients: one, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Long, Config{Name: "a timer, an unknown outcome", Clients: one, Budgets: faults{Passes: 1, Unknowns: 1}})
	beats := func(b Bound, name, workflow string, outcomes []Outcome, budgets faults) {
		add(b, Config{Name: name, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", workflow)}, Outcomes: outcomes, Budgets: budgets})
	}
	beats(Long, "progress, once", "beats", nil, faults{Beats: 1, Passes: 3})
	beats(Large, "progress", "beats", nil, faults{Beats: 2, Passes: 3})
	beats(Small, "progress, in doubt", "beats-undone", []Outcome{FailedInDoubt}, faults{Beats: 1, Passes: 2, Failures: 1})
	beats(Large, "progress, another attempt", "beats-again", []Outcome{Failed}, faults{Beats: 2, Passes: 2, Failures: 1})
	beats(Long, "progress, a crash", "beats", nil, faults{Beats: 1, Passes: 1, Crashes: 1})
	beats(Large, "progress, a crash, passing time", "beats", nil, faults{Beats: 1, Passes: 2, Crashes: 1})
	beats(Large, "progress, the cap", "beats", nil, faults{Beats: 3, Passes: 5})
	add(Large, Config{Name: "progress, a hand-over", InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "beats")}, Budgets: faults{Beats: 1, Passes: 2, Reassigns: 1}})
	add(CI, Config{Name: "an attempt without effect", Clients: one, Outcomes: []Outcome{FailedNone}, Budgets: faults{Failures: 1, Crashes: 1}})
	add(Small, Config{Name: "a refused request", Clients: one, Budgets: faults{Refusals: 1}})
	add(Small, Config{Name: "a refused request, sent before", Clients: one, Budgets: faults{Refusals: 1, Crashes: 1}})
	add(CI, Config{Name: "a refused request, an unknown outcome", Clients: []Client{submit("T1", "one"), later(Submit, "T1", "one")}, PassEvery: 1, Budgets: faults{Refusals: 1, Unknowns: 1}})
	add(CI, Config{Name: "timers, failures", Clients: one, Outcomes: []Outcome{FailedNone}, Budgets: faults{Passes: 1, Failures: 1}})
	add(Large, Config{Name: "timers, failures, more", Clients: one, Outcomes: []Outcome{Failed, FailedNone}, Budgets: faults{Passes: 1, Failures: 1, Repeats: 1}})
	add(CI, Config{Name: "a late store, timers, failures", LateStore: true, Clients: one, Outcomes: []Outcome{FailedNone}, Budgets: faults{Passes: 1, Failures: 1}})
	add(CI, Config{Name: "a late store, retries that wait", LateStore: true, Clients: []Client{submit("T1", "wait")}, Outcomes: []Outcome{Failed}, Budgets: faults{Passes: 1, Failures: 1}})
	add(CI, Config{Name: "a late store, a sweep", LateStore: true, Clients: []Client{submit("T1", "none"), later(Submit, "T1", "none")}, Budgets: faults{Passes: 1, Crashes: 1}})
	add(CI, Config{Name: "retries that wait", Clients: []Client{submit("T1", "wait")}, Outcomes: []Outcome{Failed}, Budgets: faults{Passes: 1, Failures: 1}})
	add(Long, Config{Name: "retries that wait, more", Clients: []Client{submit("T1", "wait")}, Outcomes: []Outcome{Failed}, Budgets: faults{Passes: 2, Failures: 1}})
	add(Small, Config{Name: "a sweep, a duplicate", Clients: []Client{submit("T1", "none"), later(Submit, "T1", "none")}, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Small, Config{Name: "a sweep, a late start", Clients: lateStart, Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a sweep, a jump", Jump: true, Nodes: 1, Clients: none, Budgets: faults{Passes: 2}})
	add(CI, Config{Name: "a sweep, a jump, a crash", Jump: true, Nodes: 1, Clients: none, Budgets: faults{Passes: 2, Crashes: 1}})
	add(Small, Config{Name: "a wrong clock", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: one, Budgets: faults{Reassigns: 1}})
	add(Large, Config{Name: "a wrong clock, a timer, passing time", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: one, Budgets: faults{Reassigns: 1, Passes: 1}})
	add(Long, Config{Name: "a wrong clock, retries that wait", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "wait")}, Outcomes: []Outcome{Failed}, Budgets: faults{Reassigns: 1, Failures: 1}})
	add(Large, Config{Name: "a wrong clock, retries that wait, passing time", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "wait")}, Outcomes: []Outcome{Failed}, Budgets: faults{Reassigns: 1, Passes: 1, Failures: 1}})
	add(Long, Config{Name: "a wrong clock, an attempt without effect", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: one, Outcomes: []Outcome{FailedNone}, Budgets: faults{Reassigns: 1, Failures: 1}})
	add(Long, Config{Name: "a wrong clock, an undo, in doubt", Calm: true, Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back")}, Outcomes: []Outcome{FailedInDoubt}, Budgets: faults{Reassigns: 1, Passes: 1, Failures: 1}})
	add(Large, Config{Name: "a wrong clock, an undo, in doubt, passing time", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "saga")}, Outcomes: []Outcome{FailedInDoubt}, Budgets: faults{Reassigns: 1, Passes: 1, Failures: 1}})
	add(CI, Config{Name: "a wrong clock, a deadline", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "dated")}, Budgets: faults{Reassigns: 1}})
	add(Large, Config{Name: "a wrong clock, a deadline, passing time", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "dated")}, Budgets: faults{Reassigns: 1, Passes: 1}})
	add(CI, Config{Name: "a wrong clock, a held cancel", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{later(Cancel, "T1", "none")}, Budgets: faults{Reassigns: 1}})
	add(Large, Config{Name: "a wrong clock, a held cancel, passing time", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{later(Cancel, "T1", "none")}, Budgets: faults{Reassigns: 1, Passes: 1}})
	add(Large, Config{Name: "a wrong clock, a sweep, a duplicate, passing time", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "none"), later(Submit, "T1", "none")}, Budgets: faults{Reassigns: 1, Passes: 1}})
	add(Small, Config{Name: "a wrong clock, three nodes", Wrong: true, Nodes: 3, InFlight: 1, BatchFacts: 8, Clients: none, Budgets: faults{Reassigns: 1}})
	add(Small, Config{Name: "a wrong clock, batches in parts", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: none, Budgets: faults{Reassigns: 1, Splits: 1}})
	add(Large, Config{Name: "a wrong clock, a crash", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: one, Budgets: faults{Reassigns: 1, Crashes: 1}})
	add(Large, Config{Name: "a wrong clock, an unknown outcome", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: one, Budgets: faults{Reassigns: 1, Unknowns: 1, LateAppends: 1}})
	add(CI, Config{Name: "a sweep, a cancel", Clients: []Client{submit("T1", "none"), later(Submit, "T1", "none"), later(Cancel, "T1", "none")}, Budgets: faults{Passes: 1}})
	add(Large, Config{Name: "a sweep, a cancel, more", Clients: []Client{submit("T1", "none"), later(Submit, "T1", "none"), later(Cancel, "T1", "none")}, Budgets: faults{Passes: 1, Crashes: 1}})
	add(CI, Config{Name: "a sweep with effects", Clients: []Client{submit("T1", "none"), later(Conflict, "T1", "none")}, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Large, Config{Name: "a sweep with effects, more", Clients: []Client{submit("T1", "one"), later(Submit, "T1", "one")}, Budgets: faults{Passes: 1, SlowAcks: 1}})
	add(Large, Config{Name: "a sweep with effects, a crash", Clients: []Client{submit("T1", "one"), later(Submit, "T1", "one")}, Budgets: faults{Passes: 1, Crashes: 1, SlowAcks: 1, LateEffects: 1}})
	add(Small, Config{Name: "a held cancel", Clients: []Client{later(Submit, "T1", "none"), later(Cancel, "T1", "none")}, Budgets: faults{Passes: 1}})
	add(Long, Config{Name: "a held cancel, work", Clients: []Client{later(Submit, "T1", "one"), later(Cancel, "T1", "one")}, Budgets: faults{Passes: 1}})
	add(CI, Config{Name: "a held cancel, a crash", Clients: []Client{later(Submit, "T1", "none"), later(Cancel, "T1", "none")}, Budgets: faults{Passes: 1, Crashes: 1}})
	add(CI, Config{Name: "held cancels", Clients: []Client{later(Submit, "T1", "none"), {Kind: Cancel, Task: "T1", Times: 2}}, Budgets: faults{Passes: 1}})
	add(Large, Config{Name: "held cancels, more", Clients: []Client{later(Submit, "T1", "none"), {Kind: Cancel, Task: "T1", Times: 2}}, Budgets: faults{Passes: 2}})
}

// others covers undo, reading definitions on demand, a small cache, facts read again late, and two partitions.
func others(add func(Bound, Config)) {
	add(Small, Config{Name: "an undo", Calm: true, Clients: []Client{submit("T1", "saga")}, Outcomes: []Outcome{FailedForGood}, Budgets: faults{Failures: 1, Passes: 1}})
	add(Small, Config{Name: "an undo, in doubt", Clients: []Client{submit("T1", "saga")}, Outcomes: []Outcome{FailedInDoubt}, Budgets: faults{Failures: 1, Passes: 1}})
	add(Long, Config{Name: "an undo, in doubt, a crash", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back")}, Outcomes: []Outcome{FailedInDoubt}, Budgets: faults{Failures: 1, Passes: 1, Crashes: 1}})
	add(Large, Config{Name: "an undo, in doubt, a crash, two steps", Clients: []Client{submit("T1", "saga")}, Outcomes: []Outcome{FailedInDoubt}, Budgets: faults{Failures: 1, Passes: 1, Crashes: 1}})
	add(CI, Config{Name: "a cancel, a crash", Clients: []Client{submit("T1", "saga"), later(Cancel, "T1", "saga")}, Budgets: faults{Crashes: 1}})
	add(CI, Config{Name: "an undo, a cancel, a crash", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "saga"), later(Cancel, "T1", "saga")}, Budgets: faults{Crashes: 1, Passes: 1}})
	add(Long, Config{Name: "an undo, failures, timers", Clients: []Client{submit("T1", "saga")}, Outcomes: []Outcome{FailedForGood}, Budgets: faults{Failures: 1, Passes: 1}})
	add(Large, Config{Name: "an undo, failures, timers, more", Clients: []Client{submit("T1", "saga")}, Outcomes: []Outcome{FailedForGood, FailedNone}, Budgets: faults{Failures: 1, Passes: 1}})
	add(CI, Config{Name: "an operator retries", Clients: []Client{submit("T1", "one"), later(Retry, "T1", "one")}, Outcomes: []Outcome{FailedForGood}, Budgets: faults{Failures: 1, Crashes: 1}})
	dated := []Client{submit("T1", "dated"), later(Retry, "T1", "dated")}
	limited := []Client{submit("T1", "limited"), later(Cancel, "T1", "limited")}
	add(Long, Config{Name: "a start limit", Nodes: 1, InFlight: 1, Clients: limited, Outcomes: []Outcome{FailedNone}, Budgets: faults{Failures: 1, Passes: 1}})
	add(CI, Config{Name: "a start limit, a pause", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "limited"), later(Pause, "T1", "limited")}, Budgets: faults{Passes: 1}})
	add(Large, Config{Name: "a start limit, a pause, resumed", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "limited"), later(Pause, "T1", "limited"), later(Resume, "T1", "limited")}, Budgets: faults{Passes: 1}})
	add(Large, Config{Name: "a start limit, a crash", Nodes: 1, Clients: limited, Outcomes: []Outcome{FailedNone}, Budgets: faults{Failures: 1, Passes: 1, Crashes: 1}})
	add(Long, Config{Name: "a wrong clock, a start limit", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "limited")}, Outcomes: []Outcome{FailedNone}, Budgets: faults{Reassigns: 1, Failures: 1}})
	add(Long, Config{Name: "an operator retries, a deadline", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: dated, Outcomes: []Outcome{FailedNone}, Budgets: faults{Failures: 1, Passes: 1}})
	add(Large, Config{Name: "an operator retries, a deadline, a crash", Nodes: 1, Clients: dated, Outcomes: []Outcome{FailedNone, FailedForGood}, Budgets: faults{Failures: 1, Passes: 1, Crashes: 1}})
	add(Small, Config{Name: "a pause", Nodes: 1, Clients: []Client{submit("T1", "one"), later(Pause, "T1", "one"), later(Resume, "T1", "one")}})
	add(Long, Config{Name: "a pause, an undo, a crash", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back"), later(Pause, "T1", "back")}, Outcomes: []Outcome{FailedForGood}, Budgets: faults{Failures: 1, Passes: 1, Crashes: 1}})
	add(Large, Config{Name: "a pause, an undo, a crash, resumed", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back"), later(Pause, "T1", "back"), later(Resume, "T1", "back")}, Outcomes: []Outcome{FailedForGood}, Budgets: faults{Failures: 1, Passes: 1, Crashes: 1}})
	add(Long, Config{Name: "a pause, a deadline", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "dated"), later(Pause, "T1", "dated")}, Budgets: faults{Passes: 1}})
	add(Large, Config{Name: "a pause, a deadline, resumed", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "dated"), later(Pause, "T1", "dated"), later(Resume, "T1", "dated")}, Budgets: faults{Passes: 1}})
	add(CI, Config{Name: "a pause, a cancel", Nodes: 1, Clients: []Client{submit("T1", "saga"), later(Pause, "T1", "saga"), later(Cancel, "T1", "saga")}})
	add(Small, Config{Name: "an operator terminates", Nodes: 1, Clients: []Client{submit("T1", "one"), later(Terminate, "T1", "one")}, Outcomes: []Outcome{FailedForGood}, Budgets: faults{Failures: 1}})
	add(Small, Config{Name: "a refusal, twice", Nodes: 1, Clients: []Client{submit("T1", "one"), {Kind: Retry, Task: "T1", Workflow: "one", Times: 2}}})
	add(Small, Config{Name: "definitions asked for", Catalog: true, Clients: []Client{submit("T1", "none"), later(Submit, "T2", "none")}, Budgets: faults{Crashes: 1}})
	add(Small, Config{Name: "a deleted definition", Deleted: "none", Clients: []Client{submit("T1", "none"), later(Submit, "T2", "one")}, Budgets: faults{Crashes: 1}})
	add(Large, Config{Name: "definitions, a crash, work", Catalog: true, Replays: true, Clients: []Client{submit("T1", "one"), later(Submit, "T1", "one"), later(Submit, "T2", "none")}, Budgets: faults{Crashes: 1}})
	add(CI, Config{Name: "a small cache", Tasks: 1, Clients: []Client{submit("T1", "one"), submit("T2", "none")}, Budgets: faults{Unknowns: 1}})
	add(CI, Config{Name: "facts read again late", Replays: true, Clients: one, Budgets: faults{Crashes: 1, LateEffects: 1}})
	two := []Client{{Kind: Submit, Task: TaskOf(1, 1), Workflow: "none", AtStart: true}}
	add(CI, Config{Name: "two partitions, a forward", Full: 2, Clients: two, Budgets: faults{Crashes: 1, LateEffects: 1}})
	add(CI, Config{Name: "two partitions, a sweep", Full: 2, Clients: two, Budgets: faults{Passes: 1, SlowAcks: 1}})
	add(CI, Config{Name: "two partitions, a hand-over", Full: 2, Clients: two, Budgets: faults{Reassigns: 1, LateAppends: 1}})
	add(Large, Config{Name: "two partitions, two hand-overs, a crash", Full: 2, Clients: two, Budgets: faults{Reassigns: 2, LateAppends: 1, LateEffects: 1, Crashes: 1}})
	add(Large, Config{Name: "two partitions, two tasks", Full: 2, Clients: append([]Client{submit(TaskOf(0, 1), "none")}, two...), Budgets: faults{Passes: 1, SlowAcks: 1, LateEffects: 1, Crashes: 1}})
}

// byHand covers what operators decide about steps.
func byHand(add func(Bound, Config)) {
	asks := func(kind Kind, workflow string, q events.Request) Client {
		return Client{Kind: kind, Task: "T1", Workflow: workflow, Times: 1, Asks: q}
	}
	s, t := events.Request{Step: "s"}, events.Request{Step: "t"}
	undo := events.Request{Step: "s", Operation: events.Undo}
	twice := func(c Client) Client { c.Times = 2; return c }
	give := events.Request{Step: "s", With: []byte(`{"by":"hand"}`)}
	forGood, inDoubt, none := []Outcome{FailedForGood}, []Outcome{FailedInDoubt}, []Outcome{FailedNone}
	add(Small, Config{Name: "an operator skips", Nodes: 1, Clients: []Client{submit("T1", "one"), asks(Skip, "one", s)}, Outcomes: forGood, Budgets: faults{Failures: 1}})
	add(Small, Config{Name: "an operator completes", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "kept"), twice(asks(Complete, "kept", s))}, Outcomes: forGood, Budgets: faults{Failures: 1}})
	add(CI, Config{Name: "an operator completes, a crash", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "one"), asks(Complete, "one", s)}, Outcomes: forGood, Budgets: faults{Failures: 1, Crashes: 1}})
	add(Small, Config{Name: "an operator gives an input", Nodes: 1, Clients: []Client{submit("T1", "one"), asks(Retry, "one", give)}, Outcomes: forGood, Budgets: faults{Failures: 1}})
	add(CI, Config{Name: "an operator fails, a crash", Nodes: 1, Clients: []Client{submit("T1", "one"), asks(Fail, "one", events.Request{Step: "s", Effect: events.EffectNone})}, Budgets: faults{Crashes: 1}})
	add(Large, Config{Name: "an operator fails, a hand-over", InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "one"), asks(Fail, "one", s)}, Budgets: faults{Reassigns: 1}})
	add(Small, Config{Name: "an operator fails a step that waits", Nodes: 1, Clients: []Client{submit("T1", "wait"), asks(Fail, "wait", s)}, Outcomes: none, Budgets: faults{Failures: 1}})
	add(CI, Config{Name: "an operator fails, an undo", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back"), asks(Fail, "back", s)}, Budgets: faults{Passes: 1}})
	add(Large, Config{Name: "an operator fails, an undo, two steps", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "saga"), asks(Fail, "saga", t)}, Budgets: faults{Passes: 1}})
	add(CI, Config{Name: "an operator skips, an undo", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "kept"), asks(Skip, "kept", s)}, Outcomes: forGood, Budgets: faults{Failures: 2, Passes: 1}})
	add(Large, Config{Name: "an operator skips, cancels, passing time", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "kept"), asks(Skip, "kept", s), later(Cancel, "T1", "kept")}, Outcomes: inDoubt, Budgets: faults{Failures: 1, Passes: 1}})
	add(CI, Config{Name: "an operator skips an undo", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back"), asks(Skip, "back", undo)}, Outcomes: forGood, Budgets: faults{Failures: 2, Passes: 1}})
	add(CI, Config{Name: "an operator completes an undo", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back"), asks(Complete, "back", undo)}, Outcomes: forGood, Budgets: faults{Failures: 2, Passes: 1}})
	add(Large, Config{Name: "an operator completes an undo, a crash", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back"), asks(Complete, "back", undo)}, Outcomes: forGood, Budgets: faults{Failures: 2, Passes: 1, Crashes: 1}})
	add(CI, Config{Name: "an operator fails an undo", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back"), asks(Fail, "back", undo), asks(Retry, "back", give)}, Outcomes: forGood, Budgets: faults{Failures: 1, Passes: 1}})
	add(Small, Config{Name: "an operator skips the pivot", Nodes: 1, Clients: []Client{submit("T1", "pivot"), asks(Skip, "pivot", s)}, Outcomes: inDoubt, Budgets: faults{Failures: 1}})
	add(CI, Config{Name: "an operator completes the pivot, cancels", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "pivot"), asks(Complete, "pivot", s), later(Cancel, "T1", "pivot")}, Outcomes: none, Budgets: faults{Failures: 1}})
	pauses := []Client{submit("T1", "one"), asks(Skip, "one", s), later(Pause, "T1", "one")}
	add(CI, Config{Name: "an operator skips, pauses", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: pauses, Outcomes: forGood, Budgets: faults{Failures: 1}})
	add(Large, Config{Name: "an operator skips, pauses, resumes", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: append(pauses[:3:3], later(Resume, "T1", "one")), Outcomes: forGood, Budgets: faults{Failures: 1}})
	terminates := []Client{submit("T1", "one"), asks(Fail, "one", s), later(Terminate, "T1", "one")}
	add(CI, Config{Name: "an operator fails, terminates", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: terminates})
	add(Large, Config{Name: "an operator fails, terminates, a crash", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: terminates, Budgets: faults{Crashes: 1}})
}
