package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// tail is the reading of one's own partition.
type tail struct {
	next int64
	// lagSince is when reading fell behind one's own acknowledged writes; zero while it has not.
	lagSince events.Instant
	// resting says that nothing is read.
	resting bool
	// quietSince is when a fact was confirmed last; counted is how many were at the latest tick, at that time.
	quietSince, tickedAt events.Instant
	counted              int64
}

// tailQuiet is how long nothing was confirmed until a partition is idle, and its tail is read again.
const tailQuiet = time.Second

// tickTail has the tail rest while the owner is busy, and be followed while it is idle. The facts that it would read it
// has just written, and the contiguous offsets of the acknowledgements say all that reading could: a newer claim
// in between shows as a gap. Only an idle owner must read to learn that it was deposed (reading/traces.md, k1).
func (o *Owner) tickTail() {
	l := &o.log
	passed := o.now.Sub(l.tickedAt)
	if passed < tailTick {
		return
	}
	facts := o.pipe.confirmed - l.counted
	l.counted, l.tickedAt = o.pipe.confirmed, o.now
	if facts > 0 {
		l.quietSince = o.now
	}
	switch {
	case o.cfg.TailAbove == 0 || o.phase != phaseOwning:
	case !l.resting && float64(facts) > float64(o.cfg.TailAbove)*passed.Seconds():
		l.resting, l.lagSince = true, 0
		o.do(RestTail{o.gen})
	case l.resting && o.now.Sub(l.quietSince) >= tailQuiet && len(o.pipe.flying) == 0:
		l.resting, l.next = false, o.pipe.confirmed
		o.do(FollowTail{o.gen, o.pipe.confirmed})
	}
}

// tailTick is the least time over which facts are counted: a single batch is no load.
const tailTick = 200 * time.Millisecond

// watch looks at a record of the own partition while the owner decides. What lies behind the last confirmed fact
// must be the facts in flight; anything else was written by somebody else: perhaps a newer claim, and then this
// owner is deposed (reading/traces.md, k1).
func (o *Owner) watch(r *events.Record) bool {
	if r.Offset < o.pipe.confirmed {
		return true
	}
	at := r.Offset - o.pipe.confirmed
	for _, b := range o.pipe.flying {
		if at < int64(len(b.records)) {
			if b.records[at].Header(events.HeaderID) == r.Header(events.HeaderID) {
				return true
			}
			break
		}
		at -= int64(len(b.records))
	}
	if o.cfg.Off.off(RuleContiguous) {
		return true
	}
	o.stats.Void++
	o.endEpoch()
	return false
}
