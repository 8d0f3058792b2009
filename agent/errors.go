package agent

import (
	"errors"

	"github.com/sagalog/sagalog/agent/transport"
)

var (
	// ErrCompleteBy is the cause of an attempt's context once its complete-by time has passed.
	ErrCompleteBy = errors.New("the complete-by time of the attempt has passed")
	// errNoRegistry is returned where a Registry is needed and nil is given.
	errNoRegistry = errors.New("the registry of the agents is nil: NewRegistry makes one")
	// errRunTwice is returned by the second call of Run.
	errRunTwice = errors.New("run was called before: a Runner or Connection runs once, so make a new one")
	// errUnwanted is why a call did not begin that waited for the service.
	errUnwanted = errors.New("the attempt was no longer needed")
	// ErrStopped is the cause of an attempt's context when the runner stops and its grace is over.
	ErrStopped = errors.New("the agent is stopping")
	// ErrStuck is returned by Runner.Run when functions did not return although their context was cancelled. Their
	// goroutines are abandoned; the process should end.
	ErrStuck = errors.New("functions did not return after their context was cancelled")
	// errBreakerOpen is the cause of a retryable failure when the breaker stayed open until there was no time left for a try.
	errBreakerOpen = errors.New("the circuit breaker of the agent is open")
)

// FencedError ends the run of an instance when another live process has joined with its name. The other process has its partitions.
type FencedError = transport.FencedError
