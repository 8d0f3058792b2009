package main

import (
	"context"
	"time"
)

// paceTick is how often deliveries that have become due are handed over: short enough that 10,000/s come in batches of 200 and
// not in one lump a second, long enough that pacing costs nothing.
const paceTick = 20 * time.Millisecond

// batch is a range of deliveries, [from, to), that became due together.
type batch struct {
	from, to int
	due      time.Time
}

// due returns how many of count have become due after a time, at a rate per second. No rate: all at once.
func due(elapsed time.Duration, rate float64, count int) int {
	// The first is due at once. Floats are compared, because a huge product does not fit an int.
	n := 1 + elapsed.Seconds()*rate
	if rate <= 0 || n >= float64(count) {
		return count
	}
	return int(n)
}

// pace calls hand with batches of at most size as they become due. It is open-loop: when hand was slow, deliveries that became
// due meanwhile follow at once, and keep the time at which they were due.
func pace(ctx context.Context, f loadFlags, size int, hand func(batch) error) error {
	t := time.NewTicker(paceTick)
	defer t.Stop()
	start, done := time.Now(), 0
	for {
		now := time.Now()
		for n := due(now.Sub(start), f.rate, f.count); done < n; {
			b := batch{from: f.first + done, to: f.first + min(n, done+size), due: now}
			if err := hand(b); err != nil {
				return err
			}
			done += b.to - b.from
		}
		if done >= f.count {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}
