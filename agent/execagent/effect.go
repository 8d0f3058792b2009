package execagent

import "github.com/sagalog/sagalog/events"

const (
	// doneUnknown: the command is over, and may have had an effect.
	doneUnknown = events.EffectDoneUnknown
	// inDoubt: the command was cut off, and what it had sent may still be carried out.
	inDoubt = events.EffectInDoubt
)
