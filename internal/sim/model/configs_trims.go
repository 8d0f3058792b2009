package model

// trims covers inputs that owners trim.
func trims(add func(Bound, Config)) {
	garbage := Client{Kind: Garbage, AtStart: true}
	add(Small, Config{Name: "trimmed inputs, a crash", Clients: []Client{garbage, submit("T1", "none")}, Budgets: faults{OwnTrims: 1, Crashes: 1, LateAppends: 1}})
	two := []Client{submit("T1", "none"), submit("T2", "none")}
	add(Small, Config{Name: "trimmed inputs, tasks, a crash", Clients: two, Budgets: faults{OwnTrims: 1, Crashes: 1}})
	add(Small, Config{Name: "trimmed inputs, tasks, an unknown outcome", Clients: two, Budgets: faults{OwnTrims: 1, Unknowns: 1, LateAppends: 1}})
	add(CI, Config{Name: "trimmed inputs, a hand-over", InFlight: 1, BatchFacts: 8, Clients: []Client{submit("T1", "none"), {Kind: Submit, Task: "T2", Workflow: "none", Times: 2}}, PassEvery: 1, Budgets: faults{OwnTrims: 1, Reassigns: 1}})
	add(Long, Config{Name: "trimmed inputs, a hand-over, work", InFlight: 1, BatchFacts: 8, Clients: one, Budgets: faults{OwnTrims: 2, Reassigns: 1}})
	add(Long, Config{Name: "trimmed inputs, a held cancel", Clients: []Client{{Kind: Cancel, Task: "T1", Times: 2}, later(Submit, "T1", "none")}, Budgets: faults{OwnTrims: 1, Passes: 1}})
	add(CI, Config{Name: "trimmed inputs, a held cancel, a crash", Clients: []Client{{Kind: Cancel, Task: "T1", Times: 2}}, Budgets: faults{OwnTrims: 2, Passes: 1, Crashes: 1}})
	add(Small, Config{Name: "trimmed inputs, a delayed dead letter", Delays: true, Clients: []Client{garbage, later(Garbage, "", "")}, Budgets: faults{OwnTrims: 1, Passes: 1, Crashes: 1}})
	stray := Client{Kind: Submit, Task: TaskOf(1, 1), Workflow: "none", AtStart: true}
	add(CI, Config{Name: "trimmed inputs, a forward", Partitions: 2, Clients: []Client{stray, submit(TaskOf(0, 1), "none")}, Budgets: faults{OwnTrims: 1, Crashes: 1, Refusals: 1, LateEffects: 1}})
	add(CI, Config{Name: "trimmed inputs, a delayed forward", Delays: true, Partitions: 2, Clients: []Client{stray}, Budgets: faults{OwnTrims: 1, Crashes: 1, Refusals: 1, Passes: 1}})
}
