package supervisor

import "errors"

var (
	// ErrInputLost is returned when the last input that the log passed is not where it was: the input topic lost
	// records or was filled anew. The partition stops, since going on could skip acknowledged submissions.
	ErrInputLost = errors.New("the input topic no longer holds the record that was judged last")
	// ErrFold is returned when the log cannot be folded: a record of an unknown kind, or a state that differs from
	// its recorded hash.
	ErrFold = errors.New("the log of the partition cannot be folded")
	// ErrPosition is what a Log returns for an offset that it does not hold: the log lost records, or was trimmed.
	ErrPosition = errors.New("the log does not hold that offset")
)
