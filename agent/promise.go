package agent

import (
	"context"
	"time"

	"github.com/sagalog/sagalog/events"
)

// An attempt that is reported to have had no effect must never be run again: the engine then has nothing to undo, and
// what a second run does stays. Its request, however, is delivered again after a crash if an earlier one of the
// partition holds the low-water mark. So the report waits for a commit that covers the request, alone or by the runs in
// its metadata; without one the effect is reported as unknown, which is always safe. It is unknown too where another
// instance may have the same request: if that one's run has an effect and ends second, its report counts no more.

// promise is a request whose end is to be recorded by the next commit.
type promise struct {
	places []place
	by     time.Time
	// answer gets whether it was. It has room for that, as the request may wait no longer.
	answer chan bool
}

// settled returns the try as it may be reported.
func (l *lane) settled(work context.Context, q *request, t try) try {
	if t.failure == nil || t.failure.Effect != events.EffectNone {
		return t
	}
	if l.exclusive(q) {
		if l.spend(work, q) {
			return t
		}
		l.log.Warn("that an attempt had no effect cannot be recorded, it is reported as unknown", "agent", l.agent.name,
			"task", q.work.Task, "step", q.work.Step, "attempt", q.work.Attempt)
	}
	f := *t.failure
	f.Effect = events.EffectUnknown
	t.failure = &f
	return t
}

// exclusive tells whether no other instance has had the request in any of its places.
func (l *lane) exclusive(q *request) bool {
	l.mu.Lock()
	places := q.places[:len(q.places):len(q.places)]
	l.mu.Unlock()
	return l.marks.exclusive(places)
}

// spend makes sure that the attempt is never run again, and tells whether it could. A twin that comes meanwhile must be
// recorded too; one that comes later is dropped (joins).
func (l *lane) spend(work context.Context, q *request) bool {
	t := time.NewTimer(time.Until(q.by) - reportMargin(time.Until(q.by)))
	defer t.Stop()
	for {
		l.mu.Lock()
		p := &promise{places: q.places[:len(q.places):len(q.places)], by: q.by, answer: make(chan bool, 1)}
		l.promises = append(l.promises, p)
		l.mu.Unlock()
		select {
		case l.wanted <- struct{}{}:
		default:
		}
		select {
		case kept := <-p.answer:
			if !kept || !l.marks.exclusive(p.places) {
				return false
			}
		case <-t.C:
			return false
		case <-work.Done():
			return false
		}
		l.mu.Lock()
		same := len(q.places) == len(p.places)
		if same {
			l.spent[q.id()] = q.by
		}
		l.mu.Unlock()
		if same {
			return true
		}
	}
}

// commitLoop commits what has risen at intervals and once more at the end, and what is promised at once. While a commit
// is on its way more promises gather for the next.
func (l *lane) commitLoop(done <-chan struct{}) {
	t := time.NewTicker(l.config.CommitEvery)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			l.overdue(now)
			l.commit()
		case <-l.wanted:
			l.commit()
		case <-done:
			l.commit()
			return
		}
	}
}

func (l *lane) commit() {
	now := time.Now()
	promises := l.gather(now)
	l.marks.keep(l.source.Partitions)
	for _, p := range promises {
		l.marks.promise(p.places)
	}
	l.store(l.marks.low(now))
	for _, p := range promises {
		p.answer <- l.marks.kept(p.places, p.by)
	}
}

// gather takes the promises that wait, and forgets the attempts that would be dropped for their age by now.
func (l *lane) gather(now time.Time) []*promise {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, by := range l.spent {
		if !now.Before(by) {
			delete(l.spent, id)
		}
	}
	out := l.promises
	l.promises = nil
	return out
}

func (l *lane) store(low map[int32]Mark) {
	if len(low) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.config.CommitTimeout)
	defer cancel()
	stored, err := l.source.Commit(ctx, low)
	if err != nil {
		// Only work done twice hangs on it; the next interval tries again.
		l.log.Warn("committing the low-water marks failed, trying again", "agent", l.agent.name, "error", err)
		return
	}
	l.marks.commit(stored)
}
