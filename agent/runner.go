package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Runner runs the agents of a registry.
type Runner struct {
	config Config
	agents []*consumer
	// started is the start time in the heartbeats.
	started time.Time
	// begun is set by the first call of Run.
	begun atomic.Bool
	// refused is done when the log has said that heartbeats are refused.
	refused sync.Once
}

// NewRunner checks registry and configuration and returns a runner. Nothing starts before Run.
func NewRunner(r *Registry, c Config) (*Runner, error) {
	if err := c.validate(r); err != nil {
		return nil, fmt.Errorf("configure agents: %w", err)
	}
	c.withDefaults()
	if c.Keys != nil {
		c.Keys = safeKeys{c.Keys}
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	out := &Runner{config: c, started: time.Now()}
	for _, name := range r.Agents() {
		out.agents = append(out.agents, newConsumer(r.agents[name], &out.config, m))
	}
	return out, nil
}

// Run works until ctx ends, then stops cleanly: it stops polling, waits for running attempts within the grace and for their
// reports, commits, and deletes its heartbeat from the topic. It returns nil for a clean stop, ErrStuck if a function
// did not return, and the error of a source that closed. A second call returns an error.
func (r *Runner) Run(ctx context.Context) error {
	if r.begun.Swap(true) {
		return errRunTwice
	}
	return r.run(ctx)
}

func (r *Runner) run(ctx context.Context) error {
	running, stop := errgroup.WithContext(ctx)
	for _, c := range r.agents {
		running.Go(func() error { return c.run(stop) })
	}
	ended := make(chan struct{})
	heartbeats := make(chan struct{})
	go func() {
		defer close(heartbeats)
		r.heartbeatLoop(stop, ended)
	}()
	err := running.Wait()
	close(ended)
	<-heartbeats
	if fenced := new(FencedError); !errors.As(err, &fenced) {
		r.goodbye() // after a fencing, the heartbeats under this name belong to another process
	}
	return err
}
