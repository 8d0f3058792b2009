package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/sagalog/sagalog/events"
)

// An error that a function returns is code of the user: its methods may panic, or say something else when they are called again. So they are called
// in settle alone, and whatever comes later reads what they said there.

// settled is the cause of a failure, with what its methods said.
type settled struct {
	text string
	// late says that the function gave up because its time was over.
	late bool
	err  error
}

// Error returns the text.
func (s *settled) Error() string { return s.text }

// Unwrap returns the error of the function, for a Trace.
func (s *settled) Unwrap() error { return s.err }

// settle returns a new Failure for an error that a function returned. An error that cannot be read is a mistake in the program, and of class
// internal.
func settle(err error) (f *Failure) {
	defer func() {
		if p := recover(); p != nil {
			f = broken("panic", fmt.Errorf("a method of the error that was returned (%T) panicked: %v", err, p))
		}
	}()
	if is, of := nilPointer(err); is {
		return broken("nil_error", fmt.Errorf("a nil %s was returned as the error, which is not a nil error: return nil itself for success", of))
	}
	f = failureOf(err)
	f.Err = &settled{
		text: cmp.Or(f.Err.Error(), fmt.Sprintf("the error has no text (%T)", err)),
		late: errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrCompleteBy), err: err,
	}
	return f
}

// nilPointer says whether an error, or the error in a Failure, is a nil pointer, and of which type.
func nilPointer(err error) (is bool, of reflect.Type) {
	for err != nil {
		if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
			return true, v.Type()
		}
		f, ok := err.(*Failure)
		if !ok {
			return false, nil
		}
		err = f.Err
	}
	return false, nil
}

// late says whether the function gave up because its time was over.
func (f *Failure) late() bool {
	s, ok := f.Err.(*settled)
	return ok && s.late
}

// broken is the failure of a program that does what it must not.
func broken(code string, err error) *Failure {
	return &Failure{Class: events.ClassInternal, Effect: events.EffectInDoubt, Code: code, Err: err}
}

// exited is the failure of an attempt whose goroutine ended.
func exited() *Failure {
	return broken("goexit", errors.New("the function called runtime.Goexit, as t.FailNow does: return an error instead"))
}

// safeKeys calls Keys of the user: what panics, or returns an error that cannot be read, is a failure of class internal.
type safeKeys struct{ keys Keys }

// Open implements Keys.
func (s safeKeys) Open(value []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, broken("panic", fmt.Errorf("Keys.Open panicked: %v", p))
		}
	}()
	out, err = s.keys.Open(value)
	return out, readable(err)
}

// SealLike implements Keys.
func (s safeKeys) SealLike(like, value []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, broken("panic", fmt.Errorf("Keys.SealLike panicked: %v", p))
		}
	}()
	out, err = s.keys.SealLike(like, value)
	return out, readable(err)
}

// readable returns an error whose methods do not panic, for one of the user.
func readable(err error) error {
	if err == nil {
		return nil
	}
	f := settle(err)
	if f.Class == events.ClassInternal {
		return f
	}
	return f.Err
}

// keyFailure is the failure of an attempt whose content cannot be opened or sealed. The class is that of any other error than a mistake in the Keys.
func keyFailure(err error, class events.Class, effect events.Effect) *Failure {
	if f, ok := err.(*Failure); ok {
		return &Failure{Class: f.Class, Effect: effect, Code: f.Code, Err: f.Err}
	}
	return &Failure{Class: class, Effect: effect, Code: events.CodeNoKey, Err: err}
}
