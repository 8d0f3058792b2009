package model

import "github.com/sagalog/sagalog/events"

// reruns covers tasks that run once more.
func reruns(add func(Bound, Config)) {
	asks := func(workflow, from string, times int) Client {
		return Client{Kind: Rerun, Task: "T1", Workflow: workflow, Times: times, Asks: events.Request{From: from}}
	}
	forGood := []Outcome{FailedForGood}
	add(Small, Config{Name: "a rerun", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "one"), asks("one", "", 2)}, Outcomes: forGood, Budgets: faults{Failures: 1}})
	add(Small, Config{Name: "a rerun, a step kept", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "saga"), asks("saga", "t", 1)}, Outcomes: forGood, Budgets: faults{Failures: 1}})
	add(Small, Config{Name: "no rerun of the pivot", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "pivot"), asks("pivot", "", 1)}, Outcomes: forGood, Budgets: faults{Failures: 1}})
	add(Small, Config{Name: "a rerun, a step beside", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "beside"), asks("beside", "s", 1)}, Outcomes: forGood, Budgets: faults{Failures: 1}})
	add(Small, Config{Name: "a rerun, a permit", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "keyed"), asks("keyed", "", 1)}})
	add(Large, Config{Name: "a rerun, a permit, a crash", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "keyed"), asks("keyed", "", 1)}, Budgets: faults{Crashes: 1}})
	add(Large, Config{Name: "a rerun, a permit that was given back", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "keyed-work"), submit("T2", "keyed-work"), asks("keyed-work", "", 1)}, Outcomes: forGood, Budgets: faults{Failures: 1}})
	add(Large, Config{Name: "a rerun, a permit in doubt", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "keyed-doubt"), asks("keyed-doubt", "", 1)}, Outcomes: []Outcome{FailedInDoubt}, Budgets: faults{Failures: 1, Passes: 2}, Calm: true})
	add(Large, Config{Name: "a rerun, a signal", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "ask"), later(Signal, "T1", "ask"), asks("ask", "", 1)}, Budgets: faults{Passes: 2}})
	add(CI, Config{Name: "a rerun, an undo", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back"), asks("back", "", 1)}, Budgets: faults{Repeats: 1, Passes: 1}})
	add(Large, Config{Name: "a rerun, a crash, late effects", Nodes: 1, Clients: []Client{submit("T1", "one"), asks("one", "", 1)}, Budgets: faults{Crashes: 1, Repeats: 1, LateEffects: 1}})
	add(CI, Config{Name: "a rerun, an undo, a crash", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "back"), asks("back", "", 1)}, Budgets: faults{Crashes: 1, Passes: 1}})
	back := []Client{submit("T1", "back"), asks("back", "", 1)}
	add(Long, Config{Name: "a rerun, an undo in doubt", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: append(back, later(Retry, "T1", "back")), Outcomes: []Outcome{FailedInDoubt}, Budgets: faults{Failures: 1, Passes: 2}, Calm: true})
	add(CI, Config{Name: "a rerun, an undo sent twice", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: back, Budgets: faults{Crashes: 1, Passes: 2}, Calm: true})
	add(CI, Config{Name: "a rerun, a sweep", Nodes: 1, Clients: []Client{submit("T1", "none"), asks("none", "", 1)}, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Long, Config{Name: "a rerun, a deadline", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "dated"), asks("dated", "", 1)}, Budgets: faults{Passes: 1}})
	skip := Client{Kind: Skip, Task: "T1", Workflow: "back", Times: 1, Asks: events.Request{Step: "s", Operation: events.Undo}}
	add(Long, Config{
		Name: "a rerun, an undo that was left", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: append(back[:2:2], skip),
		Outcomes: forGood, Budgets: faults{Failures: 3, Passes: 1},
	})
	undone := []Client{submit("T1", "undone-twice"), asks("undone-twice", "", 1)}
	// The undo in doubt is that of the rerun, or one before the task ended.
	wrong := Config{
		Name: "a wrong clock, a rerun, an undo in doubt", Calm: true, CalmReassigns: true, Wrong: true, InFlight: 1, BatchFacts: 8,
		Clients: undone, Outcomes: []Outcome{Failed}, Budgets: faults{Reassigns: 1, Failures: 2, Passes: 2},
	}
	add(Long, wrong)
	wrong.Name, wrong.CalmReassigns = "a wrong clock, a rerun, an undo in doubt, a hand-over at any time", false
	add(Large, wrong)
	add(Large, Config{Name: "a rerun, an undo, two crashes", Calm: true, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: back, Budgets: faults{Crashes: 2, Passes: 1}})
	add(CI, Config{Name: "a rerun, a crash", Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "one"), asks("one", "", 1)}, Budgets: faults{Crashes: 1}})
}
