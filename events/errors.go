package events

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownFact is returned for a fact whose name this version does not know. The partition stops: skipping it
	// would fork the state.
	ErrUnknownFact = errors.New("unknown fact")
	// ErrReaderTooOld is returned at a VersionBarrier that requires a newer reader.
	ErrReaderTooOld = errors.New("this version cannot read the log from here on; run a newer version")
	// ErrStateHash is returned if the state differs from the hash that the owner recorded.
	ErrStateHash = errors.New("the state differs from the one that its owner recorded")
	// ErrRow is returned for a task that cannot be decoded as it was stored: no fact and no input is to blame for it.
	ErrRow = errors.New("a stored task cannot be decoded")
	// ErrImpossible is returned for an accepted fact that does not fit the state: a defect of the writer.
	ErrImpossible = errors.New("a fact does not fit the state")
	// ErrTooLarge is returned for a record, or a batch of records, of more bytes than its topic takes.
	ErrTooLarge = errors.New("larger than the topic takes")
)

// TooOld is ErrReaderTooOld for a build that understands levels up to its own and meets a higher one.
func TooOld(level, own int) error {
	return fmt.Errorf("%w: this takes level %d, and this build understands level %d: upgrade this node", ErrReaderTooOld, level, own)
}

// FaultError is an error with the form in which a fact records it.
type FaultError struct{ Fault Error }

// Error returns the message.
func (e *FaultError) Error() string { return e.Fault.Message }
