package supervisor

import (
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// errEpochOver says that the epoch is over: facts decided ahead of the log are void, and the partition must be claimed
// again.
var errEpochOver = errors.New("the epoch is over")

// storeError is an error of the store: no input is to blame for it.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// poisoned says that deciding panicked or made an impossible fact. The state may be half changed, so the epoch ends. In the next
// epoch the cause is rejected unseen, so that poison never loops. docs/protocol.md, "Poison".
type poisoned struct {
	// task is the task to set aside; if it is empty, the input that cause names is set aside. judged is the task that
	// was being planned because of that input.
	task   string
	cause  events.Cause
	judged string
	err    error
	// again says that the input had been set aside before, and that did not help.
	again bool
}

func (p *poisoned) Error() string { return p.err.Error() }
func (p *poisoned) Unwrap() error { return p.err }

// blame turns an error in deciding about a task into one that sets the task aside.
func blame(task string, err error) error {
	if err == nil {
		return nil
	}
	return &poisoned{task: task, err: err}
}

// guard turns a panic while deciding into an error that names the input or task to blame.
func guard(err *error, blame func(error) error) {
	if p := recover(); p != nil {
		*err = blame(fmt.Errorf("panic while deciding: %v", p))
	}
}

// blaming decides about a task, which is set aside if that fails or panics.
func blaming(task string, decide func() error) (err error) {
	defer guard(&err, func(err error) error { return blame(task, err) })
	return blame(task, decide())
}
