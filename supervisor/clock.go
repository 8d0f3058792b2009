package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// When a forward jump is suspected, and for how long.
const (
	// maxJump is how far the wall clock may run ahead of the monotonic one: a corrected clock moves by less, and a
	// laptop that slept by more.
	maxJump = 5 * time.Second
	// trustAfter ends the suspicion: a machine that slept is not a fault, and its clock is right.
	trustAfter = time.Minute
)

// Clock compares the wall clock with the monotonic one. While a forward jump is suspected, nothing is stamped or
// decided: a jump of one hour would time out everything. The same holds while the caller doubts the wall clock because most
// others show another time.
type Clock struct {
	base    time.Time
	offset  time.Duration
	suspect bool
	since   time.Time
	// ahead is how far the wall clock was ahead of the trusted time at the latest reading.
	ahead time.Duration
	last  events.Instant
	// read is the latest reading; behind is the fraction of a millisecond of slewed time that is not in the time yet.
	read   time.Time
	behind time.Duration
}

// NewClock starts at t, which must carry a monotonic reading to compare with.
func NewClock(t time.Time) *Clock { return &Clock{base: t, read: t, last: events.At(t)} }

// Read returns the time, and whether the suspicion began or ended with this reading. doubted says that most others show another
// time. While suspect, the time stands still. While the wall clock is behind the last time that was returned, the time advances at half the speed of the
// monotonic clock. If it stood still, a clock set back by an hour would stop all timers and claims for an hour.
func (c *Clock) Read(t time.Time, doubted bool) (now events.Instant, turned bool) {
	elapsed := t.Sub(c.base) // monotonic
	wall := t.Round(0).Sub(c.base.Round(0))
	c.ahead = wall - elapsed - c.offset
	switch {
	case !c.suspect && (c.ahead > maxJump || doubted):
		c.suspect, c.since, turned = true, t, true
	case doubted:
	case c.suspect && c.ahead <= maxJump:
		c.suspect, turned = false, true
	case c.suspect && t.Sub(c.since) > trustAfter:
		c.offset += c.ahead
		c.suspect, turned = false, true
	}
	if !c.suspect {
		c.move(t)
	}
	c.read = t
	return c.last, turned
}

// move advances the time to a trusted reading.
func (c *Clock) move(t time.Time) {
	if at := events.At(t); at >= c.last {
		c.last, c.behind = at, 0
		return
	}
	c.behind += max(t.Sub(c.read), 0) / 2
	c.last = c.last.Add(c.behind)
	c.behind %= time.Millisecond
}

// AheadOf returns how far the time is ahead of the wall clock.
func (c *Clock) AheadOf(t time.Time) time.Duration { return c.last.Sub(events.At(t)) }

// Suspect says whether the clock must not be trusted now.
func (c *Clock) Suspect() bool { return c.suspect }

// Jump returns how far the wall clock is ahead of the trusted time.
func (c *Clock) Jump() time.Duration { return c.ahead }
