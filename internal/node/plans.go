package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// plans says which attempts of a task that another node owns wait in the queue of their agent. The owner knows that from its own plans, which
// are no part of the log. They follow from the state of the task alone, so this node makes them again.
type plans struct {
	defs *definitions
	// owned says whether this node owns a partition, and elsewhere whether a live node says that it does.
	owned, elsewhere func(partition int32) bool

	// mu guards sched, which serves one task at a time.
	mu    sync.Mutex
	sched *scheduler.Scheduler
}

// planBytes is taken for the size of a definition, by which the scheduler bounds how many it keeps.
const planBytes = 16 << 10

func newPlans(n *Node) *plans {
	return &plans{defs: n.defs, owned: n.owners.owns, sched: scheduler.NewSharedWith(n.programKeys()).New(), elsewhere: func(p int32) bool {
		_, ok := n.liveness.ownerOf(p)
		return ok
	}}
}

// complete fills in the keys of a task that its owner, another node, has planned. If no node owns it, nobody has.
func (x *plans) complete(k *events.Keys, t *events.Task) error {
	p := events.Home(t.ID, x.defs.ns.partitions)
	if x.owned(p) || !x.elsewhere(p) {
		return nil
	}
	k.Unplanned, k.Due, k.Wake, k.Ready = false, 0, 0, nil // when the owner looks at it next is known there only
	k.Waits = events.CountWaits(t, events.At(time.Now()))
	if !t.Starts() {
		return nil
	}
	ready, err := x.ready(t)
	if err != nil {
		x.defs.ns.log.Debug("what a task waits for cannot be planned here", "task", t.ID, "error", err)
		return nil // its owner plans it
	}
	now := events.At(time.Now())
	for _, r := range ready {
		if r.NotBefore <= now {
			k.Ready = append(k.Ready, events.ReadyKey{Agent: r.Agent, Function: r.Function, Path: r.Path, Operation: r.Operation, Since: r.Since, Priority: r.Priority})
		}
	}
	return nil
}

func (x *plans) ready(t *events.Task) (_ []events.Ready, err error) {
	defer func() {
		if r := recover(); r != nil { // the owner parks such a task
			err = fmt.Errorf("planning panicked: %v", r)
		}
	}()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.sched.Prepared(t.Definition) {
		p, ok := x.defs.byHash(t.Definition)
		if !ok {
			return nil, fmt.Errorf("the definition %s is not known", t.Definition)
		}
		x.sched.Use(t.Definition, p, planBytes)
	}
	x.sched.Reset()
	plan, err := x.sched.Plan(t)
	return plan.Ready, err
}
