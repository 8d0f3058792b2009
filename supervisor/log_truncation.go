package supervisor

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// carry writes the state into the log once more, so that the log can be cut in front of that. How far it has come is folded, so a new
// owner continues. docs/protocol.md, "The log is cut where a carry begins".
type carry struct {
	*core
	// begun is the offset of the CarryBegun of this epoch; 0 if the carry began before the epoch.
	begun int64
	// after is the last task that was looked at in this epoch.
	after string
	// dueAt is since when a carry has been due behind a jump of the time.
	dueAt events.Instant
}

// carryPage is how many tasks are carried for a batch, so that everything else goes on meanwhile.
const carryPage = 64

func (c *carry) reset() { *c = carry{core: c.core} }

// half says whether only the next record of the carry may be decided.
func (c *carry) half() bool { return c.state.Partition.HalfCarried() }

// complete records the rest of what is half carried, as far as the batch has room.
func (c *carry) complete() error {
	for c.half() && !c.full() {
		if _, err := c.next(""); err != nil {
			return err
		}
	}
	return nil
}

// next records the next entity of the carry; of a task, all its rows. It returns false if the task is not to be carried.
func (c *carry) next(task string) (bool, error) {
	of, x, err := events.NextCarried(c.state, task)
	if x == nil || err != nil {
		return false, err
	}
	return true, c.record(&events.Fact{Task: of, Body: x, Cause: c.lastCause()}, nil)
}

// step begins a carry when it is time, and continues the one that is under way.
func (c *carry) step() error {
	p := &c.state.Partition
	switch {
	case p.Carry == nil && !c.due() || c.full():
		return nil
	case p.Carry == nil:
		if err := c.begin(); err != nil {
			return err
		}
		return c.complete()
	}
	//mutant:carry-waits-for-the-store
	if c.begun >= c.cache.stored {
		return nil // the store may lack tasks that the state had when the carry began
	}
	return c.tasks()
}

// due says whether to begin a carry. If nothing was decided for an hour, a wrong clock may be why it is due, and nodes notice that within minutes:
// nothing is to stand in the log by that clock, so the carry waits for them, as sweeps do.
func (c *carry) due() bool {
	p := &c.state.Partition
	if !p.CarryDue(min(c.stamp(), c.read)) {
		c.dueAt = 0
		return false
	}
	if c.stamp().Sub(p.Time) <= events.TimeJump {
		return true
	}
	if c.dueAt == 0 || c.read < c.dueAt {
		c.dueAt = c.read
	}
	return c.read.Sub(c.dueAt) >= events.SweepAfterJump
}

func (c *carry) begin() error {
	b, err := events.BeginCarry(c.state)
	if err != nil {
		return err
	}
	c.begun, c.after = c.state.Next, ""
	return c.record(&events.Fact{Body: b, Cause: c.lastCause()}, nil)
}

// tasks carries the next tasks, and ends the carry behind the last one.
func (c *carry) tasks() error {
	//mutant:carry-goes-on-behind-its-last-task
	ids, err := c.store.Tasks(max(c.after, c.state.Partition.Carry.Task), carryPage)
	if err != nil {
		return storeError{err}
	}
	for _, id := range ids {
		if c.full() {
			return nil
		}
		if _, err := c.next(id); err != nil {
			return err
		}
		c.after = id
		if err := c.complete(); err != nil || c.half() {
			return err
		}
	}
	if len(ids) == carryPage {
		return nil
	}
	x := c.state.Partition.Carry
	if x.Left != 0 {
		return fmt.Errorf("%w: the store has no more tasks to carry, and %d are left", events.ErrRow, x.Left)
	}
	h, err := c.state.Hash()
	if err != nil {
		return err
	}
	return c.record(&events.Fact{Body: &events.CarryEnded{Records: x.Records, Tasks: x.Tasks, Hash: h}, Cause: c.lastCause()}, nil)
}
