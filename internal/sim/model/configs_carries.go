package model

// carries covers carries: begun, continued by another owner, completed; the tasks that begin, go on and are forgotten meanwhile.
func carries(add func(Bound, Config)) {
	two := []Client{submit("T1", "none"), later(Submit, "T2", "none")}
	add(Small, Config{Name: "a carry", Clients: two, Carries: true, Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a carry and a crash", Clients: none, Carries: true, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Small, Config{Name: "a carry and a step", Clients: one, Carries: true, Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a carry, state hashes", Clients: none, Carries: true, HashEvery: 3, Budgets: faults{Passes: 1}})
	add(Small, Config{Name: "a carry, an unknown outcome", Clients: none, Carries: true, Budgets: faults{Passes: 1, Unknowns: 1, LateAppends: 1}})
	add(Small, Config{Name: "a wrong clock, a carry", Wrong: true, InFlight: 1, BatchFacts: 8, Clients: none, Carries: true, Budgets: faults{Reassigns: 1}})
	add(Small, Config{Name: "a carry in parts", Clients: none, Carries: true, Budgets: faults{Passes: 1, Splits: 1, Crashes: 1}})
	both := []Client{submit("T1", "none"), submit("T2", "none")}
	add(Small, Config{Name: "a carry of two tasks and a crash", Clients: both, Carries: true, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Small, Config{Name: "a carry, tasks that come and are forgotten", Clients: both, InFlight: 1, Carries: true, Budgets: faults{Passes: 2}})
	add(CI, Config{Name: "a carry with a held request", Clients: []Client{later(Cancel, "T1", "none"), later(Submit, "T1", "none")}, Carries: true, Budgets: faults{Passes: 1}})
	add(Large, Config{Name: "a carry and a hand-over", Clients: none, Carries: true, Budgets: faults{Passes: 1, Reassigns: 1}})
	add(CI, Config{Name: "a carry, the store late", Clients: two, Carries: true, LateStore: true, Budgets: faults{Passes: 1, Crashes: 1}})
	add(Long, Config{Name: "two carries", Clients: none, Carries: true, Budgets: faults{Passes: 2, Unknowns: 1}})
	held := []Client{submit("T1", "one"), later(Cancel, "T2", "one"), later(Submit, "T2", "one")}
	add(Large, Config{Name: "a carry, a step and held requests", Clients: held, Carries: true, Budgets: faults{Passes: 1}})
	add(Large, Config{Name: "a carry, a step and a hand-over", Clients: one, Carries: true, Budgets: faults{Passes: 1, Reassigns: 1, LateAppends: 1}})
	add(Large, Config{Name: "two carries, an append that comes late", Clients: none, Carries: true, Budgets: faults{Passes: 2, Unknowns: 1, LateAppends: 1}})
	add(Large, Config{Name: "two carries, a step and a crash", Clients: one, Carries: true, Budgets: faults{Passes: 2, Crashes: 1}})
	add(Large, Config{Name: "carries in parts", Clients: two, Carries: true, Budgets: faults{Passes: 2, Splits: 1, LateAppends: 1, Crashes: 1}})
}
