package verify

import (
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

// mover describes what will move a live task.
type mover struct {
	// kind is running, ready, due (a fact follows at once from the state), none, or what the task waits for: operator, paused, retry,
	// cool_down, agent (its service is failing), quiet, not_before, sleep, signal or concurrency.
	kind string
	step string
	// since is when it should have moved.
	since events.Instant
}

// next finds what will move the task (INV10).
func (s *story) next() mover {
	if s.parked {
		return mover{kind: string(events.WaitingOperator)}
	}
	if s.parkDue || s.cancelHeld && !s.back {
		return mover{kind: "due", since: s.time}
	}
	if s.early.until != 0 && !s.paused {
		return mover{kind: string(events.WaitingNotBefore), since: s.early.until}
	}
	var run, wait *mover
	for _, st := range s.steps {
		if w := st.wait; w != nil && (w.until != 0 || wait == nil) && (wait == nil || wait.since == 0 || w.until < wait.since) {
			wait = &mover{kind: string(w.kind()), step: st.id, since: w.until}
		}
		for _, w := range []*work{&st.do, &st.undo} {
			switch {
			case w.running && w.child != "":
				if run == nil {
					run = &mover{kind: string(events.WaitingChild), step: st.id}
				}
			case w.running && (run == nil || run.kind != "running" || w.completeBy < run.since):
				run = &mover{kind: "running", step: st.id, since: w.completeBy}
			case w.waiting && (w == &st.undo) == (s.back || st.tolerated()) && (wait == nil || wait.since == 0 || w.retryAt < wait.since):
				wait = &mover{kind: string(w.waitsFor), step: st.id, since: w.retryAt}
			}
		}
	}
	switch {
	case run != nil:
		return *run
	case s.paused:
		return mover{kind: string(events.WaitingPaused)}
	case waitsWithin(s) != "":
		return mover{kind: string(events.WaitingLimit), step: waitsWithin(s)}
	case wait != nil:
		if s.back && s.quiet > wait.since {
			wait.kind, wait.since = string(events.WaitingQuiet), s.quiet
		}
		return *wait
	case s.back:
		return s.nextUndo()
	case !s.permit.has():
		return s.permit.next(s)
	}
	return s.nextStep()
}

// failure returns the error of the attempt that a fact ends; nil if it timed out.
func failure(body events.Body) *events.Error {
	switch b := body.(type) {
	case *events.StepFailed:
		return &b.Error
	case *events.CompensationFailed:
		return &b.Error
	case *events.EffectFailed:
		if b.Failed != nil {
			return &b.Failed.Error
		}
		if b.CompensationFailed != nil {
			return &b.CompensationFailed.Error
		}
	}
	return nil
}

func (s *story) nextUndo() mover {
	for _, st := range s.steps {
		if st.undoFailed {
			return mover{kind: "due", step: st.id, since: s.time} // it must be parked
		}
	}
	for _, st := range s.steps {
		if st.mustUndo() && s.again.has(st.id) {
			return mover{kind: "ready", step: st.id, since: max(s.time, s.quiet)}
		}
	}
	return mover{kind: "due", since: s.time}
}

func (s *story) nextStep() mover {
	open, failed := 0, false
	for i := range s.def.Steps {
		r := &s.def.Steps[i]
		st := s.step(r.ID)
		if st.over() {
			continue
		}
		open++
		if st.fans() {
			if m := s.nextItem(st, r); m.kind != "none" {
				return m
			}
			failed = failed || s.itemFailed(st)
			continue
		}
		if st != nil && !st.queued {
			failed = failed || st.failed
			continue
		}
		if s.unmet(r) == "" {
			return mover{kind: "ready", step: r.ID, since: max(s.time, s.quietOf(r.ID))}
		}
	}
	if open == 0 || failed {
		return mover{kind: "due", since: s.time} // it ends, or is parked
	}
	return mover{kind: "none"}
}

// dueFacts is how many other facts may lie between a fact and its follow-up: a few batches.
const dueFacts = 50_000

// dueTime is how long an owner may take for a fact that follows at once: longer than any take-over.
const dueTime = 2 * time.Minute

// rest checks a live task at the end of the log.
func (p *partition) rest(s *story) {
	m := s.next()
	place := Place{Topic: p.topics.Events, Partition: p.number, Offset: s.at}
	finding := func(kind, format string, args ...any) Finding {
		return Finding{Check: CheckMovers, Kind: kind, Place: place, Task: s.id, Step: m.step, What: fmt.Sprintf(format, args...)}
	}
	p.count.Movers[m.kind]++
	if m.kind == string(events.WaitingOperator) {
		p.count.Parked++
		return
	}
	p.count.Live++
	if m.kind == string(events.WaitingPaused) || m.kind == string(events.WaitingConcurrency) || m.kind == string(events.WaitingLimit) || m.kind == string(events.WaitingChild) || m.kind == string(events.WaitingSignal) && m.since == 0 {
		return // an operator moves it, or whoever sends the signal, or the end of another task
	}
	late := p.cfg.Now.Sub(m.since)
	switch m.kind {
	case "none":
		p.book.add(finding("stuck", "the task is %s after this fact, and nothing will ever move it: no attempt runs, no timer waits, no step is ready (INV10)", s.state()))
	case "due":
		// The log has continued without the follow-up.
		if p.owners.time.Sub(s.time) > dueTime && p.accepted-s.number > dueFacts || p.owners.time.Sub(s.time) > 10*dueTime {
			p.book.add(finding("not_moved", "a fact should follow from this one at once, but the log continues for %s and %d facts without it (INV10)", p.owners.time.Sub(s.time), p.accepted-s.number))
		} else if late > p.cfg.Grace {
			p.book.warn(finding("idle", "a fact should follow from this one at once, but has been missing for %s", late.Truncate(time.Second)))
		}
	case "running":
		if late > p.cfg.Grace {
			p.book.warn(finding("overdue", "its complete-by time passed %s ago, and the attempt has no outcome", late.Truncate(time.Second)))
		}
	default:
		if late > p.cfg.Grace {
			p.book.warn(finding("idle", "it could have started %s ago and has not", late.Truncate(time.Second)))
		}
	}
	if p.cfg.AtRest {
		p.book.add(finding("live", "the task has not ended: it is %s", s.state()))
	}
}
