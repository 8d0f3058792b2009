package whatif

import (
	"math"
	"time"
)

// histogram counts durations in classes that grow by 2 % each: a quantile is within 1 %, whatever the durations are, and thousands of histograms fit in memory.
type histogram struct {
	counts []int32
	n      int
}

const growth = 1.02

var logGrowth = math.Log(growth)

// class returns the class of a duration. Class 0 is for less than a millisecond.
func class(d time.Duration) int {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 1 {
		return 0
	}
	return 1 + int(math.Log(ms)/logGrowth)
}

func (h *histogram) add(d time.Duration) { h.addMany(d, 1) }

func (h *histogram) addMany(d time.Duration, n int) {
	c := class(d)
	for len(h.counts) <= c {
		h.counts = append(h.counts, 0)
	}
	h.counts[c] += int32(n)
	h.n += n
}

func (h *histogram) merge(o *histogram) {
	for len(h.counts) < len(o.counts) {
		h.counts = append(h.counts, 0)
	}
	for c, n := range o.counts {
		h.counts[c] += n
	}
	h.n += o.n
}

// quantile returns the duration that a share q of all does not exceed, zero of none.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank, seen := max(1, int(math.Ceil(q*float64(h.n)))), 0
	for c, n := range h.counts {
		if seen += int(n); seen >= rank {
			if c == 0 {
				return 0
			}
			return time.Duration(math.Exp((float64(c)-0.5)*logGrowth) * float64(time.Millisecond)).Round(time.Millisecond)
		}
	}
	return 0
}
