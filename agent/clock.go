package agent

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// clockTolerance is how far ahead of this machine's clock a request may have been decided without being logged. Clocks that
	// are kept by NTP differ by far less.
	clockTolerance = time.Second
	// clockKept is the shortest time for which an observed difference counts. A clock that was corrected is believed
	// after at most twice this time.
	clockKept = 30 * time.Second
	// clockDoubted is the difference at which the log's time is assumed to be wrong, rather than this machine's: a log keeps the
	// time of an owner whose clock was once ahead, perhaps by days, until real time catches up.
	clockDoubted = time.Hour
	// clockHomes bounds the memory for home partitions that do not exist.
	clockHomes = 10_000
)

// clock finds out how far this machine's clock is behind the owners' clocks.
//
// An agent whose clock is behind would begin a do after its complete-by time, when the engine has perhaps undone the step
// already. A request cannot have been read before it was decided. So if it seems that way, this clock is behind by at least the
// difference, and every complete-by time from that owner comes that much earlier.
//
// A clock that is ahead looks the same as requests that waited for long. Requests then expire too early, which is safe.
type clock struct {
	// homes holds the differences by home partition: each has one owner.
	homes map[int32]*difference
}

// difference is the largest difference seen since a time, and in the period before it.
//
// It shrinks by three quarters of a second in each second. The time of an owner whose clock is behind its log advances at half
// speed until the clock has caught up, so the difference shrinks by half a second. While a partition has no owner it shrinks by a
// whole second. If an old difference counted in full, all requests of that owner would soon seem late.
type difference struct {
	since, at    time.Time // at is the time that seen and before refer to
	seen, before time.Duration
}

// shrink brings the difference up to now.
func (d *difference) shrink(now time.Time) {
	lost := max(now.Sub(d.at), 0) * 3 / 4
	d.seen, d.before, d.at = d.seen-lost, d.before-lost, now
}

// completeBy returns the complete-by time of a request that was read now, by this machine's clock, and how far this clock is
// behind the owner's, as far as is known. decided is the owner's timestamp of the request.
func (c *clock) completeBy(w *events.Work, decided string, now time.Time) (by time.Time, behind time.Duration) {
	by = w.CompleteBy.Time()
	within := w.CompleteWithin.Std()
	if at, err := events.ParseInstant(decided); err == nil && at != 0 {
		behind = c.observe(w.Home, at.Time().Sub(now), now)
	}
	if behind < clockDoubted {
		by = by.Add(-behind)
	}
	if within > 0 && by.After(now.Add(within)) {
		by = now.Add(within)
	}
	return by, behind
}

// observe records that a request was decided this long after now, and returns the largest difference that still counts; 0 if
// this clock is not behind.
func (c *clock) observe(home int32, ahead time.Duration, now time.Time) time.Duration {
	d := c.homes[home]
	if d == nil {
		if ahead <= 0 || len(c.homes) >= clockHomes {
			return max(ahead, 0)
		}
		if c.homes == nil {
			c.homes = map[int32]*difference{}
		}
		d = &difference{since: now, at: now}
		c.homes[home] = d
	}
	d.shrink(now)
	switch age := now.Sub(d.since); {
	case age >= 2*clockKept:
		d.since, d.seen, d.before = now, ahead, 0
	case age >= clockKept:
		d.since, d.seen, d.before = now, ahead, d.seen
	default:
		d.seen = max(d.seen, ahead)
	}
	return max(d.seen, d.before, 0)
}
