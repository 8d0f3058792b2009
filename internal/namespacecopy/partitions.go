package namespacecopy

import (
	"context"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// Partitions is the part of a copy that turns the states of the old partitions into the records of the new ones. It needs no cluster, so that the
// simulator copies with the same code.
type Partitions struct {
	// From and To are the names of the namespaces, and ID is that of both.
	From, To, ID string
	// Old are the states of the old partitions, in their order.
	Old []Partition
	// Definitions are the records of the old definitions. Without them the copy gets none, nor the record with which it exists.
	Definitions []events.Record
	// New is how many the copy has.
	New int32
	// Lost says that there is no log: the states are those of checkpoints.
	Lost bool
	// Epoch is the identifier of the epoch with which the copy begins.
	Epoch     string
	Made      time.Time
	Scheduler supervisor.Scheduler
}

// Partition is the state of an old partition. Stored lists its tasks, which the state can load.
type Partition struct {
	State  *events.State
	Stored tasks
}

// Copy writes the definitions, the inputs, the states, what is owed, and the record with which the copy exists.
func (x Partitions) Copy(ctx context.Context, logs Logs) (*Result, error) {
	s := &source{name: x.From, ns: scheduler.Namespace{ID: x.ID, Partitions: int32(len(x.Old))}}
	if !x.Lost {
		s.log = &Place{Namespace: x.From}
	}
	for i, p := range x.Old {
		s.parts = append(s.parts, &part{number: int32(i), stored: p.Stored, state: p.State})
	}
	c := &copying{
		Config: Config{From: Place{Namespace: x.From}, To: Place{Namespace: x.To}, Partitions: x.New},
		from:   s, made: x.Made, epoch: x.Epoch, scheduler: x.Scheduler, logs: logs, reported: map[attempt]bool{},
	}
	if x.Definitions == nil {
		err := c.move(ctx)
		return &c.result, err
	}
	s.definitions = x.Definitions
	if err := s.define(); err != nil {
		return nil, err
	}
	err := c.fill(ctx)
	return &c.result, err
}

// Claiming returns the record with which a copy claims an old partition before it closes it.
func Claiming(state *events.State, id, namespace string, now events.Instant) (events.Record, error) {
	return claiming(state, id, now, namespace)
}

// Claimed says whether that claim is current, by the state of the log behind it.
func Claimed(state *events.State, id string) bool { return claimed(state, id) }

// Closing returns the records with which a copy closes a partition that it has claimed. The state is that of the log behind the claim.
func Closing(state *events.State, namespace string, now events.Instant) ([]events.Record, error) {
	return closing(state, aCopy, now, namespace)
}

// Closed says whether these records have closed the partition that was claimed, by the state of the log behind them.
func Closed(state *events.State, id string) bool { return marks(state, id, aCopy) }

var aCopy = events.NamespaceClosed{To: "a copy"}
