package events

import "time"

// RateSlack is how early a limit gives a permit, by its rate. A permit that is given a little late, since owners act in batches, then makes none of
// the following ones late, and as many as are due in that time may be given at once.
const RateSlack = 100 * time.Millisecond

// each is the time between two permits at the rate of the limit, zero without a rate.
func (l *Limit) each() time.Duration {
	each, _ := ParseRate(l.Rate) // the fact that brought it was checked
	return each
}

// pacedAt returns when the next permit is due by the rate of the limit, zero without a rate.
func (l *Limit) pacedAt() Instant { return l.PacedFrom.Add(time.Duration(l.Paced) * l.each()) }

// OpensAt returns from when on the limit may give its next permit, by its rate; zero without a rate.
func (l *Limit) OpensAt() Instant {
	if l.Rate == "" {
		return 0
	}
	return l.pacedAt().Add(-RateSlack)
}

// pace notes that a permit is given.
func (l *Limit) pace(at Instant) {
	if l.Rate == "" {
		return
	}
	if at >= l.pacedAt() {
		l.PacedFrom, l.Paced = at, 0
	}
	l.Paced++
}

// changeRate takes another rate, which holds at once: no permit is due later than one that was given now would make it.
func (l *Limit) changeRate(rate string, now Instant) {
	if l.Rate == rate {
		return
	}
	due := l.pacedAt()
	l.Rate, l.PacedFrom, l.Paced = rate, due, 0
	if rate == "" {
		l.PacedFrom = 0
	}
	l.correctPace(now)
}

// correctPace makes the next permit due in the time of one permit after the given instant, if it is due later.
func (l *Limit) correctPace(to Instant) (changed bool) {
	//mutant:corrected-rate-is-kept
	latest := to.Add(l.each())
	//mutant:corrected-rate-goes-on
	if l.pacedAt() <= latest {
		return false
	}
	l.PacedFrom, l.Paced = latest, 0
	return true
}
