package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// flushing spares the store: a task that takes five steps within a tenth of a second is encoded and written a few times
// and not for each of its facts. The log is the truth, and what is durable there and not in the store yet is folded
// again after a crash, as if it had died between the two (DESIGN 7). So effects need not wait for the store either.
//
// Flushes are counted out: one each FlushEvery, and a few at once after a quiet time, so that whoever looks at a task
// on an idle partition sees it at once.
type flushing struct {
	// credit is the time for which flushes may be made, at most flushBurst times FlushEvery; at is when it was counted.
	credit time.Duration
	at     events.Instant
	// owed says that acknowledged facts are not in the store.
	owed bool
	// last is the last acknowledged record: the store's anchor.
	last events.Record
}

const (
	// flushBurst is how many flushes a quiet partition has in hand: a task of five quick steps needs six.
	flushBurst = 8
	// flushTasks bounds the changed tasks that wait for a flush, and with them what a crash folds again.
	flushTasks = 4096
)

// mayFlush takes a flush from those that are allowed. Two things wait for none. While tasks of a take-over are planned,
// the store is asked for the next of them and must know of those before. And retries that fell due have rows among the
// timers until they are written anew: these would be found due again and again.
func (o *Owner) mayFlush() bool {
	every := o.cfg.FlushEvery
	if every <= 0 || o.unplanned || o.times.moved {
		return true
	}
	f := &o.flush
	f.credit = min(f.credit+o.now.Sub(f.at), flushBurst*every)
	f.at = o.now
	if f.credit < every && o.state.Changed() < flushTasks {
		return false
	}
	f.credit = max(f.credit-every, 0)
	return true
}

// flushBatch has the batch take along what changed since the last flush, if one is due. It returns false when the epoch
// is over.
func (o *Owner) flushBatch(b *batch) bool {
	if o.cfg.FlushEvery < 0 && !o.unplanned && !o.times.moved || !o.mayFlush() {
		o.flush.owed = true
		return true
	}
	return o.flushInto(b)
}

func (o *Owner) flushInto(b *batch) bool {
	d, err := o.state.Flush(o.agenda)
	if err != nil {
		o.stop(err)
		return false
	}
	b.delta = d
	o.flush.owed, o.times.moved = false, false
	for i := range d.Tasks {
		o.cache.touch(d.Tasks[i].ID, b.seq) // also those whose place in the queue alone changed
	}
	return true
}

// flushIdle commits what is acknowledged and not in the store when nothing is on its way: the state is then what the log
// holds and no more.
func (o *Owner) flushIdle() {
	if o.phase != phaseOwning || len(o.pipe.flying) > 0 || !o.flush.owed || !o.mayFlush() {
		return
	}
	b := &batch{seq: o.pipe.seq}
	if !o.flushInto(b) {
		return
	}
	o.do(Commit{Delta: b.delta, Last: o.flush.last})
	o.cache.commit(b)
	o.deciding = true // what was left to the store can be read from there now
}
