package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/sagalog/sagalog/events"
)

// Breaker says when an agent stops calling its remote service: when at least Failures of the tries in the last Window failed in
// a retryable way (a permanent refusal shows a live service). After the time Open, a single try probes the service, and its
// success closes the breaker.
type Breaker struct {
	// Failures is the failure rate, above 0 and up to 1, at which the breaker opens. Zero means 0.5: a lower rate would open it
	// on ordinary noise.
	Failures float64
	// Window is how long a try counts. Zero means 10 s.
	Window time.Duration
	// Calls is how many tries the window must hold before the rate means anything. Zero means 10: with far fewer, two unlucky
	// calls would open the breaker.
	Calls int
	// Open is how long it stays open before a probe. Zero means 2 s: long enough to relieve the service, and short enough that
	// an attempt usually sees a restarted service before its complete-by time.
	Open time.Duration
}

// probeWait is how long an attempt waits before it asks for a permit again while others probe. A change of the breaker's state
// wakes it at once; this is only the fallback.
const probeWait = 250 * time.Millisecond

// fairTry is how long a try must have run for its timeout to count against the service. A try that queued and began moments
// before its complete-by time says nothing about the service, and a backlog must not open the breaker of a healthy one.
const fairTry = 100 * time.Millisecond

func (b Breaker) validate() error {
	var faults []error
	if b.Failures < 0 || b.Failures > 1 {
		faults = append(faults, fmt.Errorf("breaker: failures is %v, not a rate between 0 and 1", b.Failures))
	}
	if b.Window < 0 || b.Open < 0 || b.Calls < 0 {
		faults = append(faults, errors.New("breaker: a duration or count is negative"))
	}
	return errors.Join(faults...)
}

func (b Breaker) withDefaults() Breaker {
	return Breaker{
		Failures: cmp.Or(b.Failures, 0.5), Window: cmp.Or(b.Window, 10*time.Second), Calls: cmp.Or(b.Calls, 10), Open: cmp.Or(b.Open, 2*time.Second),
	}
}

// gate is a circuit breaker at which attempts may wait. A nil gate lets everything through.
type gate struct {
	circuit circuitbreaker.CircuitBreaker[any]
	// mu guards changed.
	mu sync.Mutex
	// changed is closed and replaced when the breaker's state changes.
	changed chan struct{}
}

func newGate(b *Breaker, changed func(circuitbreaker.State)) *gate {
	if b == nil {
		return nil
	}
	c := b.withDefaults()
	g := &gate{changed: make(chan struct{})}
	g.circuit = circuitbreaker.NewBuilder[any]().
		WithFailureRateThreshold(c.Failures, uint(c.Calls), c.Window).
		WithSuccessThreshold(1).
		WithDelay(c.Open).
		WithJitterFactor(0.2). // the breakers of many instances open at the same moment, and their probes must not coincide
		OnStateChanged(func(e circuitbreaker.StateChangedEvent) {
			g.wake()
			changed(e.NewState)
		}).
		Build()
	return g
}

func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *gate) waiter() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// enter waits for a permit, which record must return. If the breaker cannot let it through before until, it returns the failure
// of an attempt that was not made.
func (g *gate) enter(ctx context.Context, until time.Time) *Failure {
	if g == nil {
		return nil
	}
	for {
		changed := g.waiter()
		if g.circuit.TryAcquirePermit() {
			return nil
		}
		wait := g.circuit.RemainingDelay()
		if wait == 0 {
			wait = probeWait
		}
		if time.Now().Add(wait).After(until) {
			return &Failure{
				Class: events.ClassUnavailable, Effect: events.EffectNone, Code: "breaker_open",
				RetryAfter: wait.Truncate(time.Millisecond) + time.Millisecond, Err: errBreakerOpen,
			}
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-changed:
		case <-ctx.Done():
		}
		t.Stop()
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, context.Canceled):
			return &Failure{Class: events.ClassUnavailable, Effect: events.EffectNone, Code: "stopped", Err: errUnwanted}
		case cause != nil:
			return &Failure{Class: events.ClassUnavailable, Effect: events.EffectNone, Code: "breaker_open", Err: cause}
		}
	}
}

// record returns the permit and counts the try's verdict on the service.
func (g *gate) record(v verdict) {
	if g == nil {
		return
	}
	switch v {
	case served:
		g.circuit.RecordSuccess()
	case failed:
		g.circuit.RecordFailure()
	case unclear:
		// A probe's permit is returned only by a recorded result; without one the breaker would stay half open. A probe
		// that proved nothing counts as failed.
		if g.circuit.IsHalfOpen() {
			g.circuit.RecordFailure()
		}
	}
}

// verdict says whether a try counts for or against the remote service.
type verdict int

const (
	unclear verdict = iota
	served
	failed
)

// health returns the gate's state in the words of events.Presence. An open breaker that is due for a probe counts as degraded:
// owners send nothing to an unhealthy instance, and without a request no probe would ever close the breaker.
func (g *gate) health() string {
	switch {
	case g == nil || g.circuit.IsClosed():
		return events.Healthy
	case g.circuit.IsOpen() && g.circuit.RemainingDelay() > 0:
		return events.Unhealthy
	default:
		return events.Degraded
	}
}
