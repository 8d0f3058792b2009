package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sagalog/sagalog/events"
)

// Failure is an error together with what the engine must know of it. Handlers usually build one with Permanent,
// NoEffect and RetryAfter; any other error is retryable and of unknown effect, the safe reading.
type Failure struct {
	Class  events.Class
	Effect events.Effect
	// Code is a short word for machines, such as "http_503"; may be empty.
	Code string
	// Detail is user data: what the remote service answered, as JSON.
	Detail json.RawMessage
	// RetryAfter is how long the remote service asked to be left alone; zero where it did not.
	RetryAfter time.Duration
	// Err is the cause; its text is the message that the engine shows.
	Err error
}

// Error returns the cause's text.
func (f *Failure) Error() string {
	if f.Err == nil {
		return string(f.Class)
	}
	return f.Err.Error()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Permanent says that no retry can mend err (MISSION C6): the task goes to its error path at once.
func Permanent(err error) error {
	return amend(err, func(f *Failure) { f.Class = events.ClassPermanent })
}

// NoEffect promises that the attempt changed nothing outside. The engine then has nothing to undo for it, so
// promise it only where that is certain.
func NoEffect(err error) error {
	return amend(err, func(f *Failure) { f.Effect = events.EffectNone })
}

// RetryAfter says that err may be gone after d.
func RetryAfter(err error, d time.Duration) error {
	return amend(err, func(f *Failure) { f.RetryAfter = max(0, d) })
}

// amend wraps err, so that its message stays whole, and keeps what inner wrappings said.
func amend(err error, change func(*Failure)) error {
	if err == nil {
		return nil
	}
	f := failureOf(err)
	change(f)
	return f
}

// failureOf returns a Failure of its own for any error. The message is that of the outermost error, since
// fmt.Errorf around a Permanent adds what the reader needs.
func failureOf(err error) *Failure {
	f := Failure{Class: events.ClassRetryable, Effect: events.EffectUnknown}
	var inner *Failure
	if errors.As(err, &inner) {
		f = *inner
		switch f.Class {
		case events.ClassRetryable, events.ClassPermanent, events.ClassInternal:
		case "":
			f.Class = events.ClassRetryable
		default:
			// The other classes are the engine's to give.
			f.Class = events.ClassInternal
		}
		if f.Effect == "" {
			f.Effect = events.EffectUnknown
		}
	}
	f.Err = err
	return &f
}

// refusal is a permanent failure before anything was done.
func refusal(code string, err error) *Failure {
	return &Failure{Class: events.ClassPermanent, Effect: events.EffectNone, Code: code, Err: err}
}

// report returns the failure as the engine's wire format has it.
func (f *Failure) report() *events.Error {
	e := &events.Error{Class: f.Class, Code: f.Code, Message: oneLine(f.Error())}
	if len(f.Detail) <= detailLimit && json.Valid(f.Detail) {
		e.Detail = f.Detail
	}
	return e
}

// detailLimit bounds Detail. A problem document fits many times over; what is larger is not an explanation.
const detailLimit = 16 << 10

// messageLimit keeps a message readable in a table and far below the limits of a record. What is longer belongs
// into Detail.
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
	if len(s) <= messageLimit {
		return s
	}
	cut := messageLimit - len("...")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// ended reports whether ctx is over, and returns why.
func ended(ctx context.Context) (error, bool) {
	if ctx.Err() == nil {
		return nil, false
	}
	return context.Cause(ctx), true
}
