package model

import (
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// fans says whether a workflow of the configuration has a fan-out.
func (c *Config) fans() bool {
	return slices.ContainsFunc(c.Clients, func(x Client) bool { return strings.HasPrefix(x.Workflow, "fan") })
}

// fanOuts covers steps with two or three items.
func fanOuts(add func(Bound, Config)) {
	with := func(name, workflow string, more ...Client) Config {
		return Config{Name: "a fan-out" + name, Nodes: 1, InFlight: 1, BatchFacts: 8, Clients: append([]Client{submit("T1", workflow)}, more...)}
	}
	but := func(c Config, change func(c *Config)) Config {
		change(&c)
		return c
	}
	fails := func(n int, how ...Outcome) func(c *Config) {
		return func(c *Config) { c.Budgets, c.Outcomes = faults{Failures: n}, how }
	}
	// passes lets the time come at which undos begin.
	passes := func(change func(c *Config)) func(c *Config) {
		return func(c *Config) {
			change(c)
			c.Calm, c.Budgets[Passes] = true, 1
		}
	}
	nothing := func(c *Config) { c.Budgets = faults{} }
	crash := func(c *Config) { c.Budgets = faults{Crashes: 1, LateEffects: 1} }
	add(Small, with("", "fan"))
	add(Small, with(" of nothing", "fan-none"))
	add(Small, with(", one at a time", "fan-slow"))
	add(Small, but(with(", a crash", "fan"), crash))
	add(Small, but(with(", duplicates", "fan"), func(c *Config) { c.Budgets = faults{Repeats: 1, Doubles: 1} }))
	add(Small, but(with(", retries", "fan-slow"), fails(1, FailedNone)))
	add(Small, but(with(", a cancel", "fan", later(Cancel, "T1", "")), passes(nothing)))
	add(Large, but(with(", three items, a cancel", "fan-three", later(Cancel, "T1", "")), passes(nothing)))
	add(Small, but(with(", a failure", "fan"), passes(fails(1, FailedForGood))))
	add(Large, but(with(", three items, a failure", "fan-three"), passes(fails(2, FailedForGood, Failed))))
	add(Small, but(with(", a failure that is tolerated", "fan-tolerant"), fails(2, FailedForGood)))
	add(CI, but(with(", an undo of what is tolerated", "fan-tolerant"), passes(fails(1, FailedInDoubt))))
	add(Large, but(with(", a failure that is tolerated, a cancel", "fan-tolerant", later(Cancel, "T1", "")), passes(fails(1, FailedForGood))))
	add(Small, but(with(", a failure that parks", "fan-parked", later(Retry, "T1", "")), fails(1, FailedForGood)))
	add(Large, but(with(", two failures that park", "fan-parked-twice", Client{Kind: Retry, Task: "T1", Times: 1, Asks: events.Request{Step: "s[0]"}}), fails(2, FailedForGood)))
	add(Large, but(with(", a rerun", "fan", Client{Kind: Rerun, Task: "T1", Times: 1}), passes(nothing)))
	add(Small, but(with(", a limit", "fan-banked"), func(c *Config) { c.Limit = 1 }))
	add(Large, but(with(", a limit, a cancel", "fan-banked", later(Cancel, "T1", "")), func(c *Config) { c.Limit = 1 }))
	add(Large, but(with(", a failure that is tolerated, a crash", "fan-tolerant"), func(c *Config) {
		fails(1, FailedForGood)(c)
		c.Budgets[Crashes] = 1
	}))
	add(CI, with(" of children", "fan-mother"))
	add(Large, with(" of children, a cancel", "fan-mother", later(Cancel, "T1", "")))
	add(CI, but(with(", an undo of all items", "fan-back"), passes(fails(1, FailedNone))))
	add(Large, but(with(", a hand-over", "fan"), func(c *Config) {
		c.Nodes, c.Budgets = 2, faults{Reassigns: 1, LateAppends: 1, LateEffects: 1}
	}))
}
