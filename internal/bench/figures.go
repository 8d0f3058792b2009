package bench

import (
	"fmt"
	"time"
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
	done := to.seen.completed - from.seen.completed
	if b.cfg.items > 0 {
		done -= tasks // the step with the items is no item
	}
	r.StepsPerSecond = round(float64(done)/seconds, 1)
	r.CPUPerStep = round(per(float64(cpu.Nanoseconds())/1e3, done), 1)
	r.CoresUsed = round(cpu.Seconds()/seconds, 3)
	r.AllocsTask = round(per(float64(to.mallocs-from.mallocs), tasks), 1)
	r.AllocBytes = round(per(float64(to.allocated-from.allocated), tasks), 0)
	if b.cfg.items > 0 { // few tasks end in the window, and most of their items were done before it
		r.CPUPerTask, r.AllocsTask, r.AllocBytes = 0, 0, 0
	}
	r.Failures, r.Timeouts, r.Badly = to.seen.failure-from.seen.failure, to.seen.timeouts-from.seen.timeouts, to.seen.badly-from.seen.badly
	r.PeakRSS, r.RSS, r.Heap = mib(b.meters.peakBytes()), mib(b.meters.resident()), mib(heapBytes())
	r.setDisturbance(from, to)
	b.fillMemory()
	b.fillSlow()
}

// ownTables returns the size of the benchmark's own tables in bytes.
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

// measuresMemory says whether the memory of a run is of interest: it has many tasks, or they wait.
func (b *bench) measuresMemory() bool {
	return b.result.Run == "tasks" && b.result.Tasks >= leastForSlope*1e6 || b.result.Run == "backlog"
}

// A line through fewer tasks than this (in millions) would show the effect of the garbage collector,
// not of the tasks.
const (
	leastForSlope      = 0.1
	leastForTenMillion = 0.25
)

// fillMemory fits lines through the samples of the window, over the finished tasks, or over the submitted ones if none finish. The
// benchmark's own tables grow with the tasks and are subtracted.
func (b *bench) fillMemory() {
	r := &b.result
	r.Samples = b.sample.list
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
	// caches and tables fill in the first half, so the second half shows the trend
	late := r.Samples[len(r.Samples)/2:]
	span := of(late[len(late)-1]) - of(late[0])
	if len(late) < 4 || span < leastForSlope {
		if b.measuresMemory() {
			r.note("rise of the memory: left out; it is a line through the second half of the samples, which must span %.0f tasks and spans %.0f", leastForSlope*1e6, span*1e6)
		}
		return
	}
	r.HeapSlope = round(slope(late, of, func(s Sample) float64 { return s.Heap })-own, 2)
	r.RSSSlope = round(slope(late, of, func(s Sample) float64 { return s.RSS })-own, 2)
	if span < leastForTenMillion {
		r.note("RSS with 10 million tasks: left out; the line is too short: it needs %.0f tasks and has %.0f", leastForTenMillion*1e6, span*1e6)
		return
	}
	r.TenMillion = round(late[len(late)-1].RSS+max(0, r.RSSSlope+own)*(10-of(late[len(late)-1])), 0)
}

// fillSlow compares the time before the backends slowed with the end of the window.
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
	if r.RateBefore == 0 || r.RateAfter == 0 {
		r.note("tasks before or after the backends slowed: left out; there are too few samples (two a second) on that side of --slow-after, so raise --duration")
	}
}

// fillBytes computes the bytes that the run added to the log and to the files, per submitted task. It is called when the tasks and the
// engine have ended.
func (b *bench) fillBytes(e evidence) {
	r, sent := &b.result, int64(b.load.sent())
	if e.ends {
		r.LogBytes = round(per(float64(b.watch.counts().bytes), sent), 0)
		r.ItemBytes = round(per(float64(b.watch.counts().itemBytes), sent*int64(b.cfg.items)), 1)
	}
	r.BrokerBytes = round(per(float64(max(0, sizeOf(b.brokerDir())-b.before.broker)), sent), 0)
	if r.RecordsBefore = b.before.records; r.RecordsBefore > 0 {
		r.note("an earlier log was there: the figures are those of this run, but CPU, memory and rates include tasks that an earlier run left without an end")
		r.note("files of the state per submitted task: left out; the store rewrites earlier data, so the bytes cannot be attributed")
		return
	}
	r.StateBytes = round(per(float64(sizeOf(b.stateDir())), sent), 0)
}

// fillLatencies is called when the tasks of the window have ended.
func (b *bench) fillLatencies(e evidence) {
	r, a := &b.result, b.load.acks
	if e.ends && b.due != nil {
		n := int64(b.watch.latency.count())
		r.E2ESamples = &n
		switch left := b.load.inFlight.Load(); {
		case n == 0 && left > 0:
			r.note("end to end: left out; no task that was due in the measured time had ended when --drain was over, and %d had no end", left)
		case n == 0:
			r.note("end to end: left out; no task that was due in the measured time was submitted, since tasks that were due before took all of it")
		case left > 0:
			r.note("end to end: without %d tasks that had not ended when --drain was over, so the figures are too good", left)
		}
	}
	q, n := b.watch.latency.quantiles(), int64(b.watch.latency.count())
	if n > 0 && !e.ends {
		r.note("end to end: only of the %d tasks that ended before the run was stopped, so not of the slow ones", n)
	}
	r.E2EP50, r.E2EP99, r.E2EMax = ms(q.p50), r.keepP99("end to end", ms(q.p99), n), ms(q.max)
	if b.cfg.Latency.TailShare > 0 {
		u := b.watch.untailed.quantiles()
		r.UntailedP50, r.UntailedP99, r.UntailedMax = ms(u.p50), r.keepP99("end to end of tasks that met no tail", ms(u.p99), int64(b.watch.untailed.count())), ms(u.max)
	}
	acked := int64(a.fromDue.count())
	r.AckSamples = &acked
	s, k := a.toSent.quantiles(), a.fromDue.quantiles()
	r.SubmitP50, r.SubmitP99, r.SubmitMax = ms(s.p50), r.keepP99("submit and acknowledgement", ms(s.p99), acked), ms(s.max)
	r.AckP50, r.AckP99, r.AckMax = ms(k.p50), ms(k.p99), ms(k.max)
	if acked < leastForP99 {
		r.AckP99 = 0
	}
	r.Dropped = a.dropped.Load()
}

const (
	// reachedShare is the share of the asked rate that counts as reaching it.
	reachedShare = 0.95
	// reachedEdge is the end of the window whose tasks need not have ended, since they are under way. In a short window it is a
	// twentieth.
	reachedEdge = 250 * time.Millisecond
)

// fillRate compares an open loop's rate with the acknowledged submissions, and with the ended tasks if ended is not nil.
func (b *bench) fillRate(ended *int64) {
	r := &b.result
	if b.rate == 0 || r.Seconds == 0 {
		return
	}
	r.RateAsked, r.RateSent = b.rate, round(float64(b.acked)/r.Seconds, 1)
	out, what := b.acked, figure(r.RateSent)+"/s were acknowledged"
	if ended != nil {
		out, what = min(out, *ended), what+fmt.Sprintf(", %s/s ended", figure(r.TasksPerSecond))
	}
	ok := float64(out) >= reachedShare*b.rate*(r.Seconds-min(reachedEdge.Seconds(), r.Seconds/20))
	r.RateReached = &ok
	if !ok {
		r.note("the rate was NOT REACHED (less than 95 %%): %s/s were due, %s; the backlog grows, so the latencies depend on the length of this run and do not describe the engine at that rate; tasks that were due and never sent have none", figure(b.rate), what)
	}
}
