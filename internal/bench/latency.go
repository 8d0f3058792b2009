package bench

import (
	"sync/atomic"
	"time"
)

// Latency sets how long the calls of mock backends take.
type Latency struct {
	Fixed time.Duration
	// TailShare is the share of calls that take Tail instead: 0.01 is one in a hundred.
	TailShare float64
	Tail      time.Duration
	// SlowFactor multiplies all times from SlowAfter on, counted from the start of the window. 0 means never.
	SlowAfter  time.Duration
	SlowFactor float64
}

// tailed says whether a call takes the tail. It depends on the call alone, so the watcher knows which tasks were hit.
func (l *Latency) tailed(task, step int) bool {
	if l.TailShare <= 0 {
		return false
	}
	// SplitMix64 of the call's number: its upper bits are as good as random.
	z := uint64(task)*uint64(len(steps)) + uint64(step) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11)/(1<<53) < l.TailShare
}

// hit says whether any step of a task takes the tail latency.
func (l *Latency) hit(task int) bool {
	for step := range steps {
		if l.tailed(task, step) {
			return true
		}
	}
	return false
}

// backends are the mock backends of a process.
type backends struct {
	latency Latency
	slow    atomic.Bool
}

func (b *backends) work(task, step int) {
	d := b.latency.Fixed
	if b.latency.tailed(task, step) {
		d = b.latency.Tail
	}
	if b.slow.Load() {
		d = time.Duration(float64(d) * b.latency.SlowFactor)
	}
	if d > 0 {
		time.Sleep(d)
	}
}
