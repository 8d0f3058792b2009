package agent

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// backend answers the calls of as many clients as a limiter lets through, in virtual time.
type backend struct {
	limit *limiter
	// latency is how long a call takes while the given number of calls are running.
	latency func(running int) time.Duration
	running int
	// done holds the calls that have returned.
	done int
}

func concurrently(n int) *agent { return &agent{name: "a", concurrency: n} }

// call makes one call after another until the time is up.
func (b *backend) call(until time.Time) {
	for time.Now().Before(until) {
		place := b.limit.enter(context.Background(), time.Now().Add(time.Hour))
		b.limit.mu.Lock()
		b.running++
		took := b.latency(b.running)
		b.limit.mu.Unlock()
		began := time.Now()
		<-time.After(took)
		b.limit.record(events.Do, began, nil)
		b.limit.mu.Lock()
		b.running--
		b.done++
		b.limit.mu.Unlock()
		b.limit.leave(place)
	}
}

// run keeps all places busy for a while.
func (b *backend) run(d time.Duration) {
	until := time.Now().Add(d)
	for range b.limit.most {
		go b.call(until)
	}
	<-time.After(d)
	synctest.Wait()
	<-time.After(10 * time.Second) // running calls end
}

func (b *backend) now() int {
	b.limit.mu.Lock()
	defer b.limit.mu.Unlock()
	return b.limit.limit
}

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func TestASteadyBackendIsNeverHeldBack(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for name, latency := range map[string]func(int) time.Duration{
		"1 ms":                    always(time.Millisecond),
		"10 ms":                   always(10 * time.Millisecond),
		"2 s":                     always(2 * time.Second),
		"1 in 100 takes 2 s":      tail(random, 0.01, 2*time.Second),
		"1 in 20 takes 2 s":       tail(random, 0.05, 2*time.Second),
		"half of them take 60 ms": tail(random, 0.5, 60*time.Millisecond),
		"spread over 1 to 100 ms": func(int) time.Duration { return time.Duration(1+random.IntN(100)) * time.Millisecond },
		"twice as long when full": func(n int) time.Duration { return 10*time.Millisecond + time.Duration(n)*time.Millisecond/6 },
		"a busy process":          func(int) time.Duration { return time.Duration(random.IntN(10_000)) * time.Microsecond },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				least := 64
				b := &backend{limit: newLimiter(concurrently(64))}
				b.latency = func(n int) time.Duration {
					least = min(least, b.limit.limit)
					return latency(n)
				}
				b.run(enough())
				require.Equal(t, 64, least)
			})
		})
	}
}

// enough is how long a backend is watched. It is shorter under the race detector, which makes each of the hundred thousand
// calls expensive.
func enough() time.Duration {
	if testing.Short() {
		return 5 * time.Second
	}
	return 20 * time.Second
}

// tail makes some of the calls take longer than 10 ms.
func tail(random *rand.Rand, share float64, slow time.Duration) func(int) time.Duration {
	return func(int) time.Duration {
		if random.Float64() < share {
			return slow
		}
		return 10 * time.Millisecond
	}
}

func TestTheLimitFollowsABackendThatSlowsAndRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backend{limit: newLimiter(concurrently(64)), latency: always(10 * time.Millisecond)}
		go b.run(30 * time.Second)
		<-time.After(5 * time.Second)
		require.Equal(t, 64, b.now())
		b.slower(100 * time.Millisecond)
		<-time.After(2 * time.Second)
		require.InDelta(t, 6, b.now(), 1, "a tenth")
		<-time.After(10 * time.Second)
		require.InDelta(t, 6, b.now(), 1, "and no less, since that would not make it faster")
		b.slower(10 * time.Millisecond)
		<-time.After(2 * time.Second)
		require.Equal(t, 64, b.now())
		<-time.After(30 * time.Second)
	})
}

func (b *backend) slower(d time.Duration) {
	b.limit.mu.Lock()
	defer b.limit.mu.Unlock()
	b.latency = always(d)
}

func TestABackendThatStaysSlowIsUsedInFullAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backend{limit: newLimiter(concurrently(64)), latency: always(10 * time.Millisecond)}
		go b.run(60 * time.Second)
		<-time.After(5 * time.Second)
		b.slower(100 * time.Millisecond)
		<-time.After(limitRemeasure - 5*time.Second)
		require.Less(t, b.now(), 8)
		<-time.After(15 * time.Second)
		require.Equal(t, 64, b.now(), "calls take as long when there are few, so there are not too many")
		<-time.After(60 * time.Second)
	})
}

// A backend that handles a few calls at once and queues the others gets about as many calls as it can handle.
func TestABackendThatIsOverloadedIsRelieved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		places := 64
		b := &backend{limit: newLimiter(concurrently(64))}
		b.latency = func(n int) time.Duration {
			return max(1, time.Duration(n)/time.Duration(places)) * 10 * time.Millisecond
		}
		go b.run(5 * time.Minute)
		<-time.After(5 * time.Second)
		require.Equal(t, 64, b.now())
		b.limit.mu.Lock()
		places = 4
		b.limit.mu.Unlock()
		<-time.After(5 * time.Second)
		most := 0
		for range 400 {
			<-time.After(500 * time.Millisecond)
			most = max(most, b.now())
		}
		require.LessOrEqual(t, most, 16, "at most four times its capacity, and the limit does not creep up again")
		<-time.After(2 * time.Minute)
	})
}

// Requests that were sent before a backend slowed down start before their time is up.
func TestNothingIsLostByWaitingBelowTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(concurrently(8))
		l.limit = 1
		begun := time.Now()
		by := begun.Add(9 * time.Second)
		waited := make(chan time.Duration, 8)
		for range 8 {
			go func() {
				l.enter(context.Background(), by)
				waited <- time.Since(begun)
			}()
		}
		synctest.Wait()
		require.Len(t, waited, 1)
		<-time.After(3 * time.Second)
		synctest.Wait()
		require.Len(t, waited, 8, "each starts within a third of its time")
	})
}

func TestStuckFunctionsReduceTheCapacity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(concurrently(4))
		stuck := l.enter(context.Background(), time.Now().Add(time.Second))
		l.enter(context.Background(), time.Now().Add(time.Minute))
		require.Equal(t, 4, l.capacity(time.Now()))
		<-time.After(2 * time.Second)
		require.Equal(t, 3, l.capacity(time.Now()))
		l.leave(stuck)
		require.Equal(t, 4, l.capacity(time.Now()))
	})
}

func TestAFixedLimitDoesNotChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := concurrently(16)
		require.NoError(t, FixedLimit()(a))
		b := &backend{limit: newLimiter(a), latency: always(10 * time.Millisecond)}
		go b.run(10 * time.Second)
		<-time.After(3 * time.Second)
		b.slower(time.Second)
		<-time.After(7 * time.Second)
		require.Equal(t, 16, b.now())
		<-time.After(30 * time.Second)
	})
}

func BenchmarkLimiter(b *testing.B) {
	l := newLimiter(concurrently(64))
	by, ctx := time.Now().Add(time.Hour), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		place := l.enter(ctx, by)
		l.record(events.Do, began, nil)
		l.leave(place)
	}
}
