package agent

import (
	"context"
	"sync"
	"time"
)

// deadline is the context of an attempt, or of its report: it ends at the complete-by time with the cause
// ErrCompleteBy, with its parent, or by end. It is a field of its request, and at first holds only the time. Creating
// the channel and the timer and registering with the parent cost more than the rest of an attempt, so this happens only
// when a caller needs them. Functions that only compute, or sleep, never do.
type deadline struct {
	parent context.Context
	by     time.Time
	// request is the value that FromContext reads. It is nil for a report.
	request *request

	// mu guards the fields below.
	mu sync.Mutex
	// real is the context with a timer, once it is needed.
	real   context.Context
	cancel context.CancelFunc
	over   bool
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.by, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.timed().Done() }

// Err implements context.Context. As long as nothing has ended, it needs no timer.
func (d *deadline) Err() error {
	d.mu.Lock()
	untouched := d.real == nil && !d.over
	d.mu.Unlock()
	if untouched && d.parent.Err() == nil && time.Now().Before(d.by) {
		return nil
	}
	return d.timed().Err()
}

// Value implements context.Context. Through it package context finds the context with the timer. So children attach to that
// context, and context.Cause returns its cause.
func (d *deadline) Value(key any) any {
	if _, ours := key.(attemptKey); ours && d.request != nil {
		return d.request
	}
	return d.timed().Value(key)
}

// timed returns the context with the timer.
func (d *deadline) timed() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.real == nil {
		d.real, d.cancel = context.WithDeadlineCause(d.parent, d.by, ErrCompleteBy)
		if d.over {
			d.cancel()
		}
	}
	return d.real
}

// end cancels the context, and with it anything that a function started and left running.
func (d *deadline) end() {
	d.mu.Lock()
	d.over = true
	cancel := d.cancel
	d.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
