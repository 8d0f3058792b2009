package agent

import (
	"encoding/json"
	"errors"

	"github.com/sagalog/sagalog/events"
)

// Keys opens and seals the content of tasks. It is safe for concurrent use. A panic in it becomes a failure of class internal.
type Keys interface {
	// Open returns a value with all sealed values in it opened. It returns an *events.ErasedError if the key of one was erased, which is a permanent
	// failure. With any other error the attempt is not made, and the engine asks again later.
	Open(value []byte) ([]byte, error)
	// SealLike seals a value for the subject of one that is sealed as a whole. It returns the value as it is if it is sealed as a whole
	// already.
	SealLike(like, value []byte) ([]byte, error)
}

// What comes of a sealed request is sealed for the same subject: output, progress, and the message and the detail of a failure. The function
// sees neither.

// unseal opens a request. It returns a failure if that is not possible.
func (q *request) unseal(keys Keys) *Failure {
	w := &q.work
	if !events.HasSealed(w.Input) && !events.HasSealed(w.Output) && !events.HasSealed(w.Progress) {
		return nil
	}
	if keys == nil {
		return &Failure{Class: events.ClassUnavailable, Effect: events.EffectNone, Code: "no_key",
			Err: errors.New("the input is sealed, and this agent has no key: start it with the key file of the nodes (--seal-key-file, or DialConfig.SealKeyFile)")}
	}
	if events.IsSealed(w.Input) {
		q.like = w.Input
	}
	for _, slot := range []*json.RawMessage{&w.Input, &w.Output, &w.Progress} {
		opened, err := keys.Open(*slot)
		if _, erased := errors.AsType[*events.ErasedError](err); erased {
			return &Failure{Class: events.ClassPermanent, Effect: events.EffectNone, Code: "erased", Err: err}
		}
		if err != nil {
			return keyFailure(err, events.ClassUnavailable, events.EffectNone)
		}
		*slot = opened
	}
	return nil
}

// seal seals what an attempt gave.
func (q *request) seal(keys Keys, t try) try {
	if q.like == nil {
		return t
	}
	if t.failure != nil {
		t.failure = q.sealFailure(keys, t.failure)
		return t
	}
	out := t.output
	if len(out) == 0 {
		return t
	}
	sealed, err := keys.SealLike(q.like, out)
	if err != nil {
		return try{failure: keyFailure(err, events.ClassPermanent, events.EffectDoneUnknown), doubt: t.doubt}
	}
	t.output = sealed
	return t
}

// sealFailure moves the message into the detail: it is whatever a service answered.
func (q *request) sealFailure(keys Keys, f *Failure) *Failure {
	clear := struct {
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail,omitempty"`
	}{Message: oneLine(f.Error())}
	if len(f.Detail) <= DetailLimit && json.Valid(f.Detail) {
		clear.Detail = f.Detail
	}
	out := *f
	out.Err, out.Detail = errors.New("the message is sealed, in error.detail"), nil
	text, err := events.Marshal(clear)
	if err == nil {
		out.Detail, err = keys.SealLike(q.like, text)
	}
	if err != nil {
		out.Err, out.Detail = errors.New("the message is left out: it cannot be sealed"), nil
	}
	return &out
}

// sealedRoom returns how long a value may be that is sealed within a limit: base64 takes a third more.
func (q *request) sealedRoom(limit int) int {
	if q == nil || q.like == nil {
		return limit
	}
	return limit/4*3 - sealedBytes
}

// sealedBytes is more than what a sealed value holds besides its text.
const sealedBytes = 128
