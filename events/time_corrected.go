package events

import (
	"fmt"
	"time"
)

// TimeCorrected brings the time of a partition back to To, where a wrong clock had moved it ahead. It comes once for the partition, then once
// for each live task that has a fact of the wrong time, and once more for the partition, Settled.
type TimeCorrected struct {
	To Instant `json:"to"`
	// Settled says that no task is left.
	Settled bool `json:"settled,omitzero"`
}

// TimeCorrectable is how far the time of a partition must be ahead of the right time to be corrected.
const TimeCorrectable = time.Minute

// correctTime takes a TimeCorrected of the partition, or of a task.
func correctTime(s *State, f *Fact, b *TimeCorrected) error {
	if f.Task != "" {
		return s.foldTask(f)
	}
	p := &s.Partition
	if b.Settled {
		if p.Correcting == 0 || p.Correcting != b.To {
			return fmt.Errorf("%w: a correction to %s is settled, and the one that has begun is to %q", ErrImpossible, b.To, p.Correcting)
		}
		p.Correcting = 0
		return nil
	}
	if p.Correcting != 0 || b.To <= 0 || p.Time.Sub(b.To) <= TimeCorrectable {
		return fmt.Errorf("%w: the time is corrected from %s to %s", ErrImpossible, p.Time, b.To)
	}
	p.Time, p.Correcting = b.To, b.To
	for _, at := range []*Instant{&p.Since, &p.JumpedAt, &p.ForgottenBefore, &p.ScheduledForgottenBefore} {
		*at = min(*at, b.To)
	}
	correctPermits(s, b.To)
	p.correctCarries(b.To)
	for _, h := range s.Held() {
		latest := b.To.Add(p.Settings.HoldFor(h.Request.Kind).Std())
		//mutant:corrected-hold-ends
		if h.ExpiresAt > latest {
			cut := *h
			cut.ExpiresAt = latest
			s.held.put(&cut)
			s.touchPart(KindHeld, h.id())
		}
	}
	return nil
}

// correctTask takes a TimeCorrected of a task.
func correctTask(p *PartitionState, t *Task, b *TimeCorrected) error {
	if b.To != p.Correcting || b.Settled {
		return fmt.Errorf("%w: task %q is corrected to %s, and the time of the partition to %q", ErrImpossible, t.ID, b.To, p.Correcting)
	}
	t.corrected(b.To, &p.Settings)
	return nil
}

// corrected takes a TimeCorrected of the task. An instant that was set at the wrong time becomes one that is as far from the right time as it
// was from the time at which it was set. So everything lasts for its whole duration once more, and nothing comes earlier than it should. An
// instant that was set at the right time is right.
func (t *Task) corrected(to Instant, settings *Settings) {
	longest, grace := time.Duration(0), settings.Grace.Std()
	for _, s := range t.Steps {
		longest = max(longest, s.LastEnd().Sub(s.StartedAt))
		started := s.StartedAt
		at := times{to, s.Tries == 0 && s.CoolDowns == 0 && s.RetryAt <= t.UpdatedAt}
		if s.Wait != nil {
			s.Wait.correct(s.StartedAt, to)
		}
		at.correct(&s.StartedAt, &s.CompleteBy, &s.EndedAt, &s.RetryAt)
		s.correct(to)
		s.correctSoft(to)
		s.correctQuiet(to)
		s.correctProgress(started, to)
		if u := s.Undo; u != nil {
			at.reopened = u.Tries == 0 && u.RetryAt <= t.UpdatedAt
			at.correct(&u.StartedAt, &u.CompleteBy, &u.EndedAt, &u.RetryAt)
			u.correct(to)
		}
		if s.ByChild != nil {
			s.ByChild.AskedAt = min(s.ByChild.AskedAt, to)
		}
		s.change()
	}
	if t.Parent != nil {
		t.Parent.ToldAt = min(t.Parent.ToldAt, to)
	}
	// Nothing says which attempt it is of, but each of them has started by now.
	//mutant:corrected-doubt-lasts
	t.QuietAt = min(t.QuietAt, to.Add(longest+grace))
	correctTimes(t, to)
	if wait := settings.RemindAfter.Std(); wait > 0 { // the latest one may have come at the wrong time
		t.RemindAt = min(t.RemindAt, to.Add(wait))
	}
	correctStepPermits(t, to, grace)
	t.HaltedAt = min(t.HaltedAt, to)
	if t.Permit != nil {
		t.Permit.At, t.Permit.BlockedAt = min(t.Permit.At, to), min(t.Permit.BlockedAt, to)
	}
	if t.Paused != nil {
		t.Paused.Since = min(t.Paused.Since, to)
	}
	t.SubmittedAt, t.ParkedAt, t.ReopenedAt, t.UpdatedAt = min(t.SubmittedAt, to), min(t.ParkedAt, to), min(t.ReopenedAt, to), to
}

// times corrects the instants of the latest attempt of a step, or of its undo.
type times struct {
	to Instant
	// reopened says that an operator let the next attempt start at once.
	reopened bool
}

func (at times) correct(started, completeBy, ended, retryAt *Instant) {
	//mutant:corrected-attempt-has-all-its-time
	*completeBy = lasting(*completeBy, *started, at.to)
	if at.reopened {
		*retryAt = min(*retryAt, at.to)
	}
	//mutant:corrected-retry-waits
	*retryAt = lasting(*retryAt, *ended, at.to)
	//mutant:corrected-attempt-is-of-an-earlier-epoch
	*started = min(*started, at.to)
	*ended = min(*ended, at.to)
}

// lasting returns where an instant goes that was set at another one.
func lasting(x, set, to Instant) Instant {
	if set <= to || x <= to {
		return x
	}
	return to.Add(max(x.Sub(set), 0))
}

// Times returns when the running attempt of a step started, and its complete-by time; zero if that attempt is not running.
func (t *Task) Times(path string, op Operation, attempt int) (started, completeBy Instant) {
	if !t.Running(path, op, attempt) {
		return 0, 0
	}
	s := t.Step(path)
	if op == Undo {
		return s.Undo.StartedAt, s.Undo.CompleteBy
	}
	return s.StartedAt, s.CompleteBy
}
