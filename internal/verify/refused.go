package verify

import "github.com/sagalog/sagalog/events"

// checkRefused checks that only a step that has a check fails by it.
func checkRefused(t *telling, b *events.StepFailed) {
	if b.Error.Class != events.ClassCheck && b.Output == nil {
		return
	}
	switch r := t.def.step(b.Step); {
	case r == nil || r.FailIf == "":
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "attempt %d completed and its result is refused, but the step has no fail_if", b.Attempt)
	case b.Effect == events.EffectNone:
		t.wrong(CheckUndo, "refused_without_effect", b.Step, "attempt %d completed and its result is refused, but it counts as one without effect", b.Attempt)
	}
}
