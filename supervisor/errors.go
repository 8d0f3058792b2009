package supervisor

import "errors"

var (
	// ErrInputLost is returned when the last judged input is no longer at its offset: the input topic lost records, or was
	// recreated. The partition stops, because going on could skip acknowledged submissions.
	ErrInputLost = errors.New("the input topic no longer holds the record that was judged last")
	// ErrFold is returned when the log cannot be folded: a record of an unknown kind, or a state that differs from
	// its recorded hash.
	ErrFold = errors.New("the log of the partition cannot be folded")
	// ErrPosition is what a Log returns for an offset that it does not hold: the log lost records, or was trimmed.
	ErrPosition = errors.New("the log does not hold that offset")
	// ErrClosed is returned by an owner of a partition that was closed: see events.NamespaceClosed.
	ErrClosed = errors.New("the namespace was closed, because it was copied")
	// ErrUnanswered is in the error with which a Log refuses a record if an earlier try of the same Send got no answer: that one may be in
	// the topic.
	ErrUnanswered = errors.New("refused after a try without an answer")
)
