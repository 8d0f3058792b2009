package model

// keyedLimit is the limit of the tasks of the workflow keyed.
const keyedLimit = "concurrency/keyed/k"

// permits covers tasks of which one runs at a time. Where there are two partitions, the limit lives in one of them, and each has a task. Two
// tasks that end by themselves show everything but what an attempt does to a permit. (A record that an operator gives up is repeated after an
// hour, which is more than these worlds last: see the simulation.)
func permits(add func(Bound, Config)) {
	near, far := TaskOf(1, 1), TaskOf(0, 1)
	two := func(workflow string) []Client { return []Client{submit("T1", workflow), submit("T2", workflow)} }
	one := func(more ...Client) []Client { return append([]Client{submit("T1", "keyed")}, more...) }
	apart := []Client{submit(far, "keyed"), {Kind: Submit, Task: near, Workflow: "keyed", AtStart: true, Partition: 1}}
	add(Small, Config{Name: "permits", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: two("keyed")})
	add(Small, Config{Name: "permits, a crash", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: one(), Budgets: faults{Crashes: 1, LateEffects: 1}})
	add(Small, Config{Name: "permits, a cancel", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: one(later(Cancel, "T1", "keyed"))})
	add(Large, Config{Name: "permits, a pause", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: one(later(Pause, "T1", "keyed"), later(Resume, "T1", "keyed"))})
	hold := Client{Kind: PauseLimit, Task: keyedLimit, AtStart: true}
	add(Small, Config{Name: "permits, a paused limit", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: append([]Client{hold}, one(later(ResumeLimit, keyedLimit, ""), later(PauseLimit, keyedLimit, ""))...)})
	add(Long, Config{Name: "permits, a paused limit, a crash", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: append([]Client{hold}, one(later(ResumeLimit, keyedLimit, ""))...), Budgets: faults{Crashes: 1}})
	add(Small, Config{Name: "permits, a parked task", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: two("keyed-work"), Budgets: faults{Failures: 1}, Outcomes: []Outcome{FailedForGood}})
	add(Small, Config{Name: "permits, two partitions", Full: 2, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: apart})
	add(CI, Config{Name: "permits, in doubt", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: two("keyed-doubt"), Budgets: faults{Passes: 2, Failures: 1}, Outcomes: []Outcome{FailedInDoubt}, Calm: true})
	add(Long, Config{Name: "permits, another partition, a crash", Full: 2, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: apart[:1:1], Budgets: faults{Crashes: 1}})
	add(Large, Config{Name: "permits, two partitions, a crash", Full: 2, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: apart, Budgets: faults{Crashes: 1}})
	add(Large, Config{Name: "permits, two partitions, a hand-over", Full: 2, InFlight: 1, BatchFacts: 8, Clients: apart, Budgets: faults{Reassigns: 1, LateAppends: 1, LateEffects: 1}})
}
