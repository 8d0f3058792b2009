package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// DefaultConcurrency is how many attempts of an agent run at once. One would be too few, because most attempts wait for the
// network. Hundreds could overload a remote service that nobody has measured.
const DefaultConcurrency = 16

// MaxConcurrency bounds the goroutines and the requests read ahead of one agent.
const MaxConcurrency = 10_000

// CheckName returns an error if name cannot name an agent.
func CheckName(name string) error { return events.CheckAgent(name) }

// Registry holds the agents of a process. One goroutine fills it, before it is passed to Dial or NewRunner. The zero value is an empty one.
type Registry struct {
	agents map[string]*agent
	faults []error
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{agents: map[string]*agent{}} }

// Agents returns the names of the agents, sorted.
func (r *Registry) Agents() []string {
	if r == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(r.agents))
}

// Err returns all mistakes in the registrations so far: bad or duplicate names, functions that are nil, and options out of range. Dial and
// NewRunner return them too, so calls of Handle need no check.
func (r *Registry) Err() error {
	if r == nil {
		return errNoRegistry
	}
	return errors.Join(r.faults...)
}

// agent is one registered kind of agent.
type agent struct {
	name string
	// functions holds what it offers: do and undo of each operation, and of the one without a name. The agent of the calls is left out.
	functions map[events.Call]RawFunc
	// operation is the one whose registration the options belong to.
	operation   string
	concurrency int
	retry       Retry
	breaker     *Breaker
	// fixed says that the limit always equals the concurrency.
	fixed bool
}

// addOperation registers the do of an operation with a name.
func (r *Registry) addOperation(name, operation string, do RawFunc, options []Option) {
	if r == nil {
		panic(errNoRegistry)
	}
	if err := CheckOperation(operation); err != nil {
		r.faults = append(r.faults, fmt.Errorf("agent %q, operation: %w", name, err))
		return
	}
	r.add(name, operation, do, options)
}

// add registers the do of an operation; the name of the operation may be empty.
func (r *Registry) add(name, operation string, do RawFunc, options []Option) {
	if r == nil {
		panic(errNoRegistry) // the function that was called returns no error
	}
	if r.agents == nil {
		r.agents = map[string]*agent{}
	}
	a := r.agents[name]
	if a == nil {
		a = &agent{name: name, functions: map[events.Call]RawFunc{}, concurrency: DefaultConcurrency, retry: Retry{Tries: 1}}
		if err := CheckName(name); err != nil {
			r.faults = append(r.faults, fmt.Errorf("agent %w", err))
		}
		r.agents[name] = a
	}
	of := fmt.Sprintf("agent %q", name)
	if operation != "" {
		of += fmt.Sprintf(", operation %q", operation)
	}
	call := events.Call{Function: operation, Operation: events.Do}
	if _, twice := a.functions[call]; twice {
		r.faults = append(r.faults, fmt.Errorf("%s is registered twice", of))
		return
	}
	if operation != "" && len(a.named()) == events.MaxFunctions {
		r.faults = append(r.faults, fmt.Errorf("%s is one more than the %d operations that an agent may have: divide them among several agents", of, events.MaxFunctions))
		return
	}
	if do == nil {
		r.faults = append(r.faults, fmt.Errorf("%s: the function is nil", of))
	}
	a.functions[call], a.operation = do, operation
	for i, o := range options {
		if o == nil {
			r.faults = append(r.faults, fmt.Errorf("%s: option %d is nil", of, i+1))
			continue
		}
		if err := o(a); err != nil {
			r.faults = append(r.faults, fmt.Errorf("%s: %w", of, err))
		}
	}
}

// CheckOperation returns an error if name cannot name an operation of an agent.
func CheckOperation(name string) error {
	if name == string(events.Do) || name == string(events.Undo) {
		return fmt.Errorf("%q names no operation: an operation has a do and an undo", name)
	}
	return CheckName(name)
}

// Option changes how an agent runs.
type Option func(*agent) error

// Invalid makes the registration a mistake. It is for packages that register agents from files.
func Invalid(err error) Option { return func(*agent) error { return err } }

// Concurrency bounds the attempts of the agent that run at once in this process.
func Concurrency(n int) Option {
	return func(a *agent) error {
		if n < 1 || n > MaxConcurrency {
			return fmt.Errorf("concurrency is %d, not between 1 and %d", n, MaxConcurrency)
		}
		a.concurrency = n
		return nil
	}
}

// FixedLimit makes the agent always run as many attempts at once as its concurrency allows. Without it, fewer attempts run
// while calls take several times as long as before.
func FixedLimit() Option {
	return func(a *agent) error {
		a.fixed = true
		return nil
	}
}

// WithRetry repeats failed tries inside the agent, within the complete-by time of the attempt.
func WithRetry(p Retry) Option {
	return func(a *agent) error {
		a.retry = p
		return p.validate()
	}
}

// WithBreaker puts a circuit breaker in front of the agent's functions.
func WithBreaker(b Breaker) Option {
	return func(a *agent) error {
		a.breaker = &b
		return b.validate()
	}
}
