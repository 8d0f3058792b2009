package events

import (
	"encoding/json"
	"fmt"
)

// MinHeartbeat is the shortest heartbeat of a step: each leads to a fact.
const MinHeartbeat = Duration(5e9)

// StepProgressed says that a running attempt with a heartbeat has shown progress. It does not count towards the facts of a task.
type StepProgressed struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// CompleteBy is the end of the attempt unless it shows progress again: not before the end that its agent knows of.
	CompleteBy Instant `json:"complete_by"`
	// Progress is what the agent said; absent if it said nothing, or too much. The earlier progress then stays.
	Progress json.RawMessage `json:"progress,omitempty"`
	Instance string          `json:"instance,omitempty"`
}

// ActsUntil returns the end of an attempt as its agent knows it, from the instant just before the agent sent the last progress that was
// acknowledged, by the agent's clock. An acknowledgement that comes after the end changes nothing any more.
func (w *Work) ActsUntil(sent Instant) Instant {
	return max(w.CompleteBy, min(sent.Add(w.Heartbeat.Std()), w.CapBy))
}

// LastEnd returns the time after which the latest attempt cannot act any more, whatever progress it shows that nobody judges.
func (s *Step) LastEnd() Instant { return max(s.CompleteBy, s.CapBy) }

// ExtendedBy returns the complete-by time that progress of the running attempt leads to when it is judged at the given instant, and false if
// that needs no fact. No progress that is judged in the heartbeat after a fact needs another: the complete-by time of that fact is late
// enough for the agent, which counts from an earlier instant than the owner.
func (s *Step) ExtendedBy(now Instant) (Instant, bool) {
	beat := s.Heartbeat.Std()
	//mutant:passed-progress-is-covered
	if s.CompleteBy >= min(now.Add(beat), s.CapBy) && s.ProgressedAt != 0 && now < s.ProgressedAt.Add(beat) {
		return s.CompleteBy, false
	}
	//mutant:one-fact-each-heartbeat
	//mutant:progress-extends-from-judging
	return max(s.CompleteBy, min(now.Add(2*beat), s.CapBy)), true
}

// stepProgressed takes a StepProgressed of the task.
func stepProgressed(t *Task, f *Fact, b *StepProgressed) error {
	s, err := t.attempt(b.Step, Do, b.Attempt)
	if err != nil {
		return err
	}
	if s.Heartbeat == 0 || b.CompleteBy < s.CompleteBy || b.CompleteBy > s.CapBy {
		return fmt.Errorf("%w: the complete-by time of attempt %d of step %q is extended from %s to %s, and its cap is %q", ErrImpossible, b.Attempt, b.Step, s.CompleteBy, b.CompleteBy, s.CapBy)
	}
	t.Facts-- // the heartbeat and the cap of the attempt bound them
	s.CompleteBy, s.ProgressedAt = b.CompleteBy, f.Time
	if len(b.Progress) > 0 {
		s.Progress = b.Progress
	}
	return nil
}

// correctProgress corrects the complete-by time and the cap of a latest attempt with a heartbeat, which started at the given instant. An attempt
// that started, or showed progress, at the wrong time may go on for two heartbeats from the right time, as after progress.
func (s *Step) correctProgress(started, to Instant) {
	if s.Heartbeat == 0 {
		return
	}
	s.CapBy = lasting(s.CapBy, started, to)
	if max(started, s.ProgressedAt) > to {
		s.CompleteBy = min(to.Add(2*s.Heartbeat.Std()), s.CapBy)
	}
	s.ProgressedAt = min(s.ProgressedAt, to)
}
