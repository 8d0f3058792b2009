package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// The adaptive limit. How many calls a backend takes at once changes while it runs: another client comes, a disk fills, a
// replica dies. Calls beyond that only queue there, and make each other late. So a lane works on fewer at once when its
// calls take several times as long as they used to, says so in its beats, from which owners know how much to send, and
// goes back as soon as the calls are quick again.
//
// It compares what calls take now with what they took before, as TCP Vegas does with round trips and after it Netflix's
// concurrency-limits and Envoy's adaptive concurrency filter, from which the idea comes to measure the baseline anew with
// few calls at once. (The limiter of failsafe-go was not taken: it compares a high quantile, so a few slow calls shrink
// it; its baseline follows a backend that stays slow within ten windows of a second, in which it has given up as many
// places; and it needs a library more.)
//
// Few slow calls say nothing: of each window of calls the slower half is left out, and two windows must agree.
const (
	// limitSlow is how many times the baseline calls take before the limit shrinks: a busy process and an ordinary change
	// of load double what calls take, and a backend that takes twice as long at full load is used, not overloaded.
	limitSlow = 3
	// limitQuick is how many times the baseline they may take for the limit to grow.
	limitQuick = 2
	// limitFloor is the least baseline, and limitExcess how much longer than the baseline calls must take to be slow: below
	// it the times are those of this process and its processors, not of a backend.
	limitFloor  = 5 * time.Millisecond
	limitExcess = 25 * time.Millisecond
	// limitWindow is the shortest window, limitCalls the number of calls that one needs at most and limitCallsMin at least.
	// Lanes of few places have smaller ones, or they would notice nothing for long.
	limitWindow   = 100 * time.Millisecond
	limitCalls    = 32
	limitCallsMin = 8
	// limitKept bounds the calls kept of a window: of more the latest count.
	limitKept = 128
	// limitWindows is how many windows in a row must be slow.
	limitWindows = 2
	// limitFollow is how fast the baseline follows calls that take a little longer, while nothing is held back.
	limitFollow = time.Minute
	// limitAgain is how long a limit is held before one window with a quarter of it measures the baseline anew: if calls
	// take as long then, it is not because there are too many at once, and holding back does not help.
	limitAgain = 30 * time.Second
	// limitPatience is the share of its time that a request waits for a place below the limit. Then it begins all the same,
	// below the concurrency: what was sent before the backend slowed down must not be lost by waiting here.
	limitPatience = 3
)

// limiter bounds the attempts of a lane that run at once: 1 to its concurrency.
type limiter struct {
	// most is the concurrency, and fixed says that the limit stays there.
	most  int
	fixed bool

	// mu guards the fields below.
	mu    sync.Mutex
	limit int
	// until holds the complete-by time of what runs in each place, 0 where nothing runs; free are those places.
	until []int64
	free  []int
	// waiting wait for a place, the first come first.
	waiting []chan struct{}

	// calls are what the calls of the window took, of seen in all; opened is when it began. A call that began before
	// since was made under another limit and says nothing about this one.
	calls  [limitKept]time.Duration
	sorted [limitKept]time.Duration
	seen   int
	opened time.Time
	since  time.Time
	// baseline is what calls take when all is well, 0 while nobody knows; slow is how many windows in a row were slow.
	baseline time.Duration
	slow     int
	// measured is when the baseline was last known to be right; resume, while it is measured anew, the limit to go back to.
	measured time.Time
	resume   int
}

func newLimiter(a *agent) *limiter {
	l := &limiter{most: a.concurrency, fixed: a.fixed || a.concurrency == 1, limit: a.concurrency}
	l.until, l.free = make([]int64, a.concurrency), make([]int, a.concurrency)
	for i := range l.free {
		l.free[i] = a.concurrency - 1 - i
	}
	return l
}

// FixedLimit has the agent always work on as many attempts at once as its concurrency says. Without it, fewer run while
// calls take several times as long as before.
func FixedLimit() Option {
	return func(a *agent) error {
		a.fixed = true
		return nil
	}
}

// enter waits for a place below the limit and takes it, or after a share of the request's time any one. It waits no
// longer than stop. The caller leaves the place, of which it is told the number, with leave.
func (l *limiter) enter(stop context.Context, by time.Time) (place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 || l.taken() >= l.limit {
		l.wait(stop, time.Until(by)/limitPatience)
	}
	if len(l.free) == 0 { // the caller has more workers than places
		return -1
	}
	place = l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	l.until[place] = max(by.UnixNano(), 1)
	l.wake() // more than one may have become free while this one was woken
	return place
}

// wait lets go of mu while it waits.
func (l *limiter) wait(stop context.Context, most time.Duration) {
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	t := time.NewTimer(most)
	select {
	case <-turn:
	case <-t.C:
	case <-stop.Done():
	}
	t.Stop()
	l.mu.Lock()
	if i := slices.Index(l.waiting, turn); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// taken is the number of places in use. mu is held.
func (l *limiter) taken() int { return l.most - len(l.free) }

// wake lets the first one go on that waits, if there is a place. mu is held.
func (l *limiter) wake() {
	if len(l.waiting) > 0 && l.taken() < l.limit {
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
}

// leave gives a place back.
func (l *limiter) leave(place int) {
	if place < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until[place] = 0
	l.free = append(l.free, place)
	l.wake()
}

// capacity is how many attempts the lane can work on at once: below the limit, and without the places of functions that
// do not return though their complete-by times have passed.
func (l *limiter) capacity(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	stuck := 0
	for _, until := range l.until {
		if until != 0 && until < now.UnixNano() {
			stuck++
		}
	}
	return min(l.limit, l.most-stuck)
}

// called tells what a call took. Only those count that show how busy the backend is: successes, and calls that were cut
// off, which took at least that long. A refusal is quick, also where all else is slow. Undos are another kind of call,
// and too rare to be measured.
func (l *limiter) called(op events.Operation, began time.Time, err error) {
	if l == nil || l.fixed || op != events.Do {
		return
	}
	now := time.Now()
	took := now.Sub(began)
	if err != nil && (!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrCompleteBy) || took < fairTry) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sample(began, now)
}

// sample adds a call to the window, and judges the window when it is full. mu is held.
func (l *limiter) sample(began, now time.Time) {
	if began.Before(l.since) {
		return
	}
	if l.seen == 0 {
		l.opened = began
	}
	l.calls[l.seen%limitKept] = now.Sub(began)
	l.seen++
	if l.seen < min(max(4*l.limit, limitCallsMin), limitCalls) || now.Sub(l.opened) < limitWindow {
		return
	}
	n := copy(l.sorted[:], l.calls[:min(l.seen, limitKept)])
	l.seen = 0
	l.judge(typical(l.sorted[:n]), now)
}

// typical is the mean of the faster half: calls that take long come back together when they began together, and may be far
// more of a window than of all; a median would jump between two sorts of calls that are about as many.
func typical(calls []time.Duration) time.Duration {
	slices.Sort(calls)
	calls = calls[:max(1, len(calls)/2)]
	var sum time.Duration
	for _, c := range calls {
		sum += c
	}
	return sum / time.Duration(len(calls))
}

// judge moves the limit by what the calls of a window took. mu is held.
func (l *limiter) judge(took time.Duration, now time.Time) {
	if l.resume > 0 { // with a quarter of the calls at once: this is what they take
		l.baseline, l.limit, l.resume, l.measured, l.since = took, l.resume, 0, now, now
		l.wakeAll()
		return
	}
	if l.baseline == 0 {
		l.baseline = took
	}
	ratio := float64(took) / float64(max(l.baseline, limitFloor))
	switch {
	case ratio > limitSlow && took-l.baseline > limitExcess:
		if l.slow++; l.slow >= limitWindows {
			l.shrink(ratio, now)
		}
	case ratio <= limitQuick:
		l.slow = 0
		l.limit = min(l.most, l.limit+max(1, l.limit/4))
		l.wakeAll()
	default:
		l.slow = 0
	}
	l.follow(took, now)
}

// shrink brings the calls down to limitSlow times the baseline if their number is why they are slow, but never to less
// than the share by which they slowed down: if it is not, a smaller number makes them no quicker.
func (l *limiter) shrink(ratio float64, now time.Time) {
	to := max(float64(l.limit)*limitSlow/ratio, float64(l.most)/ratio, 1)
	if l.limit == l.most {
		l.measured = now
	}
	if int(to) < l.limit {
		l.limit, l.since, l.slow = int(to), now, 0
	}
}

// follow keeps the baseline, or begins to measure it anew. mu is held.
func (l *limiter) follow(took time.Duration, now time.Time) {
	switch {
	case took < l.baseline:
		l.baseline -= (l.baseline - took) / 4
	case l.limit == l.most && l.slow == 0:
		share := min(1, float64(now.Sub(l.opened))/float64(limitFollow))
		l.baseline += time.Duration(float64(took-l.baseline) * share)
	case l.limit < l.most && now.Sub(l.measured) >= limitAgain:
		l.resume, l.limit, l.since, l.slow = l.limit, max(1, l.limit/4), now, 0
	}
}

// wakeAll lets all go on for which there is a place. mu is held.
func (l *limiter) wakeAll() {
	for n := l.limit - l.taken(); n > 0 && len(l.waiting) > 0; n-- {
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
}
