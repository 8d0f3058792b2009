package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/sagalog/sagalog/internal/export"
)

// Most of the engine's memory is short-lived: with Go's default of 100 the collector took a quarter of all CPU at a live heap of
// 30 MiB. But a percentage that suits such a heap would let one of 250 MiB grow to 1,250 MiB before it is collected. So the heap
// is collected at heapGoal, however much of it is live, with the percentage kept between two bounds.
const (
	// heapGoal is the size at which the heap is collected. A smaller goal costs CPU for a node with a thousand live tasks. With a
	// larger one, and the state store's cache, such a node would exceed 400 MiB.
	heapGoal = 224 << 20
	// mostPercent applies to small heaps, which need not grow to the goal.
	mostPercent = 400
	// leastPercent applies to heaps near the goal and above it. Otherwise they would be collected all the time.
	leastPercent = 60
)

// tuneCollector sets the collector's percentage unless GOGC does. GOMEMLIMIT still applies.
func tuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(mostPercent)
	p := &pacer{set: func(percent int) { debug.SetGCPercent(percent) }}
	for _, name := range []string{"/gc/heap/live:bytes", "/gc/scan/stack:bytes", "/gc/scan/globals:bytes"} {
		p.alive = append(p.alive, metrics.Sample{Name: name})
	}
	p.afterCycle()
}

// boundMemory bounds the memory of an export, whatever is free on the machine, until the caller ends it. An export uses more without a bound, and is not quicker. GOMEMLIMIT comes first.
func boundMemory() (end func()) {
	before := debug.SetMemoryLimit(-1)
	if before == math.MaxInt64 {
		debug.SetMemoryLimit(export.HeapLimit)
	}
	return func() { debug.SetMemoryLimit(before) }
}

// pacer sets the percentage after each garbage collection.
type pacer struct {
	// alive are the metrics whose sum the percentage refers to.
	alive []metrics.Sample
	set   func(percent int)
}

// cycle is garbage as soon as it is made, so its cleanup runs at the end of a garbage collection. It is large and holds a pointer,
// since such objects are swept first. On a busy machine sweeping the rest takes seconds, and a heap that has just doubled would grow
// by its old percentage in that time.
type cycle struct {
	_ *byte
	_ [64 << 10]byte
}

// afterCycle sets the percentage after the next garbage collection. Collections before that is done count as one.
func (p *pacer) afterCycle() { runtime.AddCleanup(new(cycle), (*pacer).pace, p) }

func (p *pacer) pace() {
	defer p.afterCycle()
	metrics.Read(p.alive)
	sum := uint64(0)
	for _, s := range p.alive {
		if s.Value.Kind() == metrics.KindUint64 {
			sum += s.Value.Uint64()
		}
	}
	p.set(percentFor(sum))
}

// percentFor returns the percentage that makes a heap of this size be collected at its goal.
func percentFor(alive uint64) int {
	if alive >= heapGoal {
		return leastPercent
	}
	return int(min(max((heapGoal-alive)*100/max(alive, 1), leastPercent), mostPercent))
}
