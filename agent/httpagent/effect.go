package httpagent

import "github.com/sagalog/sagalog/events"

const (
	// doneUnknown: the request is over, and may have had an effect.
	doneUnknown = events.EffectDoneUnknown
	// inDoubt: the service may still be working on the request.
	inDoubt = events.EffectInDoubt
)
