package scheduler

import "github.com/sagalog/sagalog/events"

// permitFact returns the fact by which a task asks for its permit or gives it back before it ends, or gives back one of its steps'; nil if it
// does neither. It asks last, when nothing else keeps it from starting. One that is undone asks for none.
func permitFact(t *events.Task) events.Body {
	if b := events.UnneededPermit(t); b != nil {
		return b
	}
	if b := events.UnusedPermit(t); b != nil {
		return b
	}
	forward := t.State == events.TaskStatePending || t.State == events.TaskStateProcessing
	if p := t.Permit; p != nil && p.State == "" && forward && t.Starts() {
		return events.AskPermit(t)
	}
	return nil
}
