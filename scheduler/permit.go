package scheduler

import "github.com/sagalog/sagalog/events"

// permitFact returns the fact by which a task asks for its permit or gives it back before it ends, nil if it does neither. It asks last, when
// nothing else keeps it from starting, and gives back what it does not use: one that an operator paused before its first step, or one that is
// parked, if its workflow says so, and of which no attempt runs. One that is undone asks for none, and waits for none.
func permitFact(t *events.Task) events.Body {
	p := t.Permit
	if p == nil {
		return nil
	}
	running, _ := t.RunningStep()
	switch forward := t.State == events.TaskStatePending || t.State == events.TaskStateProcessing; {
	case p.State == "":
		if forward && t.Starts() {
			return t.AskPermit()
		}
	//mutant:paused-before-start-releases
	case t.Paused != nil && len(t.Steps) == 0,
		//mutant:undone-waits-for-no-permit
		p.State == events.PermitStateAsked && t.State == events.TaskStateUndoing,
		//mutant:parked-releases-when-nothing-runs
		p.Parked == events.PermitRelease && t.State == events.TaskStateError && running == nil:
		return t.OpenPermit()
	}
	return nil
}
