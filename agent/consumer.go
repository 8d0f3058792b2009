package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/sagalog/sagalog/agent/internal/offsets"
	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/internal/repeats"
)

// consumer is one agent in one process: it reads work requests from its source, runs them, reports, and commits. Consumers
// share nothing, so a slow agent does not delay another.
type consumer struct {
	agent     *agent
	source    transport.Source
	config    *Config
	ownership *ownership
	pool      *pool
	committer *committer
	exec      *executor
	reports   *reporter
	metrics   *agentMetrics
	log       *slog.Logger
	// often limits warnings about single requests: while a broker is down, hundreds would say the same.
	often *slog.Logger

	workers sync.WaitGroup
	// running counts the requests that workers are running.
	running atomic.Int64
	// missed are the keys that requests needed and this process lacks.
	missed missedKeys
	// warnedExpired is when warnExpired last logged. Owned by readLoop.
	warnedExpired time.Time
	// clock compares this machine's clock with the owners' clocks, and warnedClock is when a difference was last logged. Owned by
	// readLoop.
	clock       clock
	warnedClock time.Time
}

func newConsumer(a *agent, c *Config, m *metrics) *consumer {
	m.breakerState(a.name, circuitbreaker.ClosedState)
	g := newGate(a.breaker, func(s circuitbreaker.State) { m.breakerState(a.name, s) })
	metrics := m.agent(a.name)
	metrics.capacity(a.concurrency)
	log := c.Log.With("agent", a.name)
	source, tracker, o, retry := c.Sources[a.name], offsets.NewTracker(), newOwnership(), a.retry.withDefaults()
	return &consumer{
		agent: a, source: source, config: c, metrics: metrics, log: log, often: repeats.Limited(log),
		ownership: o, pool: newPool(a.concurrency, o, tracker),
		committer: newCommitter(source, tracker, c.CommitTimeout, log),
		reports:   newReporter(a.name, c),
		exec: &executor{
			agent: a, retry: retry, policy: retry.policy(), gate: g, limit: newLimiter(a), outputLimit: c.OutputLimit, trace: c.Trace, log: log,
		},
	}
}

// run works until stop ends, and then waits for the running requests within the grace. A request that has not ended by then is
// neither reported nor committed, so it is delivered again. (One with a heartbeat is reported: its request would be too old then.)
func (c *consumer) run(stop context.Context) error {
	stop, halt := context.WithCancel(stop)
	defer halt()
	work, kill := context.WithCancelCause(context.WithoutCancel(stop))
	defer kill(nil)
	c.pool.start = func() { c.workers.Go(func() { c.workLoop(stop, work) }) }
	var loops sync.WaitGroup
	drained := make(chan struct{})
	loops.Go(func() { c.commitLoop(drained) })
	loops.Go(func() { c.ownership.run(stop, c.source, c.pool.confirm, c.log) })

	err := c.readLoop(stop)
	halt()
	c.pool.dismiss()
	err = errors.Join(err, c.drain(kill))
	c.pool.abandonWaiting()
	c.pool.awaitEmpty(c.config.Grace)
	close(drained)
	loops.Wait()
	return err
}

// stopSaidAfter is how long a stop takes before the log says why: somebody who pressed Ctrl-C looks at an empty line by then.
const stopSaidAfter = time.Second

// drain waits for the workers for one grace. Then it cancels their contexts and waits for a second grace.
func (c *consumer) drain(kill context.CancelCauseFunc) error {
	ended := make(chan struct{})
	go func() {
		c.workers.Wait()
		close(ended)
	}()
	say := time.AfterFunc(stopSaidAfter, func() {
		c.log.Info("the stop waits for attempts that are running", "attempts", c.running.Load(), "at_most", 2*c.config.Grace)
	})
	defer say.Stop()
	for range 2 {
		t := time.NewTimer(c.config.Grace)
		select {
		case <-ended:
			t.Stop()
			return nil
		case <-t.C:
			kill(ErrStopped)
		}
	}
	return fmt.Errorf("%w: agent %s, %d attempts", ErrStuck, c.agent.name, c.running.Load())
}

// commitLoop commits at intervals, at once for durable finishes, and once more at the end.
func (c *consumer) commitLoop(drained <-chan struct{}) {
	t := time.NewTicker(c.config.CommitEvery)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			c.expire(now)
			c.committer.commit()
		case <-c.committer.wanted:
			c.committer.commit()
		case <-drained:
			c.committer.commit()
			return
		}
	}
}

// expire ends the requests whose complete-by time passed while they waited for the group, or for the answer to their report. It
// gives up the reports that have no answer by then.
func (c *consumer) expire(now time.Time) {
	unanswered, unconfirmed := c.pool.expire(now)
	for _, q := range unanswered {
		c.reported(q, ErrCompleteBy)
	}
	for _, q := range unconfirmed {
		c.metrics.drop(dropExpired)
		c.pool.finish(q)
	}
}
