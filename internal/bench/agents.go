package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/sagalog/sagalog/agent"
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
			return // it cannot be told apart from more, and is far too much already
		}
		if atomic.CompareAndSwapUint32(p, old, old+1<<(bitsOfStep*step)) {
			return
		}
	}
}

func callsOf(word uint32, step int) int { return int(word>>(bitsOfStep*step)) & manyCalls }

// mock is the agents of all steps, with the mock backends behind them.
type mock struct {
	names    names
	backends backends
	calls    calls
	// anyTask takes tasks of any run, and counts none.
	anyTask bool
	// answered counts the calls for tasks of any run.
	answered atomic.Int64
}

// given is what a step takes and made what it gives: all that a step of the workflow may have.
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
		m.calls.add(task, step)
	}
	m.backends.work(task, step)
	if m.anyTask {
		m.answered.Add(1)
	}
	return made{"r-" + a.Task}, nil
}

// write stores the counted calls for the process that started this one.
func (c *calls) write(file string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	for i := range c.blocks {
		block := c.blocks[i].Load()
		if block == nil {
			continue
		}
		if err := binary.Write(f, binary.LittleEndian, uint32(i)); err != nil {
			return err
		}
		if err := binary.Write(f, binary.LittleEndian, block[:]); err != nil {
			return err
		}
	}
	return nil
}

// read takes what write stored.
func (c *calls) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		var i uint32
		if err := binary.Read(f, binary.LittleEndian, &i); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if int(i) >= len(c.blocks) {
			return fmt.Errorf("%s is not a count of calls", file)
		}
		block := new([blockSize]uint32)
		if err := binary.Read(f, binary.LittleEndian, block[:]); err != nil {
			return err
		}
		c.blocks[i].Store(block)
	}
}
