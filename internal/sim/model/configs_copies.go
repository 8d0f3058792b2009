package model

// namespaceCopies covers copies of a namespace into one with another number of partitions, and tasks that go on there.
func namespaceCopies(add func(Bound, Config)) {
	closings(add)
	stopped := func(b Bound, name string, clients []Client, change func(c *Config)) {
		c := copyOne(" of stopped nodes"+name, clients, change)
		c.Stops = true
		add(b, c)
	}
	copiedTasks(stopped)
	copiedLinks(stopped)
	restores(add)
}

func copyOne(name string, clients []Client, change func(c *Config)) Config {
	c := Config{Name: "a copy" + name, Nodes: 1, InFlight: 1, BatchFacts: 8, Copy: 2, Clients: clients, Budgets: faults{Copies: 1}}
	if change != nil {
		change(&c)
	}
	return c
}

// and adds budgets.
func and(budgets faults) func(c *Config) {
	return func(c *Config) {
		for b, n := range budgets {
			c.Budgets[b] = n
		}
	}
}

// closings covers what happens while the copier closes the namespace.
func closings(add func(Bound, Config)) {
	add(Small, copyOne(", the copier dies", none, and(faults{CopierCrashes: 1})))
	add(Small, copyOne(", a crash", none, and(faults{Crashes: 1})))
	add(CI, copyOne("", one, nil))
	add(Long, copyOne(", a carry in parts", none, func(c *Config) {
		and(faults{Passes: 1, Splits: 1})(c)
		c.Carries, c.Calm = true, true
	}))
	add(Large, copyOne(", a crash, work", one, and(faults{Crashes: 1})))
	add(Large, copyOne(", late effects", one, and(faults{Repeats: 1, LateEffects: 1, LateAppends: 1})))
	add(Large, copyOne(", a hand-over", none, func(c *Config) {
		and(faults{Reassigns: 1, LateAppends: 1})(c)
		c.Nodes = 2
	}))
}

// copiedTasks covers what is copied, and how it goes on.
func copiedTasks(stopped func(Bound, string, []Client, func(c *Config))) {
	there := []Client{{Kind: Submit, Task: TaskOf(1, 1), Workflow: "one", AtStart: true}}
	stopped(Small, "", there, nil)
	stopped(Small, ", a crash", there, and(faults{Crashes: 1}))
	stopped(Small, ", a callback", one, and(faults{Repeats: 1}))
	stopped(Small, ", an attempt without effect", one, func(c *Config) {
		and(faults{Failures: 1, Repeats: 1})(c)
		c.Outcomes = []Outcome{FailedNone}
	})
	stopped(Small, ", duplicates", []Client{submit("T1", "none"), later(Submit, "T1", "none"), later(Conflict, "T1", "none")}, nil)
	stopped(CI, ", duplicates, passing time", []Client{submit("T1", "none"), later(Submit, "T1", "none")}, and(faults{Passes: 1}))
	stopped(Small, ", held requests", []Client{later(Cancel, "T1", "none"), later(Submit, "T1", "none")}, nil)
	stopped(Small, ", replies", []Client{{Kind: Submit, Task: "T1", Workflow: "none", AtStart: true, Replies: true}}, nil)
	stopped(Small, ", a dead letter", []Client{{Kind: Garbage, AtStart: true}, submit("T1", "none")}, nil)
	stopped(Small, ", a delayed dead letter", []Client{{Kind: Garbage, AtStart: true}}, func(c *Config) {
		and(faults{Passes: 1})(c)
		c.Delays = true
	})
	stopped(Small, ", a late start", lateStart, func(c *Config) {
		and(faults{Passes: 1})(c)
		c.Calm = true
	})
	stopped(Small, ", a carry", none, func(c *Config) {
		and(faults{Passes: 1, Splits: 1})(c)
		c.Carries = true
	})
}

// copiedLinks covers undos, forwards, and what waits for another entity.
func copiedLinks(stopped func(Bound, string, []Client, func(c *Config))) {
	near, far := TaskOf(1, 1), TaskOf(0, 1)
	stopped(CI, ", an undo", []Client{submit("T1", "back"), later(Cancel, "T1", "back")}, func(c *Config) {
		and(faults{Passes: 1})(c)
		c.Calm = true
	})
	narrower := func(c *Config) { c.Full, c.Copy = 2, 1 }
	apart := func(workflow string) []Client {
		return []Client{submit(far, workflow), {Kind: Submit, Task: near, Workflow: workflow, AtStart: true, Partition: 1}}
	}
	stopped(CI, ", fewer partitions", apart("none"), narrower)
	stopped(CI, ", a forward", []Client{{Kind: Submit, Task: near, Workflow: "none", AtStart: true}}, narrower)
	stopped(CI, ", a child", []Client{submit(FamilyOf(), "mother")}, func(c *Config) { c.Full, c.Copy = 2, 3 })
	stopped(Long, ", a permit", []Client{submit("T1", "keyed")}, nil)
	stopped(Long, ", a limit", []Client{submit("T1", "banked")}, func(c *Config) { c.Limit = 1 })
	stopped(Large, ", two permits", []Client{submit("T1", "keyed-work"), submit("T2", "keyed-work")}, nil)
	stopped(Large, ", two permits of a limit", []Client{submit("T1", "banked"), submit("T2", "banked")}, func(c *Config) { c.Limit = 1 })
	stopped(Large, ", two permits, two partitions", apart("keyed"), narrower)
}

// restores covers copies from checkpoints, after the log was lost.
func restores(add func(Bound, Config)) {
	lost := func(change func(c *Config)) func(c *Config) {
		return func(c *Config) {
			c.Budgets = faults{Checkpoints: 1, Losses: 1}
			if change != nil {
				change(c)
			}
		}
	}
	again := Client{Kind: Submit, Task: "T1", Workflow: "one", Times: 1}
	add(Small, copyOne(" from checkpoints", append(one[:1:1], again), lost(nil)))
	add(Small, copyOne(" from checkpoints, a crash", append(one[:1:1], again), lost(and(faults{Crashes: 1}))))
	add(CI, copyOne(" from checkpoints, a child", []Client{submit(FamilyOf(), "mother")}, lost(func(c *Config) {
		c.Full, c.Copy, c.Jump, c.Calm = 2, 3, true, true
		c.Budgets[Checkpoints], c.Budgets[Passes] = 2, 1
	})))
}
