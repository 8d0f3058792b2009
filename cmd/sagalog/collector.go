package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The collector's pace. Little of what the engine holds is alive for long: with Go's default of 100 the collector took a
// quarter of all CPU at a live heap of 30 MiB. But a percentage that is right there has a heap of 250 MiB grow to
// 1,250 MiB before it is collected. So the heap is collected at heapGoal, whatever of it is alive, within two percentages.
const (
	// heapGoal is where the heap is collected. Smaller ones cost CPU already at the heap of a node with a thousand live
	// tasks; with larger ones, and the state store's cache beside it, such a node does not stay within 400 MiB.
	heapGoal = 224 << 20
	// mostPercent is for small heaps, which need not grow as far as the goal.
	mostPercent = 400
	// leastPercent is for heaps near the goal and above it, which would else be collected all the time.
	leastPercent = 60
)

// tuneCollector sets the collector's pace unless the environment does. A GOMEMLIMIT holds beside it.
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

// pacer sets the percentage anew behind each garbage collection.
type pacer struct {
	// alive is what a percentage is of.
	alive []metrics.Sample
	set   func(percent int)
}

// cycle is garbage as soon as it is made, so that its end is that of a garbage collection. It is large and holds a pointer
// because what is so is swept first. On a busy machine the rest takes seconds, and a heap that has just doubled would grow
// by its old percentage meanwhile.
type cycle struct {
	_ *byte
	_ [64 << 10]byte
}

// afterCycle has the pace set behind the next garbage collection. Those that come before that was done count as one.
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

// percentFor returns the percentage that has a heap collected at its goal.
func percentFor(alive uint64) int {
	if alive >= heapGoal {
		return leastPercent
	}
	return int(min(max((heapGoal-alive)*100/max(alive, 1), leastPercent), mostPercent))
}
