package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// DefaultConcurrency is how many attempts of an agent run at once. Not 1, because most attempts wait for a network;
// not hundreds, because a remote service that nobody measured would meet them all.
const DefaultConcurrency = 16

// maxConcurrency bounds the goroutines and the requests read ahead of one agent.
const maxConcurrency = 10_000

var agentName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// Registry holds the agents of a process. It is filled before a Runner is made of it, by one goroutine.
type Registry struct {
	agents map[string]*agent
	faults []error
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{agents: map[string]*agent{}} }

// Agents returns the names of the agents, sorted.
func (r *Registry) Agents() []string {
	names := make([]string, 0, len(r.agents))
	for n := range r.agents {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Err returns all faults of the registrations so far: bad or doubled names, options out of range. NewRunner returns
// them too, so that Handle can be called without looking.
func (r *Registry) Err() error { return errors.Join(r.faults...) }

// agent is one registered kind of agent.
type agent struct {
	name        string
	operations  map[events.Operation]operation
	concurrency int
	retry       Retry
	breaker     *Breaker
	// fixed says that the limit stays at the concurrency.
	fixed bool
}

// operation makes one try of an attempt. Its error may be any; failureOf reads it.
type operation func(ctx context.Context, o order) (json.RawMessage, error)

// order is what an operation gets.
type order struct {
	work *events.Work
	// outputLimit is told so that nobody reads more than may be reported. The executor checks it again.
	outputLimit int
}

// Option changes how an agent runs.
type Option func(*agent) error

// Concurrency bounds the attempts of the agent that run at once in this process.
func Concurrency(n int) Option {
	return func(a *agent) error {
		if n < 1 || n > maxConcurrency {
			return fmt.Errorf("concurrency is %d, not between 1 and %d", n, maxConcurrency)
		}
		a.concurrency = n
		return nil
	}
}

// WithRetry makes failed tries be repeated inside the agent, within the complete-by time of the attempt.
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

// Undo is what an undo function gets: the step's own input, or that of the undo mapping, and the output of the do.
type Undo[In, Out any] struct {
	Input In
	// Output is nil where the outcome of the do is unknown: it may have happened, or not, or may even still arrive.
	Output *Out
}

// WithUndo registers the function that takes the effects of the do back. It must succeed when there is nothing to
// take back, since the outcome of the do may be unknown.
func WithUndo[In, Out any](fn func(context.Context, Undo[In, Out]) error) Option {
	return func(a *agent) error {
		a.operations[events.Undo] = func(ctx context.Context, o order) (json.RawMessage, error) {
			w := o.work
			var u Undo[In, Out]
			if err := decodeInput(w.Input, &u.Input); err != nil {
				return nil, err
			}
			if len(w.Output) > 0 && string(w.Output) != "null" {
				u.Output = new(Out)
				if err := json.Unmarshal(w.Output, u.Output); err != nil {
					return nil, refusal("output_mismatch", fmt.Errorf("read the output of the do: %w", err))
				}
			}
			return nil, fn(ctx, u)
		}
		return nil
	}
}

// Handle registers fn as what the named agent does. The input is decoded with encoding/json into In; one that does
// not decode is a permanent failure without effect. The context ends at the complete-by time, and what fn returns
// after that is never reported. A panic is a failure of class internal.
//
// Faults of the registration are collected in the registry (Registry.Err).
func Handle[In, Out any](r *Registry, name string, fn func(context.Context, In) (Out, error), options ...Option) {
	do := func(ctx context.Context, o order) (json.RawMessage, error) {
		var in In
		if err := decodeInput(o.work.Input, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		b, err := events.Marshal(out)
		if err != nil {
			return nil, &Failure{Class: events.ClassPermanent, Effect: events.EffectUnknown, Code: "output_encoding", Err: err}
		}
		return b, nil
	}
	r.add(name, map[events.Operation]operation{events.Do: do}, options)
}

func decodeInput(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return refusal("input_mismatch", fmt.Errorf("read input: %w", err))
	}
	return nil
}

func (r *Registry) add(name string, ops map[events.Operation]operation, options []Option) {
	a := &agent{name: name, operations: ops, concurrency: DefaultConcurrency, retry: Retry{Tries: 1}}
	if !agentName.MatchString(name) {
		r.faults = append(r.faults, fmt.Errorf("agent %q: a name is a lower-case letter and up to 63 of a-z, 0-9, _ and -", name))
	}
	if _, twice := r.agents[name]; twice {
		r.faults = append(r.faults, fmt.Errorf("agent %q is registered twice", name))
		return
	}
	for _, o := range options {
		if err := o(a); err != nil {
			r.faults = append(r.faults, fmt.Errorf("agent %q: %w", name, err))
		}
	}
	r.agents[name] = a
}
