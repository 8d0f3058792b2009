package supervisor

import (
	"encoding/json"
	"errors"

	"github.com/sagalog/sagalog/events"
)

// Keys seals what the owner writes, and opens what it compares. It is safe for concurrent use, and returns at once.
type Keys interface {
	// Open returns a value with all sealed values in it opened. The error is an *events.NoKeyError if that is not possible now.
	Open(value []byte) ([]byte, error)
	// SealLike seals a value for the subject of one that is sealed as a whole. It returns the value as it is if it is sealed for that subject
	// already. The error is an *events.NoKeyError if that is not possible now.
	SealLike(like, value []byte) ([]byte, error)
}

// A task whose input is sealed is sealed: whatever users put into it, and whatever is computed from that, is sealed for the same subject before
// it becomes a fact. Only then, so that everything is decided about content, and so that nothing else depends on how it is sealed: sealing
// gives other bytes each time.

// seal seals the content of a fact of a sealed task. The error is an *events.NoKeyError.
func (c *core) seal(t *events.Task, f *events.Fact) error {
	if c.cfg.Keys == nil || t == nil || !events.IsSealed(t.Input) {
		return nil
	}
	for _, slot := range contentOf(f.Body) {
		if len(*slot) == 0 {
			continue
		}
		sealed, err := c.cfg.Keys.SealLike(t.Input, *slot)
		if why, passes := errors.AsType[*events.NoKeyError](err); passes {
			return why
		}
		if err == nil { // without any key the value stays as it came: losing it would be worse
			*slot = sealed
		}
	}
	return nil
}

// contentOf returns the content of users in a fact.
func contentOf(body events.Body) []*json.RawMessage {
	switch b := body.(type) {
	case *events.StepStarted:
		return []*json.RawMessage{&b.Input, &b.Progress}
	case *events.StepCompleted:
		return []*json.RawMessage{&b.Output}
	case *events.StepFailed:
		return []*json.RawMessage{&b.Output, &b.Error.Detail}
	case *events.StepSkipped:
		return []*json.RawMessage{&b.Output}
	case *events.StepProgressed:
		return []*json.RawMessage{&b.Progress}
	case *events.CompensationStarted:
		return []*json.RawMessage{&b.Input, &b.Output}
	case *events.CompensationFailed:
		return []*json.RawMessage{&b.Error.Detail}
	case *events.SignalReceived:
		return []*json.RawMessage{&b.Payload}
	case *events.TaskReopened:
		return []*json.RawMessage{&b.With}
	case *events.TaskRerun:
		return []*json.RawMessage{&b.Input}
	case *events.ChildAnswered:
		return []*json.RawMessage{&b.Answer.Output}
	case *events.TaskProcessed:
		return []*json.RawMessage{&b.Output}
	}
	return nil
}
