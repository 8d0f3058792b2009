package model

import (
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// ahead is how far a wrong clock is ahead.
const ahead = 8 * 24 * time.Hour

// shows returns the time that a node's clock shows after the clock has moved n times.
func (c *Config) shows(node int, clock uint8) events.Instant {
	if c.wrong(node) {
		return c.at(clock).Add(ahead)
	}
	return c.at(clock)
}

// wrong says whether a node's clock is wrong.
func (c *Config) wrong(node int) bool { return c.Wrong && node == 0 }

// compared says whether a node knows that its clock is right. There is one such node; the clock of a third is right too.
func (c *Config) compared(node int) bool { return c.Wrong && node == 1 }

// far says whether an instant is of the wrong time.
func (c *Config) far(t events.Instant) bool { return c.Wrong && t.Sub(Begin) > ahead/2 }

// right returns the right time at which something happened, or is due, that has the given time.
func (c *Config) right(t events.Instant) events.Instant {
	if c.far(t) {
		return t.Add(-ahead)
	}
	return t
}

// times checks that the time goes back to the right time, and that nothing comes before its right time, although a clock was wrong.
func (j *judge) times(f *events.Fact) {
	cfg, p := &j.w.sp.cfg, &j.State.Partition
	if b, ok := f.Body.(*events.TimeCorrected); ok && f.Task == "" && !b.Settled && (p.Owner != nodeName(1) || b.To > cfg.at(j.w.s.clock) || b.To < cfg.right(p.Time)) {
		j.w.fail("the time is corrected to %s by %s, whose clock was not compared, or too late", b.To, p.Owner)
	}
	if !cfg.Wrong {
		return
	}
	now := cfg.right(f.Time)
	switch b := f.Body.(type) {
	case *events.PermitsDecided:
		paces(j, f, b)
	case *events.Timeout:
		if b.Attempt == 0 {
			return
		}
		started := j.started(f.Task, b.Step, b.Operation, b.Attempt)
		if within := completeWithin(started); now.Sub(cfg.right(started.Time)) < within {
			j.w.fail("attempt %d of %s of %s times out after less than %s", b.Attempt, b.Step, f.Task, within)
		}
	case *events.StepStarted:
		if failed := j.log.latest(j.w.sp, f.Task, events.NameStepFailed); failed != nil && b.ReadyAt != 0 {
			if v := failed.Body.(*events.StepFailed).Verdict; now.Sub(cfg.right(failed.Time)) < v.At.Sub(failed.Time) {
				j.w.fail("%s of %s is tried again after less than %s", b.Step, f.Task, v.At.Sub(failed.Time))
			}
		}
	case *events.DeadlinePassed:
		if at := j.log.latest(j.w.sp, f.Task, events.NameSubmitted); now.Sub(cfg.right(at.Time)) < at.Body.(*events.Submitted).Deadline.Sub(at.Time) {
			j.w.fail("the deadline of %s passes early", f.Task)
		}
	case *events.TasksSwept:
		for _, id := range b.Tasks {
			if t, _ := j.State.Task(id); t != nil && now.Sub(cfg.right(t.EndedAt)) < rememberFor {
				j.w.fail("%s is forgotten after less than %s", id, rememberFor)
			}
		}
	}
}

// paces checks that a limit with a rate gives no permit too soon after the one before, by the right clock, although the time was corrected in
// between.
func paces(j *judge, f *events.Fact, b *events.PermitsDecided) {
	each, err := events.ParseRate(j.w.sp.cfg.Rate)
	held, last := map[events.Link]bool{}, events.Instant(0)
	given := func(x *events.Link) bool { return x != nil && !held[*x] }
	if err != nil || each == 0 || !given(b.Granted) {
		return
	}
	j.log.accepted(j.w.sp, func(g *events.Fact) bool {
		if x, ok := g.Body.(*events.PermitsDecided); ok && given(x.Granted) {
			held[*x.Granted], last = true, j.w.sp.cfg.right(g.Time)
		}
		return true
	})
	if after := j.w.sp.cfg.right(f.Time).Sub(last); given(b.Granted) && last != 0 && after+events.RateSlack+time.Millisecond < each {
		j.w.fail("the limit %s gives two permits within %s, and its rate is %s", b.Limit, after, j.w.sp.cfg.Rate)
	}
}

// started returns the fact that began an attempt.
func (j *judge) started(task, step string, op events.Operation, attempt int) *events.Fact {
	return j.log.find(j.w.sp, func(g *events.Fact) bool {
		switch b := g.Body.(type) {
		case *events.StepStarted:
			return g.Task == task && op == events.Do && b.Step == step && b.Attempt == attempt
		case *events.CompensationStarted:
			return g.Task == task && op == events.Undo && b.Step == step && b.Attempt == attempt
		}
		return false
	})
}

func completeWithin(started *events.Fact) time.Duration {
	switch b := started.Body.(type) {
	case *events.StepStarted:
		return b.CompleteBy.Sub(started.Time)
	case *events.CompensationStarted:
		return b.CompleteBy.Sub(started.Time)
	}
	return 0
}

// latest returns the latest accepted fact of a kind about a task.
func (l *logNode) latest(s *space, task string, kind events.Name) (found *events.Fact) {
	l.accepted(s, func(f *events.Fact) bool {
		if f.Task == task && f.Body.Name() == kind {
			found = f
		}
		return true
	})
	return found
}

// wrongRest says what is still of the wrong time where a node with the right clock owns the partition.
func (w *World) wrongRest(p *part, state *events.State) (owes string) {
	if !w.sp.cfg.compared(int(p.group)) {
		return ""
	}
	if w.sp.cfg.far(state.Partition.Time) || state.Partition.Correcting != 0 {
		return "the time of the log is not corrected"
	}
	if slices.ContainsFunc(carriedAt(&state.Partition), w.sp.cfg.far) {
		return "a carry began in days"
	}
	state.Loaded(func(t *events.Task) bool {
		for _, m := range t.Timers() {
			if w.sp.cfg.far(m.Due) {
				owes = "a timer of " + t.ID + " is due in days"
			}
		}
		return owes == ""
	})
	for l := range state.Limits.All() {
		each, _ := events.ParseRate(l.Rate)
		if at := w.sp.cfg.at(w.s.clock).Add(each); l.Rate != "" && l.OpensAt() > at {
			owes = "the limit " + l.Name + " gives its next permit later than after the time of one"
		}
	}
	for _, h := range state.Held() {
		if w.sp.cfg.far(h.ExpiresAt) {
			owes = "a request of " + h.Request.Task + " is held for days"
		}
	}
	return owes
}

// carriedAt returns when the carries began that are under way or remembered.
func carriedAt(p *events.PartitionState) []events.Instant {
	list := []events.Instant{p.CarriedAt}
	if p.Carry != nil {
		list = append(list, p.Carry.At)
	}
	for _, c := range p.Carried {
		list = append(list, c.At)
	}
	return list
}
