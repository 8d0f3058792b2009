package events

// The kinds of effects.
const (
	EffectWork       = "work"
	EffectDeadLetter = "dead_letter"
	EffectForward    = "forward"
	EffectAlert      = "alert"
	EffectReply      = "reply"
	// EffectPermit is an ask, a grant or a release of a permit.
	EffectPermit = "permit"
	// EffectStart is the submission of a task that another entity starts, and EffectEnd tells that entity how the task ended.
	EffectStart = "start"
	// EffectChild is what a parent says to its child after that, in the same topic.
	EffectChild = "child"
	EffectEnd   = "end"
	// EffectCancel asks such a task to cancel.
	EffectCancel = "cancel"
)

// EffectFailed says that the broker refused an effect for good, so the watermark may pass it. A dead letter is never given
// up. The effect of this fact is an alert, unless the refused effect was one.
type EffectFailed struct {
	// Of is the position of the fact that the effect belongs to.
	Of Position `json:"of"`
	// Kind is one of the effect kinds.
	Kind  string `json:"kind" schema:"words:Effect*+!EffectStop"`
	Error string `json:"error"`
	// Failed is the failure of the attempt, if the effect was the work request of a do that is still running.
	Failed *StepFailed `json:"failed,omitempty"`
	// CompensationFailed is the same for the work request of an undo.
	CompensationFailed *CompensationFailed `json:"undo_failed,omitempty"`
	// Input names the input, if the effect was to forward it. The input then becomes a dead letter, as another effect of this
	// fact.
	Input Cause `json:"input,omitempty"`
	// ScheduleEnded is set if the effect was to submit the task of a schedule: the task will never run.
	ScheduleEnded *ScheduleTaskEnded `json:"schedule_ended,omitempty"`
}

// EffectsDelayed says that a destination has not taken its effects for a while. The watermark does not wait for them any more.
// The effects after the position After stay owed until a later EffectsDelayed or EffectsCaughtUp for it. See Destination.
type EffectsDelayed struct {
	Destination string `json:"destination"`
	// After is the position up to which all effects for the destination are acknowledged; zero: before all facts.
	After Position `json:"after,omitzero"`
}

// EffectsCaughtUp says that a destination has taken all its effects up to the watermark. The watermark covers it again.
type EffectsCaughtUp struct {
	Destination string `json:"destination"`
}
