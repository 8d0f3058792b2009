package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// logReading reads the partition's own log.
type logReading struct {
	next int64
	// lagSince is when reading fell behind the owner's acknowledged writes; zero while it has not.
	lagSince events.Instant
	// paused says that the log is not being read.
	paused bool
	// quietSince is when a fact was last confirmed. counted is the number of confirmed facts at the latest tick, and
	// tickedAt the time of that tick.
	quietSince, tickedAt events.Instant
	counted              int64
}

const (
	// logQuiet is how long a partition must go without a confirmed fact to count as idle, so that its log is read
	// again.
	logQuiet = time.Second
	// logTick is the minimum time over which facts are counted: a single batch is not load.
	logTick = 200 * time.Millisecond
)

// pauseReading stops reading the partition's own log while the owner is busy, and starts again when the owner is idle. A
// busy owner has just written the facts that it would read, and the contiguous offsets of the acknowledgements show
// everything that reading would: a newer claim in between shows as a gap. Only an idle owner must read to learn that it
// was deposed. docs/protocol.md, "An idle owner reads its own partition".
func (e *epoch) pauseReading() {
	l := &e.log
	passed := e.now.Sub(l.tickedAt)
	if passed < logTick {
		return
	}
	facts := e.confirmed - l.counted
	l.counted, l.tickedAt = e.confirmed, e.now
	if facts > 0 {
		l.quietSince = e.now
	}
	switch {
	case e.cfg.PauseLogAbove == 0 || e.phase != phaseOwning:
	case !l.paused && float64(facts) > float64(e.cfg.PauseLogAbove)*passed.Seconds():
		l.paused, l.lagSince = true, 0
		e.say(PauseLog{e.gen})
	case l.paused && e.now.Sub(l.quietSince) >= logQuiet && len(e.flying) == 0:
		l.paused, l.next = false, e.confirmed
		e.say(ResumeLog{e.gen, e.confirmed})
	}
}

// lagging says whether reading has been behind the owner's acknowledged writes for too long: an owner that can write
// but not read would decide on an outdated view.
func (e *epoch) lagging() bool {
	return e.log.lagSince != 0 && e.now.Sub(e.log.lagSince) > e.cfg.LagMax
}

// watch checks a record of the partition's own log while the owner decides. After the last confirmed fact only the
// facts in flight may follow. Anything else was written by somebody else; if it is a newer claim, this owner is
// deposed.
func (e *epoch) watch(r *events.Record) bool {
	if r.Offset < e.confirmed {
		return true
	}
	at := r.Offset - e.confirmed
	for _, b := range e.flying {
		if at < int64(len(b.records)) {
			if b.records[at].Header(events.HeaderID) == r.Header(events.HeaderID) {
				return true
			}
			break
		}
		at -= int64(len(b.records))
	}
	if e.cfg.Off.off(RuleContiguous) {
		return true
	}
	//mutant:idle-owner-reads-its-log
	e.stats.Foreign++
	return false
}
