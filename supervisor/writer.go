package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// writer saves writes to the store: a task that takes five steps within a tenth of a second is encoded and written a
// few times, not once for each fact. The log is the truth, and facts that are durable there but not in the store are
// folded again after a crash, as if the process had died between the two. So effects need not wait for the store
// either.
//
// Flushes are rationed: one per FlushEvery, with a few saved up after a quiet time, so that a change to a task of an
// idle partition is seen at once. While somebody waits for a change, a flush of few tasks costs less, and an owner with nothing in flight
// always flushes: whoever waits for a task of a partition that has little to do sees its end at once.
type writer struct {
	*core
	// credit is the saved-up time that flushes are paid from, at most flushBurst times FlushEvery; at is when it was last
	// updated.
	credit time.Duration
	at     events.Instant
}

const (
	// flushBurst is how many flushes a quiet partition saves up: a task of five quick steps needs six.
	flushBurst = 8
	// flushFull is how many changed tasks make a flush cost a whole FlushEvery while somebody waits.
	flushFull = 10
	// flushTasks bounds the changed tasks that wait for a flush, and so the facts that are folded again after a crash.
	flushTasks = 4096
)

// pressing says that a flush does not wait. There are two reasons: while tasks of a take-over are planned, the store must
// know the planned ones before it is asked for the next; and the rows of tasks whose time has come are found again and
// again until they are rewritten.
func (w *writer) pressing() bool { return w.planner.unplanned || w.timers.moved }

func (w *writer) awaited() bool { return w.cfg.Awaited != nil && w.cfg.Awaited() }

// may says whether a flush is allowed now, and charges it to the ration.
func (w *writer) may() bool {
	every := w.cfg.FlushEvery
	if every <= 0 || w.pressing() {
		return true
	}
	w.credit = min(w.credit+max(w.now.Sub(w.at), 0), flushBurst*every) // the time may have been corrected since
	w.at = w.now
	changed := w.state.Changed()
	cost := every
	if w.awaited() {
		cost = every * time.Duration(min(max(changed, 1), flushFull)) / flushFull
	}
	if w.credit < cost && changed < flushTasks {
		return false
	}
	w.credit = max(w.credit-cost, 0)
	return true
}

// join adds everything that changed since the last flush to the batch under construction, if a flush is due.
func (w *writer) join() error {
	if w.cfg.FlushEvery < 0 && !w.pressing() || !w.may() {
		w.unwritten = true
		return nil
	}
	return w.flush(w.batch)
}

func (w *writer) flush(b *batch) error {
	agenda := w.planner.agenda
	//mutant:corrected-tasks-are-planned
	if w.epoch.correcting() {
		agenda = nil // the next epoch plans the tasks at the right time
	}
	d, err := w.state.Flush(agenda)
	if err == nil {
		err = w.epoch.unread
	}
	if err != nil {
		return err
	}
	b.delta = d
	w.unwritten, w.timers.moved = false, false
	for i := range d.Tasks {
		w.cache.touch(d.Tasks[i].ID, b.seq) // including tasks for which only the place in the queue changed
	}
	return nil
}

// flushIdle commits acknowledged facts that are not in the store, if nothing is in flight: then the state is exactly
// the fold of the log. It returns whether it did.
func (w *writer) flushIdle() (bool, error) {
	if len(w.flying) > 0 || !w.unwritten || !w.may() && !w.awaited() {
		return false, nil
	}
	b := &batch{seq: w.seq}
	if err := w.flush(b); err != nil {
		return false, err
	}
	w.say(Commit{Delta: b.delta, Last: w.epoch.last})
	w.cache.commit(b)
	return true, nil
}
