package model

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// bankLimit is the named limit of the steps of the workflows banked.
const bankLimit = "limit/bank"

// limits returns the objects that the limit has had, the older first.
func (c *Config) limits() (list []supervisor.LimitRecord) {
	if c.Limit > 0 && c.OldLimit {
		list = append(list, supervisor.LimitRecord{Limit: bankLimit, Offset: 100, Max: c.Limit + 1, Rate: c.Rate})
	}
	if c.Limit > 0 {
		list = append(list, supervisor.LimitRecord{Limit: bankLimit, Offset: 101, Max: c.Limit, Rate: c.Rate})
	}
	return list
}

// limitsOf returns what the node knows of the limit, if its home is the partition.
func (c *Config) limitsOf(node int, part int32) []supervisor.LimitRecord {
	list := c.limits()
	switch {
	case len(list) == 0 || events.Home(bankLimit, c.Full) != part:
		return nil
	case c.OldLimit && node == 1:
		return list[:1]
	}
	return list[len(list)-1:]
}

// objects implements sim.Objects.
type objects struct {
	cfg *Config
	sp  *space
	log *logNode
}

// Given implements sim.Objects.
func (o objects) Given(limit string) *sim.Given {
	g := new(sim.Given)
	o.log.accepted(o.sp, func(f *events.Fact) bool {
		g.See(limit, f)
		return true
	})
	return g
}

// Applied implements sim.Objects.
func (o objects) Applied(limit string, offset int64) (supervisor.LimitRecord, bool) {
	for _, r := range o.cfg.limits() {
		if limit == bankLimit && r.Offset == offset {
			return r, true
		}
	}
	return supervisor.LimitRecord{}, false
}

// Most implements sim.Objects.
func (o objects) Most(string) (most int) {
	for _, r := range o.cfg.limits() {
		most = max(most, r.Max)
	}
	return most
}

// limits covers steps of different tasks, of which one attempt runs at a time. What is the same for every permit is searched in permits.
func limits(add func(Bound, Config)) {
	near, far := TaskOf(1, 1), TaskOf(0, 1)
	two := func(workflow string) []Client { return []Client{submit("T1", workflow), submit("T2", workflow)} }
	one := func(workflow string, more ...Client) []Client {
		return append([]Client{submit("T1", workflow)}, more...)
	}
	apart := []Client{submit(far, "banked"), {Kind: Submit, Task: near, Workflow: "banked", AtStart: true, Partition: 1}}
	alone := Config{Nodes: 1, InFlight: 1, BatchFacts: 8, Limit: 1}
	with := func(name string, clients []Client, change func(*Config)) Config {
		c := alone
		c.Name, c.Clients = name, clients
		if change != nil {
			change(&c)
		}
		return c
	}
	add(Small, with("limits", two("banked"), nil))
	add(Small, with("limits, a crash", one("banked"), func(c *Config) { c.Budgets = faults{Crashes: 1, LateEffects: 1} }))
	add(Small, with("limits, a cancel", two("banked-undo")[:1], func(c *Config) { c.Clients = append(c.Clients, later(Cancel, "T1", "banked-undo")) }))
	add(Small, with("limits, a failure", two("banked"), func(c *Config) { c.Budgets, c.Outcomes = faults{Failures: 1}, []Outcome{FailedForGood} }))
	add(Small, with("limits, two partitions", apart, func(c *Config) { c.Full = 2 }))
	add(Small, with("limits, an older object", nil, func(c *Config) {
		c.Nodes, c.OldLimit, c.Budgets = 2, true, faults{Reassigns: 1}
	}))
	add(Small, with("limits, a rate", two("banked"), func(c *Config) { c.Limit, c.Rate, c.Calm, c.Budgets = 2, "1/s", true, faults{Passes: 2} }))
	add(CI, with("a wrong clock, limits, a rate", one("banked-steps"), func(c *Config) {
		c.Wrong, c.Nodes, c.Limit, c.Rate, c.Calm, c.CalmReassigns, c.Budgets = true, 2, 2, "1/s", true, true, faults{Passes: 1, Reassigns: 1}
	}))
	pauses := []Client{later(PauseAgent, heldAgent, ""), later(ResumeAgent, heldAgent, "")}
	add(Small, with("limits, an agent paused for good", one("banked-agents", pauses[0]), nil))
	add(Long, with("limits, a paused agent", one("banked-agents", pauses...), nil))
	add(Large, with("limits, a paused agent, two tasks", append(pauses, submit("T1", "banked"), submit("T2", "banked-y")), nil))
	add(Large, with("limits, a paused agent, a crash", one("banked-agents", pauses...), func(c *Config) { c.Budgets = faults{Crashes: 1} }))
	add(Large, with("limits, a rate, a hand-over", two("banked"), func(c *Config) {
		c.Nodes, c.Limit, c.Rate, c.Calm, c.Budgets = 2, 2, "1/s", true, faults{Passes: 1, Reassigns: 1, LateAppends: 1}
	}))
	add(Large, with("limits, a pause", one("banked", later(Pause, "T1", "banked"), later(Resume, "T1", "banked")), nil))
	add(Large, with("limits, a termination", two("banked"), func(c *Config) { c.Clients = append(c.Clients, later(Terminate, "T2", "banked")) }))
	add(CI, with("limits, in doubt", two("banked"), func(c *Config) {
		c.Budgets, c.Outcomes, c.Calm = faults{Passes: 2, Failures: 1}, []Outcome{FailedInDoubt}, true
	}))
	add(CI, with("limits, an undo in doubt", one("banked-undo"), func(c *Config) {
		c.Budgets, c.Outcomes, c.Calm = faults{Passes: 3, Failures: 2}, []Outcome{FailedInDoubt}, true
	}))
	add(Large, with("limits, undos first", append(two("banked-undo"), submit("T3", "banked")), func(c *Config) {
		c.Budgets, c.Outcomes = faults{Failures: 1}, []Outcome{FailedForGood}
	}))
	add(Large, with("limits, two partitions, a crash", apart, func(c *Config) { c.Full, c.Budgets = 2, faults{Crashes: 1} }))
	add(Large, with("limits, two partitions, a hand-over", apart, func(c *Config) {
		c.Full, c.Nodes, c.Budgets = 2, 2, faults{Reassigns: 1, LateAppends: 1, LateEffects: 1}
	}))
}
