package bench

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
)

// The calls of a task are counted in one word, bitsOfStep bits for each step, so that a call costs one atomic addition.
const (
	bitsOfStep = 6
	manyCalls  = 1<<bitsOfStep - 1
)

// calls counts how often the agents of a process were called, by task and step.
type calls struct{ table[uint32] }

func (c *calls) add(task, step int) {
	p := c.at(task)
	for {
		old := atomic.LoadUint32(p)
		if callsOf(old, step) == manyCalls {
			return // the counter is full, and the count is already far too high
		}
		if atomic.CompareAndSwapUint32(p, old, old+1<<(bitsOfStep*step)) {
			return
		}
	}
}

func callsOf(word uint32, step int) int { return int(word>>(bitsOfStep*step)) & manyCalls }

// place is the number under which the calls of a step are counted: that of the task, or that of the item, counted through all tasks.
func place(task int, path string, items int) int {
	if _, index, ok := events.SplitItem(path); ok && index < items {
		return task*items + index
	}
	return task
}

// mock holds the agents of all steps and their mock backends.
type mock struct {
	names    names
	backends backends
	calls    calls
	// anyTask serves tasks of any run, and counts no calls.
	anyTask bool
	// items is how many items each task has, zero for tasks of five steps.
	items int
	// answered counts the calls for tasks of any run.
	answered atomic.Int64
}

// given is the input of a step, with the members of every step's input. made is the output of a step.
type given struct {
	Order    string  `json:"order"`
	Customer string  `json:"customer"`
	Amount   float64 `json:"amount"`
}

type made struct {
	ID string `json:"id"`
}

func (m *mock) registry(concurrency int) *agent.Registry {
	r := agent.NewRegistry()
	for step, name := range steps {
		agent.Handle(r, name, func(ctx context.Context, _ given) (made, error) { return m.call(ctx, step) },
			agent.Concurrency(concurrency), agent.WithUndo(func(context.Context, agent.Undo[given, made]) error { return nil }))
	}
	return r
}

func (m *mock) call(ctx context.Context, step int) (made, error) {
	a, _ := agent.FromContext(ctx)
	task, ok := m.names.number([]byte(a.Task))
	if !ok && !m.anyTask {
		return made{}, agent.Permanent(fmt.Errorf("task %q is not of this run", a.Task))
	}
	if ok {
		m.calls.add(place(task, a.Step, m.items), step)
	}
	m.backends.work(task, step)
	if m.anyTask {
		m.answered.Add(1)
	}
	return made{"r-" + a.Task}, nil
}

// write stores the counted calls for the process that started this one.
func (c *calls) write(file string) error {
	counted := map[int][]uint32{}
	for i := range c.blocks {
		if block := c.blocks[i].Load(); block != nil {
			counted[i] = block[:]
		}
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(counted); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o600)
}

// read reads the counts that write stored.
func (c *calls) read(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var counted map[int][]uint32
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&counted); err != nil {
		return fmt.Errorf("decode the counted calls in %s: %w", file, err)
	}
	for i, block := range counted {
		if i < 0 || i >= len(c.blocks) || len(block) != blockSize {
			return fmt.Errorf("%s does not hold counted calls", file)
		}
		c.blocks[i].Store((*[blockSize]uint32)(block))
	}
	return nil
}
