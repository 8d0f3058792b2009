package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

var (
	// ErrInvalid is returned for a submission that cannot be used: a member is wrong, or the input does not fit the
	// workflow's schema. Sending it again does not help. Its *Error names each place.
	ErrInvalid = errors.New("the submission cannot be used")
	// ErrUnknownWorkflow is returned over HTTP for a workflow or version that is not known.
	ErrUnknownWorkflow = errors.New("the workflow is not known")
	// ErrConflict is returned over HTTP if the ID is taken by a submission with other content.
	ErrConflict = errors.New("the ID is taken by a submission with other content")
	// ErrTooLarge is returned for a submission above the limit.
	ErrTooLarge = errors.New("the submission is too large")
	// ErrUnavailable is returned when the log did not acknowledge in time. It may still hold the submission: submit it
	// again with the same ID.
	ErrUnavailable = errors.New("the log did not acknowledge the submission")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the client is closed")
)

// Error is a refusal with the places of the faults. errors.Is finds its kind.
type Error struct {
	// Kind is one of the sentinels of this package.
	Kind error
	// Detail is the engine's explanation.
	Detail string
	Places []Place
}

// Place is one fault and where it is.
type Place struct {
	// Pointer is a JSON pointer into the submission.
	Pointer string
	Message string
}

// Error returns the kind, the detail and all places.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Kind.Error())
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	for _, p := range e.Places {
		fmt.Fprintf(&b, "; %s: %s", p.Pointer, p.Message)
	}
	return b.String()
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

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
		into.Places = append(into.Places, Place{x.Pointer, x.Message})
	case interface{ Unwrap() []error }:
		for _, one := range x.Unwrap() {
			collect(one, into)
		}
	default:
		into.Places = append(into.Places, Place{Message: err.Error()})
	}
}
