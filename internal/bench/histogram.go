package bench

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// subBits sets the precision: values are known to one part in 128.
	subBits = 7
	// topBits bounds the values: 2^42 ns is more than an hour.
	topBits = 42
)

// histogram counts durations in buckets whose width grows with the value. Its memory does not grow with the length of a run. It is
// safe for concurrent use.
type histogram struct {
	counts [(topBits - subBits + 1) << subBits]atomic.Uint64
	max    atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)].Add(1)
	for {
		old := h.max.Load()
		if int64(d) <= old || h.max.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// bucketOf returns the bucket of a duration. Each duration below 2^subBits has a separate bucket, and each power of two
// above has 2^subBits buckets of equal width.
func bucketOf(d time.Duration) int {
	v := min(uint64(d), 1<<topBits-1)
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// upperEdge returns the largest duration of a bucket.
func upperEdge(bucket int) time.Duration {
	if bucket < 2<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	low := uint64(bucket&(1<<subBits-1)+1<<subBits) << shift
	return time.Duration(low + 1<<shift - 1)
}

func (h *histogram) count() (n uint64) {
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// quantile returns the value that a share q of the durations do not exceed (nearest rank), 0 without durations.
func (h *histogram) quantile(q float64) time.Duration {
	n := h.count()
	if n == 0 {
		return 0
	}
	rank := min(max(uint64(q*float64(n)+0.999999), 1), n)
	for i := range h.counts {
		if c := h.counts[i].Load(); c >= rank {
			return min(upperEdge(i), time.Duration(h.max.Load()))
		} else {
			rank -= c
		}
	}
	return time.Duration(h.max.Load())
}

// quantiles are the reported values of a histogram.
type quantiles struct{ p50, p99, max time.Duration }

func (h *histogram) quantiles() quantiles {
	return quantiles{h.quantile(0.50), h.quantile(0.99), time.Duration(h.max.Load())}
}
