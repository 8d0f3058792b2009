package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// The limits of the clock's suspicion.
const (
	// maxJump is how far the wall clock may run ahead of the monotonic one: a clock that is corrected moves by less, and
	// a laptop that slept by more.
	maxJump = 5 * time.Second
	// trustAfter ends the suspicion: a machine that slept is not a fault, and its clock is right.
	trustAfter = time.Minute
)

// Clock watches the wall clock against the monotonic one. While a forward jump is suspected, nothing is stamped or
// decided: one wrong hour would time out everything. Safety never depends on it.
type Clock struct {
	base    time.Time
	offset  time.Duration
	suspect bool
	since   time.Time
	last    events.Instant
}

// NewClock begins at t, which must carry a monotonic reading for the watch to work.
func NewClock(t time.Time) *Clock { return &Clock{base: t, last: events.At(t)} }

// Read returns the time, and whether the suspicion began or ended with this reading. While suspect, and backwards,
// the time stands still.
func (c *Clock) Read(t time.Time) (now events.Instant, turned bool) {
	elapsed := t.Sub(c.base) // monotonic
	wall := t.Round(0).Sub(c.base.Round(0))
	ahead := wall - elapsed - c.offset
	switch {
	case !c.suspect && ahead > maxJump:
		c.suspect, c.since, turned = true, t, true
	case c.suspect && ahead <= maxJump:
		c.suspect, turned = false, true
	case c.suspect && t.Sub(c.since) > trustAfter:
		c.offset += ahead
		c.suspect, turned = false, true
	}
	if !c.suspect {
		c.last = max(c.last, events.At(t))
	}
	return c.last, turned
}

// Suspect says whether the clock is not to be trusted now.
func (c *Clock) Suspect() bool { return c.suspect }

// Jump returns how far the wall clock is trusted to be ahead of the monotonic one.
func (c *Clock) Jump() time.Duration { return c.offset }
