package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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

// keyPatience bounds how long an attempt waits for its keys. Reading the topic of keys takes two seconds at most.
const keyPatience = 10 * time.Second

// mostUnanswered bounds the calls of Keys that nobody waits for any more: each holds a goroutine.
const mostUnanswered = 100

var unanswered atomic.Int64

// open opens a value. If the keys do not answer in time, it is not known what the value holds.
func open(keys Keys, value []byte) ([]byte, error) {
	if !events.HasSealed(value) {
		return value, nil
	}
	if unanswered.Load() >= mostUnanswered {
		return nil, &events.NoKeyError{Reason: "earlier calls of the keys have not returned"}
	}
	type opened struct {
		value []byte
		err   error
	}
	answer := make(chan opened, 1)
	go func() {
		out, err := keys.Open(value)
		answer <- opened{out, err}
	}()
	patience := time.NewTimer(keyPatience)
	defer patience.Stop()
	select {
	case a := <-answer:
		return a.value, a.err
	case <-patience.C:
		unanswered.Add(1)
		go func() {
			<-answer
			unanswered.Add(-1)
		}()
		return nil, &events.NoKeyError{Reason: fmt.Sprintf("the keys did not answer within %s", keyPatience)}
	}
}

// missedKeys remembers the keys that requests of an agent needed and its process lacks.
type missedKeys struct {
	mu sync.Mutex
	// at says when each was missed last.
	at map[string]time.Time
}

// A key is announced for missedFor after it was last missed, and the announcement names mostMissed at most.
const (
	missedFor  = time.Minute
	mostMissed = 20
)

// note remembers what a failure to open a request says, and returns whether it says that a key is missing.
func (m *missedKeys) note(f *Failure, now time.Time) bool {
	if f == nil || f.Code != events.CodeNoKey {
		return false
	}
	id := events.NoKeys
	if why, ok := errors.AsType[*events.NoKeyError](f.Err); ok && why.Missing != "" {
		id = why.Missing
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]time.Time{}
	}
	if _, known := m.at[id]; known || len(m.at) < mostMissed {
		m.at[id] = now
	}
	return true
}

// list returns the keys that were missed lately, in order.
func (m *missedKeys) list(now time.Time) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.at, func(_ string, at time.Time) bool { return now.Sub(at) > missedFor })
	return slices.Sorted(maps.Keys(m.at))
}

// What comes of a sealed request is sealed for the same subject: output, progress, and the message and the detail of a failure. The function
// sees neither.

// unseal opens a request. It returns a failure if that is not possible.
func (q *request) unseal(keys Keys) *Failure {
	w := &q.work
	if !events.HasSealed(w.Input) && !events.HasSealed(w.Output) && !events.HasSealed(w.Progress) {
		return nil
	}
	q.secret = true
	if keys == nil {
		return &Failure{Class: events.ClassUnavailable, Effect: events.EffectNone, Code: events.CodeNoKey,
			Err: errors.New("the input is sealed, and this agent has no key: start it with the key file of the nodes (--seal-key-file, or DialConfig.SealKeyFile)")}
	}
	if events.IsSealed(w.Input) {
		q.like = w.Input
	}
	for _, slot := range []*json.RawMessage{&w.Input, &w.Output, &w.Progress} {
		opened, err := open(keys, *slot)
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
