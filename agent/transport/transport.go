package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

// ErrClosed is returned by a Source that will never deliver again. It ends the run of its agent.
var ErrClosed = errors.New("the source of work requests is closed")

// FencedError ends the run of an instance when another live process has joined with its name. The other process has its partitions.
type FencedError struct{ Instance string }

func (e *FencedError) Error() string {
	return fmt.Sprintf("another process uses the instance name %q: give each its own (--node, or Config.Instance in Go)", e.Instance)
}

// Unwrap returns ErrClosed.
func (e *FencedError) Unwrap() error { return ErrClosed }

// Broker carries work requests to agents, and their reports back.
type Broker interface {
	// Open connects the agents of one instance. It creates whatever they lack at the broker.
	Open(ctx context.Context, o Opening) (*Link, error)
}

// Opening says who connects.
type Opening struct {
	Namespace, Instance string
	Agents              []string
	// Started is the start time in the instance's heartbeats. It distinguishes them from those of another process with the same name.
	Started time.Time
}

// Link is the connection of one instance.
type Link struct {
	// Sources holds the source of each agent.
	Sources map[string]Source
	Sink    Sink
	// Close gives up the partitions and closes sources and sink.
	Close func()
}

// Source delivers the work requests of one agent: a member of a consumer group on <ns>.work.<agent>.
//
// Poll and Assigned are called by one goroutine, Confirm, Commit and Partitions by others, at the same time.
type Source interface {
	// Poll waits for work requests and returns no more than the given number, the records of a partition in order. It returns
	// when ctx ends. It may return records together with an error. The slice is valid until the next Poll; the records' bytes may
	// be kept. While Poll is not called, the source must stop fetching and stay a member of its group.
	Poll(ctx context.Context, most int) ([]events.Record, error)
	// Assigned returns the state of a partition when it was assigned to this instance. It describes the assignment under which
	// the last Poll read.
	Assigned(partition int32) Assigned
	// Confirm asks the group which partitions still belong to this instance. It returns the assignment of each at the time of
	// the answer: no other instance had been assigned the partition by then. There is at most one call at a time.
	Confirm(ctx context.Context) (map[int32]int64, error)
	// Commit stores the positions whose assignment is still current, and returns them. They are durable then, and no other
	// instance was assigned the partition before. There is at most one call at a time.
	Commit(ctx context.Context, positions map[int32]Position) (map[int32]Position, error)
	// Partitions returns the partitions that are assigned now. It does not wait.
	Partitions() []int32
}

// Position says which requests of a partition are finished.
type Position struct {
	// Assignment identifies the assignment of the partition that the position belongs to. A Source never reuses one.
	Assignment int64
	// Next is the offset to read from next time.
	Next int64
	// Metadata is stored with it. It is at most 4096 bytes of text, and says which requests above Next are finished.
	Metadata string
}

// Assigned is the state of a partition when it was assigned.
type Assigned struct {
	// Position is the last committed position, by any instance.
	Position Position
	// Below the offset Shared, another instance may have read requests and may still be working on them. It is the end of the
	// partition, requested after the assignment, or 0 if no other instance ever had the partition.
	Shared int64
	// Lost says that the partition has lost records: records from LostFrom on may differ from the ones that were read or
	// committed before. Position is then not above LostFrom.
	Lost     bool
	LostFrom int64
}

// Sink is where reports and heartbeats go.
type Sink interface {
	// Produce passes a record, with topic and partition set, to a producer and returns without waiting for the broker (it may
	// wait for room in a buffer). done is called exactly once, from any goroutine, perhaps before Produce returns. Its error is
	// nil if the record is durable. Once ctx has ended Produce no longer waits for room, and a record that was not sent yet may
	// be dropped.
	Produce(ctx context.Context, r events.Record, done func(error))
}
