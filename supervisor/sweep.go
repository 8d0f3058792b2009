package supervisor

import "github.com/sagalog/sagalog/events"

func (t *timers) sweepDue() (bool, error) {
	if t.now.Sub(t.sweptAt) < sweepEvery {
		return false, nil
	}
	ended, err := t.store.Ended(t.rememberedSince(t.now), 1)
	return err == nil && len(ended) > 0, nil
}

// sweep forgets tasks that ended longer ago than Settings.RememberFor. All inputs below end offsets that were requested after
// that time must have been judged and passed in this epoch, and the tasks may have no effect above the folded
// watermark. docs/protocol.md, "Sweeps and held requests".
func (t *timers) sweep(at events.Instant) error {
	//mutant:sweep-waits-for-ends
	before := t.rememberedSince(at)
	if before <= 0 || t.now.Sub(t.sweptAt) < sweepEvery {
		return nil
	}
	swept, more, err := t.sweepable(before)
	if err != nil {
		return err
	}
	if !more {
		t.sweptAt = t.now
	}
	if len(swept) == 0 {
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
	return t.record(&events.Fact{
		Body:  &events.TasksSwept{Tasks: swept, EndedBefore: before},
		Cause: events.CauseTimer("", 0, "", 0, events.TimerHorizon),
	}, nil)
}

// rememberedSince returns the time before which a task must have ended to be forgotten. While the log is ahead of the clock, because an
// earlier owner's clock was wrong, the clock counts: by the time of the log, every ended task could be days old.
func (t *timers) rememberedSince(at events.Instant) events.Instant {
	return min(at, t.read).Add(-t.settings().RememberFor.Std())
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

// sweepable returns some tasks that may be forgotten now, and whether there are more. The remaining tasks do not wait for the
// next interval, so that a partition that ends a thousand tasks a second can also forget a thousand a second.
func (t *timers) sweepable(before events.Instant) (swept []string, more bool, err error) {
	ids, err := t.store.Ended(before, sweepBatch)
	if err != nil || len(ids) == 0 {
		return nil, false, err
	}
	busy, inFlight := t.outbox.busy(), false
	for _, id := range ids {
		task, err := t.state.Task(id)
		if err != nil {
			return nil, false, err
		}
		if task == nil { // swept already, by a batch in flight
			inFlight = true
			continue
		}
		//mutant:sweep-waits-for-effects
		if task.State.Ended() && task.EndedAt < before && !busy[id] && !t.replies.owes(task) {
			swept = append(swept, id)
		}
	}
	return swept, len(swept) == sweepBatch || (inFlight && len(ids) == sweepBatch), nil
}
