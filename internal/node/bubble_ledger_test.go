//go:build synctests

package node_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
)

// ledger stands for the services: it records what they did for each task, in order. Work is delivered at least once, so another copy of
// a request may arrive after the undo, and services should refuse it. Those of one seed in two do not.
type ledger struct {
	seed uint64
	// bare services carry out a do after its undo, and requests that nobody answered land late, up to the complete-by time and the grace.
	bare bool
	// strict services answer "not found" to an undo that finds nothing.
	strict bool
	fixed  atomic.Bool
	mu     sync.Mutex
	lines  []effect
	seen   map[string]int
}

type effect struct {
	task, step string
	op         events.Operation
	attempt    int
	applied    bool
	// late: it is the effect of a request that is in the list already.
	late bool
}

var errNotFound = errors.New("404: not found")

func newLedger(seed uint64) *ledger {
	return &ledger{seed: seed, bare: seed%2 == 0, strict: seed%4 < 2, seen: map[string]int{}}
}

// act does what the agent is asked to do, or fails as the seed decides: before the effect, after it, or by hanging
// after it.
func (l *ledger) act(ctx context.Context, a agent.Attempt) error {
	h := fnv.New64a()
	fmt.Fprint(h, l.seed, a.Task, a.Step, a.Operation, a.Attempt)
	luck := h.Sum64() % 24
	if l.fixed.Load() {
		luck = 23
	}
	line := effect{task: a.Task, step: a.Step, op: a.Operation, attempt: a.Attempt, applied: luck > 1}
	switch late := l.bare && a.Operation == events.Do && (luck == 2 || luck == 3); {
	case late:
		line.applied = false
		l.landLater(line, time.Until(a.CompleteBy)+time.Duration(h.Sum64()>>8%uint64(lateMost)))
		l.write(line)
	case a.Operation == events.Do:
		if l.write(line) {
			return agent.Permanent(agent.NoEffect(errRefused))
		}
	case luck > 1:
		if err := l.undo(ctx, line); err != nil {
			return err
		}
	}
	switch {
	case luck == 0 && a.Operation == events.Do:
		return agent.Permanent(agent.NoEffect(errRefused))
	case luck <= 1:
		return agent.NoEffect(errRefused)
	case luck == 2:
		return errRefused // although the effect happens
	case luck == 3:
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// lateMost is a little less than the grace.
const lateMost = 1900 * time.Millisecond

// landLater lets a do take effect later, even if the step has been undone by then.
func (l *ledger) landLater(line effect, d time.Duration) {
	line.applied, line.late = true, true
	time.AfterFunc(d, func() {
		l.mu.Lock()
		l.seen["an effect landed late"]++
		l.mu.Unlock()
		l.write(line)
	})
}

// write notes a do, and says whether the service refuses it because it was undone. A bare service refuses a second copy of the same
// attempt only: the other copy may have completed and been undone, so that nothing but a refusal keeps the promise.
func (l *ledger) write(line effect) (refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	undone, copies := false, 0
	for _, e := range l.lines {
		if e.task == line.task && e.step == line.step {
			undone = undone || e.op == events.Undo && e.applied
			if e.op == line.op && e.attempt == line.attempt && !e.late {
				copies++
			}
		}
	}
	if line.late {
		copies--
	}
	refused = undone && (!l.bare || copies > 0)
	switch {
	case refused && l.bare:
		l.seen["a second copy of a do came after its undo"]++
	case refused:
		l.seen["a service refused a do behind its undo"]++
	}
	line.applied = line.applied && !refused
	l.lines = append(l.lines, line)
	return refused
}

// undo undoes a step. A strict service that finds nothing keeps no trace of it, and the agent takes that for a failure if the do completed
// and no earlier attempt can have undone it.
func (l *ledger) undo(ctx context.Context, line effect) error {
	held := l.holds(line.task, line.step)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.strict && !held {
		l.seen["an undo found nothing"]++
		line.applied = false
	}
	if l.bare && held {
		l.seen["a do was undone at a service that does not refuse it afterwards"]++
	}
	l.lines = append(l.lines, line)
	if out, _ := ctx.Value(outputKey{}).(*output); l.strict && !held && out != nil && line.attempt == 1 {
		l.seen["an undo of a completed do found nothing"]++
		return agent.Permanent(agent.NoEffect(errNotFound))
	}
	return nil
}

// holds says whether the last operation on a step that had an effect was a do.
func (l *ledger) holds(task, step string) (held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.lines {
		if e.task == task && e.step == step && e.applied {
			held = e.op == events.Do
		}
	}
	return held
}

// tell adds the situations that the services have seen.
func (l *ledger) tell(reached map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, n := range l.seen {
		reached[what] += n
	}
}

// of formats the ledger of a task.
func (l *ledger) of(task string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, e := range l.lines {
		if e.task == task {
			lines = append(lines, fmt.Sprintf("%s %s %d applied=%v", e.op, e.step, e.attempt, e.applied))
		}
	}
	return strings.Join(lines, "\n")
}
