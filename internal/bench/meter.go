package bench

import (
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// reading holds the values of the meters at an instant.
type reading struct {
	at          time.Time
	cpu         time.Duration
	busy, whole time.Duration
	mallocs     uint64
	allocated   uint64
	seen        counts
}

// meters measures the resources of this process and of the processes that it started.
type meters struct {
	watch *watcher

	mu sync.Mutex
	// mu guards the fields below. The children include those that have ended.
	children []*child
	peak     int64
}

func (m *meters) adopt(c *child) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.children = append(m.children, c)
}

func (m *meters) cpu() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := ownCPU()
	for _, c := range m.children {
		sum += c.cpu()
	}
	return sum
}

func (m *meters) read() reading {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	r := reading{cpu: m.cpu(), mallocs: s.Mallocs, allocated: s.TotalAlloc, at: time.Now()}
	r.busy, r.whole = machineCPU()
	if m.watch != nil {
		r.seen = m.watch.counts()
	}
	return r
}

// resident returns the current memory of all processes, and keeps the peak.
func (m *meters) resident() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, peak := processMemory(os.Getpid())
	for _, c := range m.children {
		if !isClosed(c.ended) {
			resident, most := processMemory(c.pid())
			now, peak = now+resident, peak+most
		}
	}
	m.peak = max(m.peak, peak)
	return now
}

func (m *meters) peakBytes() int64 {
	m.resident()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peak
}

const liveHeap = "/gc/heap/live:bytes"

// heapBytes returns the live heap of the last garbage collection.
func heapBytes() int64 {
	s := []metrics.Sample{{Name: liveHeap}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}

// Sample is the memory at an instant of a run, and the numbers of tasks.
type Sample struct {
	Seconds   float64 `json:"seconds"`
	Submitted int64   `json:"submitted"`
	Finished  int64   `json:"finished"`
	// Started is the number of attempts without an outcome.
	Started int64   `json:"attempts_in_flight"`
	RSS     float64 `json:"rss_mib"`
	Heap    float64 `json:"heap_live_mib"`
}

const (
	// maxSamples bounds the samples of a long run. When it is reached, every second sample is dropped and the interval doubles.
	maxSamples  = 240
	sampleEvery = 500 * time.Millisecond
)

// sampler takes samples until stop is closed.
type sampler struct {
	meters *meters
	begin  time.Time
	list   []Sample
}

func (s *sampler) run(stop <-chan struct{}) {
	every := sampleEvery
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.sample()
		if s.thin() {
			every *= 2
			tick.Reset(every)
		}
		select {
		case <-stop:
			s.sample()
			return
		case <-tick.C:
		}
	}
}

func (s *sampler) sample() {
	c := s.meters.watch.counts()
	x := Sample{
		Seconds: round(time.Since(s.begin).Seconds(), 1), Submitted: c.submitted, Finished: c.ended, Started: c.started - c.outcomes,
		RSS: mib(s.meters.resident()), Heap: mib(heapBytes()),
	}
	s.list = append(s.list, x)
}

// thin drops every second sample if there are too many.
func (s *sampler) thin() bool {
	if len(s.list) < maxSamples {
		return false
	}
	kept := s.list[:0]
	for i := 0; i < len(s.list); i += 2 {
		kept = append(kept, s.list[i])
	}
	s.list = kept
	return true
}

func mib(n int64) float64 { return round(float64(n)/(1<<20), 1) }

// slope fits a line through points by least squares and returns its slope, or 0 if x does not vary.
func slope(list []Sample, x, y func(Sample) float64) float64 {
	if len(list) < 2 {
		return 0
	}
	var mx, my float64
	for _, s := range list {
		mx, my = mx+x(s)/float64(len(list)), my+y(s)/float64(len(list))
	}
	var num, den float64
	for _, s := range list {
		num += (x(s) - mx) * (y(s) - my)
		den += (x(s) - mx) * (x(s) - mx)
	}
	if den == 0 {
		return 0
	}
	return num / den
}
