package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// Backlog returns the inputs that were read and not judged.
func (o *Owner) Backlog(in events.Input) int { return o.inbox.backlog(in) }

// DefinitionBytes returns how many bytes of the body of an adopted definition are in memory.
func (o *Owner) DefinitionBytes(hash string) int { return len(o.state.Definition(hash).Body) }

// Lingers is the length of the beats at which the owner should decide.
func (o *Owner) Lingers() time.Duration { return beatOf(o) }
