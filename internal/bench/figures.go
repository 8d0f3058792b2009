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
	r.CoresUsed = round(cpu.Seconds()/seconds, 3)
	r.AllocsTask = round(per(float64(to.mallocs-from.mallocs), tasks), 1)
	r.AllocBytes = round(per(float64(to.allocated-from.allocated), tasks), 0)
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

// measuresMemory tells whether a run is one whose memory is of interest: it has many tasks, or waits for them.
func (b *bench) measuresMemory() bool {
	return b.result.Run == "tasks" && b.result.Tasks >= leastForSlope*1e6 || b.result.Run == "backlog"
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
		if b.measuresMemory() {
			r.note("rise of the memory: left out, it is a line through the second half of the samples, which must hold %.0f tasks more at its end than at its begin; it held %.0f", leastForSlope*1e6, span*1e6)
		}
		return
	}
	r.HeapSlope = round(slope(late, of, func(s Sample) float64 { return s.Heap })-own, 2)
	r.RSSSlope = round(slope(late, of, func(s Sample) float64 { return s.RSS })-own, 2)
	if span < leastForTenMillion {
		r.note("RSS with 10 million tasks: left out, the line is too short to tell it; it needs %.0f tasks and has %.0f", leastForTenMillion*1e6, span*1e6)
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
	if r.RateBefore == 0 || r.RateAfter == 0 {
		r.note("tasks before or after the backends slowed: left out, there are too few samples (two a second) on that side of --slow-after; give it more of --duration")
	}
}

// fillBytes tells what the run added to the log and to the files, by the tasks that it submitted: what was there before is
// not theirs. It is called when the tasks have ended, and the engine too.
func (b *bench) fillBytes(e evidence) {
	r, sent := &b.result, int64(b.load.sent())
	if e.ends {
		r.LogBytes = round(per(float64(b.watch.counts().bytes), sent), 0)
	}
	r.BrokerBytes = round(per(float64(max(0, sizeOf(b.brokerDir())-b.before.broker)), sent), 0)
	if r.RecordsBefore = b.before.records; r.RecordsBefore > 0 {
		r.note("an earlier log was there: the figures are about what this run added; CPU, memory and rates include tasks that it left without an end")
		r.note("files of the state per submitted task: left out, the store writes anew what was there before, and nobody knows which bytes are whose")
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
			r.note("end to end: left out, no task that was due in the measured time had ended when --drain was over; %d had no end", left)
		case n == 0:
			r.note("end to end: left out, no task that was due in the measured time was submitted; what was due before took all of it")
		case left > 0:
			r.note("end to end: without %d tasks that had no end when --drain was over, so better than it would be", left)
		}
	}
	q, n := b.watch.latency.quantiles(), int64(b.watch.latency.count())
	if n > 0 && !e.ends {
		r.note("end to end: of the %d tasks alone that ended before the run was stopped, so not of the slow ones", n)
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
	// reachedShare is how much of the asked rate must come out for it to be called reached: machines stumble.
	reachedShare = 0.95
	// reachedEdge is the end of the window of which nothing need have come out: what was due there is under way. Of a
	// short window it is a twentieth.
	reachedEdge = 250 * time.Millisecond
)

// fillRate compares an open loop's rate with what came of it: acknowledged submissions, and of tasks the ends.
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
		r.note("the rate was NOT REACHED (less than 95 %% came out): %s/s were due, %s; what is due waits longer and longer, so the latencies tell how long this run was, and not what the engine does at that rate; what was due and never sent has none", figure(b.rate), what)
	}
}
