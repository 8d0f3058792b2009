package agent

import (
	"errors"
	"fmt"
)

var (
	// ErrCompleteBy is the cause of an attempt's context once its complete-by time has passed.
	ErrCompleteBy = errors.New("the complete-by time of the attempt has passed")
	// ErrStopped is the cause of an attempt's context when the runner stops and its grace is over.
	ErrStopped = errors.New("the agent is stopping")
	// ErrStuck is returned by Runner.Run when functions did not return although their context was cancelled. Their
	// goroutines are abandoned; the process should end.
	ErrStuck = errors.New("functions did not return after their context was cancelled")
	// ErrSourceClosed is returned by a Source that will never deliver again. It ends the run.
	ErrSourceClosed = errors.New("the source of work requests is closed")
	// ErrOutputLimit is the cause of a permanent failure whose output is larger than the limit.
	ErrOutputLimit = errors.New("output is over the limit")
	// ErrNoOperation is the cause of a permanent failure when a request asks for what the agent does not offer.
	ErrNoOperation = errors.New("the agent does not offer this operation")
	// errBreakerOpen is the cause of a retryable failure when the breaker stayed open for as long as there was time.
	errBreakerOpen = errors.New("the circuit breaker of the agent is open")
)

// FencedError ends the run of an instance whose name another process has taken. Its partitions are the other's.
type FencedError struct{ Instance string }

func (e *FencedError) Error() string {
	return fmt.Sprintf("another process uses the instance name %q: give each its own (--node, or Config.Instance in Go)", e.Instance)
}

// Unwrap returns ErrSourceClosed.
func (e *FencedError) Unwrap() error { return ErrSourceClosed }
