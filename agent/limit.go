package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// The adaptive limit. How many calls a backend takes at once changes while it runs: another client comes, a disk fills, a
// replica dies. Calls beyond that number only queue there, and delay each other. So an agent runs fewer at once when its calls
// take several times as long as they used to, and recovers as soon as the calls are quick again. It publishes the number in its
// heartbeats, and owners adjust how much they send.
//
// It compares how long calls take now with how long they took before, as TCP Vegas does with round trips. Netflix's
// concurrency-limits and Envoy's adaptive concurrency filter do the same. The idea of measuring the baseline again with few calls
// at once comes from Envoy. (The limiter of failsafe-go did not fit: it compares a high quantile, so a few slow calls shrink
// it. If a backend stays slow, its baseline follows within ten windows of a second, and by then it has given up only ten
// places. It also needs another library.)
//
// A few slow calls prove nothing: the slower half of each window is left out, and two windows must agree.
const (
	// The limit shrinks when calls take limitSlow times the baseline. A busy process or an ordinary change of load can double
	// the time of a call, and a backend that takes twice as long at full load is well used, not overloaded.
	limitSlow = 3
	// The limit grows while calls take at most limitQuick times the baseline.
	limitQuick = 2
	// limitFloor is the smallest baseline. limitExcess is how much longer than the baseline calls must take to count as slow:
	// smaller differences come from this process and its CPUs, not from a backend.
	limitFloor  = 5 * time.Millisecond
	limitExcess = 25 * time.Millisecond
	// limitWindow is the shortest window. A window is full after four times as many calls as the limit, but at least
	// limitCallsMin and at most limitCalls: with a low limit, a large window would notice a change late.
	limitWindow   = 100 * time.Millisecond
	limitCalls    = 32
	limitCallsMin = 8
	// limitKept bounds how many calls of a window are kept. If there are more, the latest ones count.
	limitKept = 128
	// limitWindows is how many windows in a row must be slow.
	limitWindows = 2
	// limitDrift is how fast the baseline follows calls that take a little longer while the limit equals the concurrency.
	limitDrift = time.Minute
	// limitRemeasure is how long a limit is kept before one window with a quarter of it measures the baseline again. If calls
	// take just as long then, their number is not the reason, and a limit does not help.
	limitRemeasure = 30 * time.Second
	// limitPatience is the share of its time that a request waits for a place below the limit. Then it starts anyway, within
	// the concurrency: a request that was sent before the backend slowed down must not expire while it waits here.
	limitPatience = 3
)

// limiter bounds the attempts of an agent that run at once: 1 to its concurrency.
type limiter struct {
	// most is the concurrency, and fixed says that the limit stays there.
	most  int
	fixed bool

	// mu guards the fields below.
	mu    sync.Mutex
	limit int
	// until holds the complete-by time of the attempt in each place, or 0 for an empty place. free lists the empty places.
	until []int64
	free  []int
	// waiting holds the requests that wait for a place, in order of arrival.
	waiting []chan struct{}

	// calls holds the durations of the calls in the window, seen counts the calls, and opened is when the window began. A call
	// that began before since ran under another limit and is ignored.
	calls  [limitKept]time.Duration
	sorted [limitKept]time.Duration
	seen   int
	opened time.Time
	since  time.Time
	// baseline is how long calls take when all is well, 0 while unknown; slow is how many windows in a row were slow.
	baseline time.Duration
	slow     int
	// measured is when the baseline was last known to be right. While it is measured again, resume is the limit to return to.
	// Otherwise resume is 0.
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

// enter waits for a place below the limit and takes it. After a share of the request's time (limitPatience) it takes any place.
// It stops waiting when stop ends. It returns the number of the place, which the caller gives back with leave.
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
	l.wake() // more places may have become free while this request was being woken
	return place
}

// wait releases mu while it waits.
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

// wake lets the first waiting request go on if there is a place. mu is held.
func (l *limiter) wake() {
	if len(l.waiting) > 0 && l.taken() < l.limit {
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
}

// leave frees a place.
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

// capacity is how many attempts the agent can run at once: at most the limit, minus the places of functions that have not
// returned although their complete-by times have passed.
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

// record records how long a call took. Only calls that show how busy the backend is are counted: successes, and calls that
// ran out of time after a fair try (fairTry), which would have taken even longer. A refusal is quick even if everything else
// is slow. Undos are another kind of call, and too rare to be measured.
func (l *limiter) record(op events.Operation, began time.Time, f *Failure) {
	if l == nil || l.fixed || op != events.Do {
		return
	}
	now := time.Now()
	took := now.Sub(began)
	if f != nil && (!f.late() || took < fairTry) {
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

// typical is the mean of the faster half. Long calls that began together return together, so their share of a window may be far
// above their share of all calls. A median would jump between two kinds of calls that are equally frequent.
func typical(calls []time.Duration) time.Duration {
	slices.Sort(calls)
	calls = calls[:max(1, len(calls)/2)]
	var sum time.Duration
	for _, c := range calls {
		sum += c
	}
	return sum / time.Duration(len(calls))
}

// judge adjusts the limit to the durations of the calls in a window. mu is held.
func (l *limiter) judge(took time.Duration, now time.Time) {
	if l.resume > 0 { // the window was measured with a quarter of the calls at once
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
	l.updateBaseline(took, now)
}

// shrink assumes that calls are slow because of their number, and sets the limit at which they would take limitSlow times the
// baseline. It never goes below the concurrency divided by the factor by which calls slowed down: if there is another
// reason, fewer calls are not quicker.
func (l *limiter) shrink(ratio float64, now time.Time) {
	to := max(float64(l.limit)*limitSlow/ratio, float64(l.most)/ratio, 1)
	if l.limit == l.most {
		l.measured = now
	}
	if int(to) < l.limit {
		l.limit, l.since, l.slow = int(to), now, 0
	}
}

// updateBaseline moves the baseline, or starts to measure it again. mu is held.
func (l *limiter) updateBaseline(took time.Duration, now time.Time) {
	switch {
	case took < l.baseline:
		l.baseline -= (l.baseline - took) / 4
	case l.limit == l.most && l.slow == 0:
		share := min(1, float64(now.Sub(l.opened))/float64(limitDrift))
		l.baseline += time.Duration(float64(took-l.baseline) * share)
	case l.limit < l.most && now.Sub(l.measured) >= limitRemeasure:
		l.resume, l.limit, l.since, l.slow = l.limit, max(1, l.limit/4), now, 0
	}
}

// wakeAll lets as many waiting requests go on as there are places. mu is held.
func (l *limiter) wakeAll() {
	for n := l.limit - l.taken(); n > 0 && len(l.waiting) > 0; n-- {
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
}
