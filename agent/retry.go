package agent

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// Retry says how often an attempt is tried inside the agent. It is for failures that last a few milliseconds. For longer ones
// there is the engine's durable retry, whose attempts are in the log.
type Retry struct {
	// Tries bounds the tries of one attempt, the first included. Zero means 1: no retry.
	Tries int
	// Backoff is the wait before the second try; it doubles each time and is jittered by half of Backoff.
	Backoff time.Duration
	// BackoffMax bounds that wait. A longer Retry-After is honoured if it ends before the complete-by time.
	BackoffMax time.Duration
}

// DefaultRetry holds the tries and waits of a binding whose retry names none: three tries ride out the restart of a connection or
// of one replica. It is not higher, because each attempt at a service that is down makes that many calls. No agent retries
// unless it is asked to: the attempts that a workflow allows are then the calls that the service gets.
var DefaultRetry = Retry{Tries: 3, Backoff: 50 * time.Millisecond, BackoffMax: time.Second}

// MaxTries bounds Retry.Tries.
const MaxTries = 100

func (r Retry) validate() error {
	var faults []error
	if r.Tries < 0 || r.Tries > MaxTries {
		faults = append(faults, fmt.Errorf("retry: tries is %d, not between 1 and %d", r.Tries, MaxTries))
	}
	if r.Backoff < 0 || r.BackoffMax < 0 {
		faults = append(faults, errors.New("retry: a backoff is negative"))
	}
	return errors.Join(faults...)
}

func (r Retry) withDefaults() Retry {
	r.Tries = cmp.Or(r.Tries, 1)
	r.Backoff = cmp.Or(r.Backoff, DefaultRetry.Backoff)
	r.BackoffMax = cmp.Or(r.BackoffMax, DefaultRetry.BackoffMax)
	// failsafe requires a maximum above the first delay.
	r.BackoffMax = max(r.BackoffMax, r.Backoff+1)
	return r
}

func (r Retry) jitter() time.Duration { return r.Backoff / 2 }

// longest returns the longest wait that may follow the given number of tries.
func (r Retry) longest(tries int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked + 2*r.jitter()
	}
	d := r.Backoff
	for range tries - 1 {
		d = min(2*d, r.BackoffMax)
	}
	return d + r.jitter()
}

// policy returns the retry policy. It is stateless and shared by all attempts of an agent.
func (r Retry) policy() retrypolicy.RetryPolicy[try] {
	return retrypolicy.NewBuilder[try]().
		WithMaxAttempts(r.Tries).
		WithBackoff(r.Backoff, r.BackoffMax).
		WithJitter(r.jitter()).
		WithDelayFunc(func(e failsafe.ExecutionAttempt[try]) time.Duration {
			if f := e.LastResult().failure; f != nil && f.RetryAfter > 0 {
				// failsafe jitters this too, in both directions. The addition keeps the retry from coming too early.
				return f.RetryAfter + r.jitter()
			}
			return -1
		}).
		HandleIf(func(t try, _ error) bool { return t.failure != nil }).
		AbortIf(func(t try, _ error) bool { return !t.retry }).
		ReturnLastFailure().
		Build()
}
