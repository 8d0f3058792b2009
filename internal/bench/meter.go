package bench

import (
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// reading is what the meters show at an instant.
type reading struct {
	at          time.Time
	cpu         time.Duration
	busy, whole time.Duration
	mallocs     uint64
	allocated   uint64
	seen        counts
}

// meters reads the use of this process and of those that it started.
type meters struct {
	watch *watcher

	mu sync.Mutex
	// mu guards the fields below.
	children []*child
	// buried is the CPU time of children that have ended.
	buried time.Duration
	peak   int64
}

func (m *meters) adopt(c *child) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.children = append(m.children, c)
}

// bury takes the last figures of a child that was waited for.
func (m *meters) bury(c *child, used time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buried += used
	m.children = slices.DeleteFunc(m.children, func(x *child) bool { return x == c })
}

func (m *meters) cpu() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := ownCPU() + m.buried
	for _, c := range m.children {
		sum += processCPU(c.pid())
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

// resident returns the memory of all processes now, and remembers the most that was.
func (m *meters) resident() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := processMemory(0)
	now, peak := own.resident, own.peak
	for _, c := range m.children {
		of := processMemory(c.pid())
		now, peak = now+of.resident, peak+of.peak
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

// heapBytes returns what the last garbage collection found alive.
func heapBytes() int64 {
	s := []metrics.Sample{{Name: liveHeap}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}

// Sample is the memory at an instant of a run, and what there was to remember.
type Sample struct {
	Seconds   float64 `json:"seconds"`
	Submitted int64   `json:"submitted"`
	Finished  int64   `json:"finished"`
	// Started are the attempts that were started and have no outcome yet.
	Started int64   `json:"attempts_in_flight"`
	RSS     float64 `json:"rss_mib"`
	Heap    float64 `json:"heap_live_mib"`
}

const (
	// maxSamples bounds what is kept of a long run; when it is reached, every second one goes and the interval doubles.
	maxSamples  = 240
	sampleEvery = 500 * time.Millisecond
)

// sampler takes samples until stop is closed.
type sampler struct {
	meters *meters
	begin  time.Time

	mu   sync.Mutex
	list []Sample
}

func (s *sampler) run(stop <-chan struct{}) {
	every := sampleEvery
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.take()
		if s.thin() {
			every *= 2
			tick.Reset(every)
		}
		select {
		case <-stop:
			s.take()
			return
		case <-tick.C:
		}
	}
}

func (s *sampler) take() {
	c := s.meters.watch.counts()
	x := Sample{
		Seconds: round(time.Since(s.begin).Seconds(), 1), Submitted: c.submitted, Finished: c.ended, Started: c.started - c.outcomes,
		RSS: mib(s.meters.resident()), Heap: mib(heapBytes()),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, x)
}

func (s *sampler) thin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) < maxSamples {
		return false
	}
	kept := s.list[:0]
	for i, x := range s.list {
		if i%2 == 0 {
			kept = append(kept, x)
		}
	}
	s.list = kept
	return true
}

func (s *sampler) samples() []Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

func mib(n int64) float64 { return round(float64(n)/(1<<20), 1) }

// slope fits a line through points by least squares and returns its rise; 0 where x does not vary.
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
