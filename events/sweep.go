package events

import "fmt"

// TasksSwept forgets finished tasks whose retention has ended.
type TasksSwept struct {
	Tasks []string `json:"tasks"`
	// EndedBefore is an upper bound for the times of the facts that ended them.
	EndedBefore Instant `json:"ended_before"`
	// ForgottenBefore is later than the end of each of them that was remembered for a shorter time than the settings say, because its
	// workflow says so; zero if there was no such task.
	ForgottenBefore Instant `json:"forgotten_before,omitzero"`
	// ScheduledForgottenBefore is later than the end of each of them that a schedule started; zero if there was no such task.
	ScheduledForgottenBefore Instant `json:"scheduled_forgotten_before,omitzero"`
}

func (s *State) sweep(b *TasksSwept) error {
	p := &s.Partition
	p.ForgottenBefore = max(p.ForgottenBefore, b.ForgottenBefore)
	p.ScheduledForgottenBefore = max(p.ScheduledForgottenBefore, b.ScheduledForgottenBefore)
	for _, id := range b.Tasks {
		t, err := s.Task(id)
		if err != nil {
			return err
		}
		if t == nil && s.Partition.Loading() {
			if err := s.Partition.leaveCarry(id, nil); err != nil {
				return err
			}
			continue
		}
		if t == nil || !t.State.Ended() {
			return fmt.Errorf("%w: swept task %q has not ended", ErrImpossible, id)
		}
		if err := s.Partition.leaveCarry(id, t); err != nil {
			return err
		}
		s.sum = s.sum.Sub(t.hash)
		s.tasks[id] = nil
		if t.keys != nil { // otherwise the store has no row for it, or the row of an earlier task that was swept since the last Flush
			s.swept[id] = sweptTask{t.keys, removals(t)}
		}
		s.dirtyOthers[id] = true
	}
	return nil
}
