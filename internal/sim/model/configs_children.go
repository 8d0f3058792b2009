package model

import "github.com/sagalog/sagalog/events"

// FamilyOf returns a task whose home, of two partitions, is the first, and whose child for step s lives in the second.
func FamilyOf() string {
	for n := 1; ; n++ {
		if id := TaskOf(0, n); events.Home(id+"/s", 2) == 1 {
			return id
		}
	}
}

// children covers steps that a child does, in another partition than its parent or in the same.
func children(add func(Bound, Config)) {
	family := FamilyOf()
	with := func(name, workflow string, change func(c *Config), more ...Client) Config {
		c := Config{Name: name, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: append([]Client{submit("T1", workflow)}, more...)}
		if change != nil {
			change(&c)
		}
		return c
	}
	apart := func(change func(c *Config)) func(c *Config) {
		return func(c *Config) {
			c.Full, c.Clients[0].Task = 2, family
			for i := range c.Clients {
				c.Clients[i].Task = family
			}
			if change != nil {
				change(c)
			}
		}
	}
	fails := func(c *Config) {
		c.Budgets, c.Outcomes = faults{Failures: 1}, []Outcome{FailedForGood}
	}
	both := func(list ...func(c *Config)) func(c *Config) {
		return func(c *Config) {
			all := faults{}
			for _, f := range list {
				f(c)
				for b, n := range c.Budgets {
					all[b] = max(all[b], n)
				}
			}
			c.Budgets = all
		}
	}
	clock := func(n int) func(c *Config) {
		return func(c *Config) { c.Budgets = faults{Passes: n} }
	}
	handOver := func(c *Config) {
		c.Nodes, c.Budgets = 2, faults{Reassigns: 1, LateAppends: 1, LateEffects: 1}
	}
	crash := func(c *Config) { c.Budgets = faults{Crashes: 1, LateEffects: 1} }
	add(Small, with("a child", "mother", nil))
	add(Small, with("a child, a crash", "mother", crash))
	add(CI, with("a child, a cancel", "mother", nil, later(Cancel, "T1", "mother")))
	add(Small, with("a child that is not accepted", "mother-of-nobody", nil))
	add(Small, with("a child that is undone", "mother-back", fails))
	add(CI, with("a child that works", "mother-of-work", fails, later(Cancel, "T1", "")))
	add(Small, with("a child that waits, a cancel", "mother-of-waiting", nil, later(Cancel, "T1", "")))
	add(Small, with("a child whose ID is taken", "mother", nil, later(Submit, "T1/s", "none")))
	add(Long, with("a lost child", "mother", apart(func(c *Config) { c.Jump, c.Budgets = true, faults{Trims: 1, Passes: 1} })))
	add(Large, with("a child, a cancel, a crash", "mother", crash, later(Cancel, "T1", "")))
	add(Long, with("a child past its pivot", "mother-of-pivot", nil, later(Cancel, "T1", "")))
	add(CI, with("a child that is forgotten", "mother", clock(3)))
	add(CI, with("a child that is forgotten, late effects", "mother", func(c *Config) { c.Calm, c.Budgets = true, faults{Passes: 2, Crashes: 1, LateEffects: 1} }))
	add(Large, with("a child that is forgotten, a crash", "mother", both(clock(3), crash)))
	add(CI, with("a child that is undone, a crash", "mother-back", both(fails, crash)))
	add(Large, with("a child, a hand-over", "mother", handOver))
	add(Large, with("a child that turns back, a hand-over", "mother", handOver, later(Cancel, "T1", "")))
	add(Long, with("a child of a parent that comes again", "mother", func(c *Config) {
		clock(4)(c)
		c.Clients[0].Times = 1
	}))
	add(Long, with("two children of a step", "mother-of-two", nil, later(Retry, "T1", ""), later(Cancel, "T1", "")))
	add(Small, with("a child, two partitions", "mother", apart(nil)))
	add(CI, with("a child, two partitions, a crash", "mother", apart(crash)))
}
