package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

func (t *timers) sweepDue() (bool, error) {
	if t.now.Sub(t.sweptAt) < sweepEvery {
		return false, nil
	}
	ids, err := t.forgettable(t.forgetBy(t.now), 1)
	return err == nil && len(ids) > 0, nil
}

// sweep forgets tasks that ended longer ago than they are remembered. All inputs below end offsets that were requested after
// that time must have been judged and passed in this epoch, and the tasks may have no effect above the folded
// watermark. docs/protocol.md, "Sweeps and held requests".
func (t *timers) sweep(at events.Instant) error {
	//mutant:sweep-waits-for-ends
	by := t.forgetBy(at)
	if by <= 0 || t.now.Sub(t.sweptAt) < sweepEvery {
		return nil
	}
	swept, more, err := t.sweepable(by)
	if err != nil {
		return err
	}
	if !more {
		t.sweptAt = t.now
	}
	if len(swept.Tasks)+len(swept.first) == 0 {
		return nil
	}
	//mutant:sweep-waits-after-jump
	if wait, err := t.jumped(); wait || err != nil {
		t.sweptAt = t.now
		return err
	}
	//mutant:passed-before-sweep
	if t.inbox.unpassed() {
		if err := t.inbox.pass(); err != nil {
			return err
		}
	}
	for _, f := range swept.first {
		if err := t.record(f, nil); err != nil {
			return err
		}
	}
	if len(swept.Tasks) == 0 {
		return nil
	}
	return t.record(&events.Fact{Body: &swept.TasksSwept, Cause: events.CauseTimer("", 0, "", 0, events.TimerHorizon)}, nil)
}

// sweep is what is decided about tasks that may be forgotten.
type sweep struct {
	events.TasksSwept
	// first are the facts about tasks that are not forgotten yet, because of their parents or children.
	first []*events.Fact
}

// beforeForgotten says whether a task that may be forgotten must be kept because of its parent or its children, and what they must learn; nil if that is nothing. A
// child whose parent has not released it repeats its answer: the parent may be gone. A parent releases its children.
func beforeForgotten(t *events.Task) (body events.Body, kept bool) {
	if t.Parent.Kept() {
		if a, ok := events.AnswerAgain(t, *events.OpenParent(t)); ok {
			return &events.ChildAnswered{Answer: a}, true
		}
		return nil, true
	}
	if b := events.ReleaseChildren(t); b != nil {
		return b, true
	}
	return nil, false
}

// forgetBy returns the time by which tasks are forgotten. While the log is ahead of the clock, because an earlier owner's clock was
// wrong, the clock counts: by the time of the log, every ended task could be days old.
func (t *timers) forgetBy(at events.Instant) events.Instant { return min(at, t.read) }

// rememberFor returns how long a task is remembered after its end.
func (t *timers) rememberFor(task *events.Task) time.Duration {
	if task.RememberFor > 0 {
		return task.RememberFor.Std()
	}
	return t.settings().RememberFor.Std()
}

// jumped says whether the time of the log jumped recently, so that nothing may be forgotten yet. A partition in which nothing
// happened for an hour needs a fact that says since when its time has continued.
func (t *timers) jumped() (bool, error) {
	p := &t.state.Partition
	if t.now.Sub(p.Time) > events.TimeJump {
		return true, t.inbox.pass()
	}
	return p.JumpedAt != 0 && t.now.Sub(p.JumpedAt) < events.SweepAfterJump, nil
}

// forgettable returns tasks that may be forgotten by the time, but for what sweepable waits for.
func (t *timers) forgettable(by events.Instant, limit int) ([]string, error) {
	ids, err := t.store.Ended(by.Add(-t.settings().RememberFor.Std()), limit)
	if err != nil || len(ids) == limit {
		return ids, err
	}
	others, err := t.store.Forgettable(by, limit-len(ids))
	return append(ids, others...), err
}

// sweepable returns the fact that forgets some of the tasks that may be forgotten now, and whether there are more. The remaining tasks do
// not wait for the next interval, so that a partition that ends a thousand tasks a second can also forget a thousand a second.
func (t *timers) sweepable(by events.Instant) (swept *sweep, more bool, err error) {
	remember := t.settings().RememberFor.Std()
	swept = &sweep{TasksSwept: events.TasksSwept{EndedBefore: by.Add(-remember)}}
	ids, err := t.forgettable(by, sweepBatch)
	if err != nil || len(ids) == 0 {
		return swept, false, err
	}
	busy, inFlight, before := t.outbox.busy(), false, t.cache.bytes
	for _, id := range ids {
		some, read := len(swept.Tasks)+len(swept.first) > 0, t.cache.bytes-before
		if read > sweepBytes && some || read > sweepBytesAtMost {
			return swept, some, nil
		}
		task, err := t.state.Task(id)
		if err != nil {
			return nil, false, err
		}
		if task == nil { // swept already, by a batch in flight
			inFlight = true
			continue
		}
		its := t.rememberFor(task)
		//mutant:sweep-waits-for-effects
		if !task.State.Ended() || task.EndedAt.Add(its) >= by || busy[id] || t.replies.owes(task) || t.delays.owesEnd(task) {
			continue
		}
		//mutant:child-waits-for-its-release
		if b, kept := beforeForgotten(task); kept {
			if b != nil {
				swept.first = append(swept.first, &events.Fact{Task: id, Body: b, Cause: events.CauseTimer(id, task.Run, "", 0, events.TimerHorizon)})
			}
			continue
		}
		swept.Tasks = append(swept.Tasks, id)
		swept.EndedBefore = max(swept.EndedBefore, task.EndedAt+1)
		if its < remember {
			swept.ForgottenBefore = max(swept.ForgottenBefore, task.EndedAt+1)
		}
		if task.Schedule != "" || task.Parent != nil {
			//mutant:forgotten-start-is-noted
			swept.ScheduledForgottenBefore = max(swept.ScheduledForgottenBefore, task.EndedAt+1)
		}
	}
	return swept, len(swept.Tasks) == sweepBatch || (inFlight && len(ids) == sweepBatch), nil
}
