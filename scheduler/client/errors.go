package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// The kinds of errors. errors.Is finds them.
var (
	// ErrInvalid is returned for a submission, request or definition that cannot be used: a member is wrong, or the input does not fit
	// the workflow's schema. Sending it again does not help. Its *Error names each place.
	ErrInvalid = errors.New("not valid")
	// ErrUnknownWorkflow is returned over HTTP and by Engine.Accepted for a workflow or version that is not known.
	ErrUnknownWorkflow = errors.New("the workflow is not known")
	// ErrNotFound is returned for a task that is not known: nobody submitted it, or it ended so long ago that it was forgotten.
	ErrNotFound = errors.New("not found")
	// ErrConflict is returned over HTTP and by Engine.Accepted if the ID of a submission or request is taken by one with other content.
	ErrConflict = errors.New("the ID is taken by other content")
	// ErrRefused is returned for a request that the task's state does not allow, such as a cancel past the pivot. Its *Error has the
	// Reason and the State.
	ErrRefused = errors.New("refused")
	// ErrUnauthorized is returned if the engine needs a token and got none that is valid.
	ErrUnauthorized = errors.New("the token is missing or not valid")
	// ErrForbidden is returned if the role of the token does not include the call.
	ErrForbidden = errors.New("the token's role does not include this")
	// ErrTooLarge is returned for a body above the limit.
	ErrTooLarge = errors.New("too large")
	// ErrUnavailable is returned when no answer came in time. What was sent may have taken effect, or may do so later: send it again with
	// the same ID. If a context ended, errors.Is finds its cause too.
	ErrUnavailable = errors.New("no answer in time")
	// ErrClosed is returned after Close. Nothing was sent.
	ErrClosed = errors.New("the client is closed")
)

// Error is a refusal with the places of the faults. errors.Is finds its kind.
type Error struct {
	// Kind is one of the sentinels of this package.
	Kind error
	// Call is the method, the URL and the status of the answer; empty if the refusal did not come as an answer to a call.
	Call string
	// Detail is the engine's explanation.
	Detail string
	// Reason says why a request was refused, and State is that of its task.
	Reason string
	State  State
	Places []Place

	// code is that of the engine's problem document.
	code string
}

// Place is one fault and where it is.
type Place struct {
	// Pointer is a JSON pointer into the submission, request or definition, or the name of a parameter.
	Pointer string
	Message string
	// Line and Column count from 1 in the text of a definition; 0 if the place has none.
	Line, Column int
}

// Error returns the call, the kind, the detail and all places.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Call != "" {
		b.WriteString(e.Call + ": ")
	}
	b.WriteString(e.Kind.Error())
	switch {
	case e.Kind == ErrRefused && e.Reason != "":
		b.WriteString(": " + e.Reason)
	case e.Detail != "":
		b.WriteString(": " + e.Detail)
	}
	for _, p := range e.Places {
		b.WriteString("; ")
		if p.Line > 0 {
			fmt.Fprintf(&b, "%d:%d ", p.Line, p.Column)
		}
		if p.Pointer != "" {
			b.WriteString(p.Pointer + ": ")
		}
		b.WriteString(p.Message)
	}
	return b.String()
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// checkTask refuses an ID that no task can have.
func checkTask(id string) error {
	if err := events.CheckTaskID(id); err != nil {
		return invalid(err)
	}
	return nil
}

// invalid converts the findings of a parser of events to an *Error.
func invalid(err error) error {
	e := &Error{Kind: ErrInvalid}
	collect(err, e)
	return e
}

func collect(err error, into *Error) {
	switch x := err.(type) {
	case nil:
	case *events.MemberError:
		into.Places = append(into.Places, Place{Pointer: x.Pointer, Message: x.Message})
	case interface{ Unwrap() []error }:
		for _, one := range x.Unwrap() {
			collect(one, into)
		}
	default:
		into.Places = append(into.Places, Place{Message: err.Error()})
	}
}
