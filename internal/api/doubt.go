package api

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// doubtsNamed bounds the steps that are named as in doubt.
const doubtsNamed = 3

// parkedBecause is the reason why a task is parked and, unless the answer is to be brief, what it may have done.
func (s documents) parkedBecause(t *events.Task, reason string, brief bool) string {
	if brief { // a list has the reason beside it, and is narrow
		return reason
	}
	if doubts := s.doubts(t); doubts != "" {
		return strings.TrimPrefix(reason+"; "+doubts, "; ")
	}
	return reason
}

// doubts says of a parked task which failed steps may have taken effect all the same, with the keys by which their services know the calls. It
// returns "" if there are none. An operator has to find out before completing, skipping or terminating; a retry makes the same call again.
func (s documents) doubts(t *events.Task) string {
	if t.Undoing() {
		return "" // the decision is about an undo
	}
	var texts []string
	more := 0
	for _, x := range t.Live() {
		switch {
		case !x.Failed() || !x.Touched || x.Fan != nil || x.ByChild != nil || len(x.Output) > 0: // an output says that it took effect
			continue
		case len(texts) == doubtsNamed:
			more++
			continue
		}
		text := fmt.Sprintf("step %q may have taken effect", x.Path)
		if namespace, err := uuid.Parse(s.namespaceID); err == nil {
			w := events.Work{Task: t.ID, Ticket: t.Incarnation, Run: events.RunOf(x.Run), Step: x.Path}
			text += " (Idempotency-Key " + w.Key(namespace, events.Do) + ")"
		}
		texts = append(texts, text)
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and so may %d more", more))
	}
	return strings.Join(texts, ", ")
}
