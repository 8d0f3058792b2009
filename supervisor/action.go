package supervisor

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// Action is something that the shell does for the owner. Actions are carried out in order. Generation counts the
// owner's epochs, including attempts to begin one: an answer to an older generation is dropped.
type Action interface{ action() }

// Load reads the partition's own log from the offset on, without an upper bound, and passes the records to LogRecords.
// It also asks for the end of the log, which goes to LogEnd as the answer to question 0.
type Load struct {
	Generation uint64
	From       int64
}

// PauseLog stops reading the partition's own log until ResumeLog.
type PauseLog struct{ Generation uint64 }

// ResumeLog reads the partition's own log again, from the offset on.
type ResumeLog struct {
	Generation uint64
	From       int64
}

// Claim appends this one record, with a new producer.
type Claim struct {
	Generation uint64
	Record     events.Record
}

// Append appends the records with this epoch's producer. All answers go to Appended, in any order.
type Append struct {
	Generation uint64
	Batch      uint64
	Records    []events.Record
}

// Commit writes state and offset in one batch (INV3). No later action is carried out before it has returned.
type Commit struct {
	Delta *events.Delta
	// Last is the last folded record: the store's anchor.
	Last events.Record
}

// ReadInputs reads the inputs from these offsets on and passes them to Input. It replaces any earlier ReadInputs.
type ReadInputs struct {
	Generation uint64
	From       map[events.Input]int64
}

// ReadFacts reads the records of events from From on and passes them to Replayed, together with the offset at which the read
// stopped: To, or less, because no more is read at once than fits in memory.
type ReadFacts struct {
	Generation uint64
	// Destination is the delayed destination that the records are read for; empty at a take-over.
	Destination string
	From, To    int64
}

// FetchInput reads one input again by its coordinates, because an effect needs its bytes, and passes it to Fetched.
type FetchInput struct {
	Generation uint64
	Cause      events.Cause
}

// Send produces an effect; its answer goes to Sent. The owner itself retries a dead letter that is refused.
type Send struct {
	Generation uint64
	// ID is zero if nothing waits for the answer: for an alert that no fact owes, and for a stop.
	ID   uint64
	Kind string
	// Topic is relative to the namespace: "work.<agent>", "alerts", an input, or "dlq." and an input; or RepliesPrefix and the full name of a
	// topic, in which the key of the record decides the partition.
	Topic  string
	Record events.Record
	// Within, if not zero, limits how long sending is tried: nobody needs the work of an attempt after its complete-by time.
	Within time.Duration
}

// AskEnds asks for the high watermarks of the inputs and passes them to Ends. The request must be sent
// after this action was returned.
type AskEnds struct {
	Generation uint64
	Question   uint64
}

// AskEnd asks for the end of the partition's own log and passes it to LogEnd. The request must be sent after this action was
// returned, and is repeated until there is an answer.
type AskEnd struct {
	Generation uint64
	Question   uint64
}

// AskCatalog asks for the definitions up to an end offset that is fetched after this action was returned, and passes
// them to Definitions.
type AskCatalog struct {
	Generation uint64
	Question   uint64
}

// Release stops the reads and the producer of the generation.
type Release struct{ Generation uint64 }

// Stop ends the ownership for good, with an error that an operator must see.
type Stop struct{ Err error }

func (Load) action()       {}
func (PauseLog) action()   {}
func (ResumeLog) action()  {}
func (Claim) action()      {}
func (Append) action()     {}
func (Commit) action()     {}
func (ReadInputs) action() {}
func (ReadFacts) action()  {}
func (FetchInput) action() {}
func (Send) action()       {}
func (AskEnds) action()    {}
func (AskEnd) action()     {}
func (AskCatalog) action() {}
func (Release) action()    {}
func (Stop) action()       {}
