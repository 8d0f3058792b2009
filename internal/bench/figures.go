package bench

import (
	"unsafe"
)

// fill computes the figures of the window.
func (b *bench) fill(from, to reading) {
	r := &b.result
	seconds := to.at.Sub(from.at).Seconds()
	r.Seconds = round(seconds, 3)
	r.Interrupted = b.interrupted
	tasks := to.seen.ended - from.seen.ended
	r.Tasks = tasks
	r.TasksPerSecond = round(float64(tasks)/seconds, 1)
	r.FactsPerSecond = round(float64(to.seen.facts-from.seen.facts)/seconds, 1)
	cpu := to.cpu - from.cpu
	r.CPUPerTask = round(per(float64(cpu.Nanoseconds())/1e3, tasks), 1)
	r.CoresUsed = round(cpu.Seconds()/seconds, 3)
	r.AllocsTask = round(per(float64(to.mallocs-from.mallocs), tasks), 1)
	r.AllocBytes = round(per(float64(to.allocated-from.allocated), tasks), 0)
	r.LogBytes = round(per(float64(to.seen.bytes-from.seen.bytes), tasks), 0)
	r.Failures, r.Timeouts, r.Badly = to.seen.failure-from.seen.failure, to.seen.timeouts-from.seen.timeouts, to.seen.badly-from.seen.badly
	r.PeakRSS, r.RSS, r.Heap = mib(b.meters.peakBytes()), mib(b.meters.resident()), mib(heapBytes())
	r.setDisturbance(from, to)
	b.fillMemory()
	b.fillSlow()
}

// ownTables returns what the benchmark remembers of its tasks, in bytes.
func (b *bench) ownTables() int64 {
	n := b.load.acks.got.bytes(1)
	if b.due != nil {
		n += b.due.bytes(int(unsafe.Sizeof(int64(0))))
	}
	if b.mock != nil {
		n += b.mock.calls.bytes(int(unsafe.Sizeof(uint32(0))))
	}
	return n
}

// A line through fewer tasks than this (in millions) would tell of the garbage collector, and not of the tasks.
const (
	leastForSlope      = 0.1
	leastForTenMillion = 0.25
)

// fillMemory fits lines through the samples of the window, over what was finished; where nothing finishes, over what was
// submitted. The benchmark's own tables grow with the tasks and are left out.
func (b *bench) fillMemory() {
	r := &b.result
	r.Samples = b.sample.samples()
	tables := mib(b.ownTables())
	r.OwnTables = tables
	of := func(s Sample) float64 { return float64(s.Finished) / 1e6 }
	if b.cfg.Agents == AgentsNone {
		of = func(s Sample) float64 { return float64(s.Submitted) / 1e6 }
	}
	own := 0.0
	if n := float64(b.load.sent()) / 1e6; n > 0 {
		own = tables / n
	}
	// The caches and tables fill in the first half; the second tells how it goes on.
	late := r.Samples[len(r.Samples)/2:]
	span := of(late[len(late)-1]) - of(late[0])
	if len(late) < 4 || span < leastForSlope {
		return
	}
	r.HeapSlope = round(slope(late, of, func(s Sample) float64 { return s.Heap })-own, 2)
	r.RSSSlope = round(slope(late, of, func(s Sample) float64 { return s.RSS })-own, 2)
	if span < leastForTenMillion {
		return
	}
	r.TenMillion = round(late[len(late)-1].RSS+max(0, r.RSSSlope+own)*(10-of(late[len(late)-1])), 0)
}

// fillSlow compares what was under way before the backends slowed with the end of the window.
func (b *bench) fillSlow() {
	l := b.cfg.Latency
	if l.SlowFactor == 0 {
		return
	}
	after, end := l.SlowAfter.Seconds(), b.result.Seconds
	half := (end - after) / 2
	mean := func(from, to float64) (flight, rate float64) {
		var first, last *Sample
		n := 0
		for i := range b.result.Samples {
			s := &b.result.Samples[i]
			if s.Seconds < from || s.Seconds > to {
				continue
			}
			if first == nil {
				first = s
			}
			last = s
			flight += float64(s.Started)
			n++
		}
		if n > 1 && last.Seconds > first.Seconds {
			rate = float64(last.Finished-first.Finished) / (last.Seconds - first.Seconds)
		}
		return round(per(flight, int64(n)), 1), round(rate, 1)
	}
	r := &b.result
	r.FlightBefore, r.RateBefore = mean(0, after)
	r.FlightAfter, r.RateAfter = mean(after+half, end)
}

// fillLatencies is called when the tasks of the window have ended.
func (b *bench) fillLatencies() {
	r, a := &b.result, b.load.acks
	e := b.watch.latency.quantiles()
	r.E2EP50, r.E2EP99, r.E2EMax = ms(e.p50), ms(e.p99), ms(e.max)
	if b.cfg.Latency.TailShare > 0 {
		u := b.watch.untailed.quantiles()
		r.UntailedP50, r.UntailedP99, r.UntailedMax = ms(u.p50), ms(u.p99), ms(u.max)
	}
	s, k := a.toSent.quantiles(), a.fromDue.quantiles()
	r.SubmitP50, r.SubmitP99, r.SubmitMax = ms(s.p50), ms(s.p99), ms(s.max)
	r.AckP50, r.AckP99, r.AckMax = ms(k.p50), ms(k.p99), ms(k.max)
	r.Dropped = a.dropped.Load()
}
