package supervisor

import "github.com/sagalog/sagalog/events"

// Backlog returns the inputs that were read and not judged.
func (o *Owner) Backlog(in events.Input) int { return o.inbox.backlog(in) }
