package agent

import (
	"context"
	"sync"
	"time"
)

// deadline is the context of an attempt, or of its report: it ends at the complete-by time with the cause ErrCompleteBy, with
// its parent, or when it is ended. It is a field of its request and begins with nothing but the time. The channel, the timer
// and the place among the parent's children, which together cost more than all else of an attempt, are made when somebody
// asks for what only they give: most functions that only compute, or sleep, never do.
type deadline struct {
	parent context.Context
	by     time.Time
	// request is what FromContext reads; nil for a report.
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

// Err implements context.Context. The timer is not needed to tell that nothing has ended yet.
func (d *deadline) Err() error {
	d.mu.Lock()
	untouched := d.real == nil && !d.over
	d.mu.Unlock()
	if untouched && d.parent.Err() == nil && time.Now().Before(d.by) {
		return nil
	}
	return d.timed().Err()
}

// Value implements context.Context. Package context asks for the context with the timer in this way, so children attach to
// that one, and context.Cause finds its cause.
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

// end cancels the context: what a function began with it and left running ends too.
func (d *deadline) end() {
	d.mu.Lock()
	d.over = true
	cancel := d.cancel
	d.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
