package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// The steps at which --die-at can end the process, in their order for one order.
const (
	stepOrderWritten = "order-written" // in the transaction, before the outbox
	stepTaskWritten  = "task-written"  // both are written, the transaction is not committed
	stepCommitted    = "committed"     // before the customer gets an answer
	stepOutboxRead   = "outbox-read"   // before the engine gets the submission
	stepSubmitted    = "submitted"     // the engine has acknowledged it, the outbox still holds it
	stepRemoved      = "removed"       // the outbox no longer holds it
	stepStateRead    = "state-read"    // the follower knows what became of the task
	stepStateWritten = "state-written" // the order says so too
)

var steps = []string{
	stepOrderWritten, stepTaskWritten, stepCommitted, stepOutboxRead, stepSubmitted, stepRemoved, stepStateRead, stepStateWritten,
}

// death ends the process at one step. A nil death never does.
type death struct {
	step string
	left atomic.Int64
}

// readDeath reads STEP or STEP:N. It returns nil for an empty text.
func readDeath(text string) (*death, error) {
	if text == "" {
		return nil, nil
	}
	step, count, counted := strings.Cut(text, ":")
	n := 1
	if counted {
		var err error
		if n, err = strconv.Atoi(count); err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number from 1", count)
		}
	}
	if !slices.Contains(steps, step) {
		return nil, fmt.Errorf("there is no step %q: they are %s", step, strings.Join(steps, ", "))
	}
	d := &death{step: step}
	d.left.Store(int64(n))
	return d, nil
}

// at ends the process if its time has come. Nothing runs afterwards, as with kill -9: no deferred function, and no open
// transaction is rolled back by this process.
func (d *death) at(step string) {
	if d == nil || d.step != step || d.left.Add(-1) != 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "--die-at %s: the process ends here\n", step)
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // the signal may take a moment
}
