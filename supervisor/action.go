package supervisor

import "github.com/sagalog/sagalog/events"

// Action is something that the shell does for the owner. Actions are carried out in the order in which they come
// out. Generation counts the owner's epochs and attempts at one: an answer to an older generation is dropped.
type Action interface{ action() }

// Load reads events from the offset on, with no end, and gives the records to Tail; and asks for the end, for Loaded.
type Load struct {
	Generation uint64
	From       int64
}

// RestTail ends the reading that Load began, until FollowTail begins it anew.
type RestTail struct{ Generation uint64 }

// FollowTail reads events from the offset on, as Load does.
type FollowTail struct {
	Generation uint64
	From       int64
}

// Claim appends the record alone, by a new producer.
type Claim struct {
	Generation uint64
	Record     events.Record
}

// Append appends the records by this epoch's producer. All answers go to Appended, in any order.
type Append struct {
	Generation uint64
	Batch      uint64
	Records    []events.Record
}

// Commit writes state and offset in one batch (INV3). It returns before the effects behind it are carried out.
type Commit struct {
	Delta *events.Delta
	// Last is the last folded record: the store's anchor.
	Last events.Record
}

// ReadInputs reads the inputs from these offsets on, for Input. It replaces every earlier reading of them.
type ReadInputs struct {
	Generation uint64
	From       map[events.Input]int64
}

// ReadFacts reads the records of events in [From, To) once, for Replayed.
type ReadFacts struct {
	Generation uint64
	From, To   int64
}

// FetchInput reads one input again by its coordinates, for Fetched: an effect needs its bytes.
type FetchInput struct {
	Generation uint64
	Cause      events.Cause
}

// Send produces an effect; its answer goes to Sent. A dead letter that is refused is tried again by the owner.
type Send struct {
	Generation uint64
	ID         uint64
	Kind       string
	// Topic is relative to the namespace: "work.<agent>", "alerts", an input, or "dlq." and an input.
	Topic  string
	Record events.Record
}

// AskEnds asks for the end offsets (read committed) of the inputs, for Ends. The question must reach the broker
// after this action came out.
type AskEnds struct {
	Generation uint64
	Question   uint64
}

// AskCatalog asks for definitions up to an end offset fetched after this action came out, for Definitions.
type AskCatalog struct {
	Generation uint64
	Question   uint64
}

// Release ends the reading and the producer of the generation.
type Release struct{ Generation uint64 }

// Stop ends the ownership for good with an error that an operator must see.
type Stop struct{ Err error }

func (Load) action()       {}
func (RestTail) action()   {}
func (FollowTail) action() {}
func (Claim) action()      {}
func (Append) action()     {}
func (Commit) action()     {}
func (ReadInputs) action() {}
func (ReadFacts) action()  {}
func (FetchInput) action() {}
func (Send) action()       {}
func (AskEnds) action()    {}
func (AskCatalog) action() {}
func (Release) action()    {}
func (Stop) action()       {}
