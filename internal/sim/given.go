package sim

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// Given is when a limit gave its permits, since it has its rate and its partition its time.
type Given struct {
	At   []events.Instant
	rate string
	held map[events.Link]bool
}

// See takes the next fact of the limit's partition.
func (g *Given) See(limit string, f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.LimitAdopted:
		if b.Limit == limit && b.Rate != g.rate {
			g.rate, g.At = b.Rate, nil
		}
	case *events.TimeCorrected:
		if f.Task == "" && !b.Settled {
			g.At = nil
		}
	case *events.PermitsDecided:
		if b.Limit != limit {
			return
		}
		if b.Released != nil {
			delete(g.held, *b.Released)
		}
		if x := b.Granted; x != nil && !g.held[*x] {
			if g.held == nil {
				g.held = map[events.Link]bool{}
			}
			g.held[*x] = true
			g.At = append(g.At, f.Time)
		}
	}
}

// tooFast says whether one more permit would be one more than the rate allows in some time. What is due is due at whole milliseconds, and a permit
// that is given then begins the time of the next: so each may lose the part of a millisecond.
func (g *Given) tooFast(at events.Instant) bool {
	each, err := events.ParseRate(g.rate)
	if each = each.Truncate(time.Millisecond); err != nil || each == 0 {
		return false
	}
	for i, from := range g.At {
		if more := len(g.At) - i; at.Sub(from)+events.RateSlack+time.Millisecond < time.Duration(more)*each {
			return true
		}
	}
	return false
}
