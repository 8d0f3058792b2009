package scheduler

import "github.com/sagalog/sagalog/events"

// Redone returns the steps that run once more if the task is rerun from a step: that one, those that are not over, and all that need
// one of these. If from is empty, all steps run once more. Steps that never started are not among them.
func (s *Scheduler) Redone(t *events.Task, from string) (paths []string) {
	p := s.Program(t.Definition)
	if p == nil {
		return nil
	}
	redone := map[string]bool{}
	for more := true; more; {
		more = false
		for i := range p.steps {
			step := p.steps[i].step
			if !redone[step.ID] && (from == "" || step.ID == from || !over(t.Step(step.ID)) || anyOf(redone, step.Needs)) {
				redone[step.ID], more = true, true
			}
		}
	}
	for _, at := range t.Steps {
		if redone[at.Path] {
			paths = append(paths, at.Path)
		}
	}
	return paths
}

func anyOf(set map[string]bool, ids []string) bool {
	for _, id := range ids {
		if set[id] {
			return true
		}
	}
	return false
}
