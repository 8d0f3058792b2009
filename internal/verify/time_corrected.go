package verify

import (
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

// goesBack says whether a fact is the one by which the time goes back.
func goesBack(f *events.Fact) bool {
	b, ok := f.Body.(*events.TimeCorrected)
	return ok && f.Task == "" && !b.Settled
}

// correctsOnly checks that nothing else is decided until a correction is settled.
func (p *partition) correctsOnly(f *events.Fact, at Place) {
	b, ok := f.Body.(*events.TimeCorrected)
	if p.correcting != 0 && !ok || ok && f.Task != "" && b.To != p.correcting {
		p.book.add(Finding{Check: CheckOwnership, Kind: "time_corrected", Place: at, Task: f.Task,
			What: fmt.Sprintf("%s comes while the time is corrected to %q", f.Body.Name(), p.correcting.String())})
	}
}

// correct takes a TimeCorrected of the partition.
func (p *partition) correct(f *events.Fact, b *events.TimeCorrected, at Place) {
	if b.Settled {
		if b.To != p.correcting {
			p.wrong(CheckOwnership, "time_corrected", at, "a correction of the time to %s is settled that has not begun", b.To)
		}
		for id, s := range p.live {
			if s.time != b.To {
				p.wrong(CheckAttempts, "time_corrected", at, "a correction of the time is settled, and the task %s is not corrected", id)
			}
		}
		p.correcting = 0
		return
	}
	if ahead := p.time.Sub(b.To); f.Time != b.To || f.Sequence != 0 || ahead <= time.Minute || p.correcting != 0 {
		p.wrong(CheckOwnership, "time_corrected", at, "the time is corrected to %s by the fact %d of its epoch, at %s, %s after that", b.To, f.Sequence, f.Time, ahead)
	}
	for _, l := range p.limits {
		l.correct(b.To)
	}
	p.time, p.correcting, p.jumpedAt = b.To, b.To, min(p.jumpedAt, b.To)
}

// corrected takes a TimeCorrected of the task: what began at the wrong time lasts for its whole duration from the correction on.
func (t *telling) corrected(to, last events.Instant) {
	lasting := func(x *events.Instant, set events.Instant) {
		if set > to && *x > to {
			*x = to.Add(max(x.Sub(set), 0))
		}
	}
	longest := time.Duration(0)
	for _, st := range t.steps {
		longest = max(longest, st.do.lastEnd().Sub(st.do.startedAt))
		if w := &st.do; w.heartbeat > 0 {
			lasting(&w.capBy, w.startedAt)
			if max(w.startedAt, w.progressedAt) > to {
				defer func() { w.completeBy = min(to.Add(2*w.heartbeat.Std()), w.capBy) }()
			}
			w.progressedAt = min(w.progressedAt, to)
		}
		if w := st.wait; w != nil && w.within > 0 {
			lasting(&w.until, w.since)
			w.since = min(w.since, to)
		}
		lasting(&st.soft.at, st.soft.from)
		st.soft.from = min(st.soft.from, to)
		for _, w := range []*work{&st.do, &st.undo} {
			lasting(&w.completeBy, w.startedAt)
			if w.retryAt <= last { // it was due
				w.retryAt = min(w.retryAt, to)
			}
			lasting(&w.retryAt, w.askedAt)
			lasting(&w.startBy, w.timedFrom)
			w.timedFrom = min(w.timedFrom, to)
			w.startedAt, w.askedAt = min(w.startedAt, to), min(w.askedAt, to)
		}
	}
	for _, x := range t.undos {
		x.correct(to)
	}
	t.quiet = min(t.quiet, to.Add(longest+t.partition.settings.adopted.Grace.Std()))
	t.story.limits.corrected()
	if before := t.early.until; before == 0 {
		lasting(&t.deadline, max(t.submittedAt, t.reopenedAt))
		lasting(&t.soft.at, t.soft.from)
		t.soft.from = min(t.soft.from, to)
	} else if t.early.within > 0 {
		lasting(&t.early.until, t.submittedAt)
		if t.deadline != 0 {
			t.deadline = t.deadline.Add(t.early.until.Sub(before))
		}
		if moved := t.early.until.Sub(before); t.soft.at != 0 {
			t.soft = soft{t.soft.at.Add(moved), t.soft.from.Add(moved)}
		}
	}
	if wait := t.partition.settings.remind; wait > 0 {
		t.remindAt = min(t.remindAt, to.Add(wait))
	}
	t.haltedAt = min(t.haltedAt, to)
	t.submittedAt, t.parkedAt, t.reopenedAt, t.story.time = min(t.submittedAt, to), min(t.parkedAt, to), min(t.reopenedAt, to), to
}
