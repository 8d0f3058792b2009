package scheduler

import "github.com/sagalog/sagalog/events"

// permitFacts returns the facts by which a task asks for its permit or gives it back before it ends, or gives back those of its steps; none if it
// does neither. It asks last, when nothing else keeps it from starting. One that is undone asks for none.
func permitFacts(t *events.Task) []events.Body {
	if list := events.UnneededPermits(t); len(list) > 0 {
		return list
	}
	if b := events.UnusedPermit(t); b != nil {
		return []events.Body{b}
	}
	forward := t.State == events.TaskStatePending || t.State == events.TaskStateProcessing
	if p := t.Permit; p != nil && p.State == "" && forward && t.Starts() {
		return []events.Body{events.AskPermit(t)}
	}
	return nil
}
