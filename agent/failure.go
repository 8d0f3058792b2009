package agent

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/sagalog/sagalog/events"
)

// Failure is an error with the details that the engine needs. Functions usually build one with Permanent, NoEffect, Ended and
// RetryAfter. Any other error is retryable and in doubt, which is always safe.
type Failure struct {
	Class  events.Class
	Effect events.Effect
	// Code is a short word for machines, such as "http_503"; may be empty.
	Code string
	// Detail is user data: the remote service's answer, as JSON.
	Detail json.RawMessage
	// RetryAfter is how long the remote service asked to be left alone; zero if it did not.
	RetryAfter time.Duration
	// Err is the cause; its text is the message that the engine shows.
	Err error
}

// Error returns the cause's text.
func (f *Failure) Error() string {
	if f == nil {
		return "a nil *agent.Failure"
	}
	if f.Err == nil {
		return string(f.Class)
	}
	return f.Err.Error()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error {
	if f == nil {
		return nil
	}
	return f.Err
}

// Permanent says that no retry can fix err: the task goes to its error path at once.
func Permanent(err error) error {
	return amend(err, func(f *Failure) { f.Class = events.ClassPermanent })
}

// NoEffect promises that the attempt changed nothing outside. The engine then does not undo it, so promise it only if it is
// certain.
func NoEffect(err error) error {
	return amend(err, func(f *Failure) { f.Effect = events.EffectNone })
}

// Ended promises that nothing of the attempt is under way any more, though it may have changed something outside. The engine may
// then undo it at once. Without Ended an undo waits until the attempt's complete-by time and the grace are over, because a request
// whose answer never came may still be carried out.
func Ended(err error) error {
	return amend(err, func(f *Failure) { f.Effect = events.EffectDoneUnknown })
}

// RetryAfter says that a retry after d may succeed.
func RetryAfter(err error, d time.Duration) error {
	return amend(err, func(f *Failure) { f.RetryAfter = max(0, d) })
}

// amend wraps err with its full message, and keeps the properties that inner wrappers set.
func amend(err error, change func(*Failure)) error {
	if err == nil {
		return nil
	}
	f := failureOf(err)
	change(f)
	return f
}

// failureOf returns a new Failure for any error. The message comes from the outermost error, since fmt.Errorf around a
// Permanent adds context for the reader.
func failureOf(err error) *Failure {
	f := Failure{Class: events.ClassRetryable, Effect: events.EffectInDoubt}
	var inner *Failure
	if errors.As(err, &inner) && inner != nil {
		f = *inner
		switch f.Class {
		case events.ClassRetryable, events.ClassPermanent, events.ClassInternal:
		case "":
			f.Class = events.ClassRetryable
		default:
			// Agents do not use the other classes, only the engine does.
			f.Class = events.ClassInternal
		}
		if f.Effect == "" {
			f.Effect = events.EffectInDoubt
		}
		f.RetryAfter = min(f.RetryAfter, retryAfterMax)
	}
	f.Err = err
	return &f
}

// refusal is a permanent failure before anything was done.
func refusal(code string, err error) *Failure {
	return &Failure{Class: events.ClassPermanent, Effect: events.EffectNone, Code: code, Err: err}
}

// report returns the failure in the engine's wire format.
func (f *Failure) report() *events.Error {
	e := &events.Error{Class: f.Class, Code: f.Code, Message: oneLine(f.Error())}
	if (len(f.Detail) <= DetailLimit || events.IsSealed(f.Detail)) && json.Valid(f.Detail) {
		e.Detail = f.Detail
	}
	return e
}

// DetailLimit bounds Failure.Detail in bytes; a longer one is dropped. A problem document is far smaller, and a longer text
// does not explain anything.
const DetailLimit = 16 << 10

// messageLimit keeps a message readable in a table and far below the size limit of a record. Longer text belongs in Detail.
const messageLimit = 1024

// oneLine makes any text fit for a log line: valid UTF-8, no control characters, bounded.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	return events.Clip(s, messageLimit-len("..."))
}

// retryAfterMax bounds the delay that a remote service may request. A day exceeds every sensible deadline, and a garbled header
// must not park a task for years.
const retryAfterMax = 24 * time.Hour
