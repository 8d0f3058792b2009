package node

import (
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// partitionStore is one partition of the store as its owner sees it.
type partitionStore struct {
	store     *stateStore
	part      *projector.Partition
	load      events.Loader
	partition int32
	// record reads a record of the partition's log: projector.Check asks for the last folded one.
	record func(offset int64) (events.Record, bool, error)
}

func newPartitionStore(s *stateStore, partition int32) *partitionStore {
	p := s.Partition(partition)
	return &partitionStore{store: s, part: p, load: p.Loader(), partition: partition}
}

// Commit implements supervisor.Committer.
func (s *partitionStore) Commit(d *events.Delta, last events.Record) error {
	b := projector.Batch{Deltas: []*events.Delta{d}}
	if last.Value != nil {
		b.Anchors = map[int32]projector.Anchor{s.partition: projector.AnchorOf(s.store.topic, &last)}
	}
	return s.store.Commit(b)
}

// Snapshot implements supervisor.Store. It is called at each new epoch, and checks whether the log still is the one that
// the state was folded from: an epoch may have ended because the broker lost acknowledged facts, and facts decided from a state
// that is not in the log could not be folded. A broker that does not answer proves nothing; the claim waits for
// it.
func (s *partitionStore) Snapshot() (events.Snapshot, error) {
	snap, anchor, exists, err := s.part.Snapshot()
	if err != nil || !exists || anchor.IsZero() {
		return snap, err
	}
	if err := projector.Check(anchor, s.store.topic, s.record); errors.Is(err, projector.ErrAnchor) {
		return snap, err
	}
	return snap, nil
}

// Load implements supervisor.Store.
func (s *partitionStore) Load(id string) (events.StoredTask, error) { return s.load(id) }

// Ready implements supervisor.Store.
func (s *partitionStore) Ready(line events.Line, limit int) ([]events.Ready, error) {
	rows, err := s.part.Ready(line, limit)
	if err != nil {
		return nil, err
	}
	list := make([]events.Ready, len(rows))
	for i, r := range rows {
		list[i] = events.Ready{Task: r.Task, Path: r.Key.Path, Operation: r.Key.Operation, Agent: r.Key.Agent, Function: r.Key.Function, Priority: r.Key.Priority, FairBy: line.FairBy, Since: r.Key.Since}
	}
	return list, nil
}

// FairKeys implements supervisor.Store.
func (s *partitionStore) FairKeys(line events.Line, limit int) ([]string, error) {
	return s.part.FairKeys(line, limit)
}

// Queues implements supervisor.Store.
func (s *partitionStore) Queues() ([]string, error) {
	var names []string
	for name := range s.part.Queues() {
		names = append(names, name)
	}
	return names, nil
}

// Due implements supervisor.Store.
func (s *partitionStore) Due(at events.Instant, limit int) ([]string, error) {
	if limit == 1 { // asked at each tick
		next, ok, err := s.part.NextDue()
		if err != nil || !ok || next > at {
			return nil, err
		}
	}
	rows, err := s.part.Due(at, limit)
	return tasksOf(rows), err
}

// Waking implements supervisor.Store.
func (s *partitionStore) Waking(at events.Instant, limit int) ([]string, error) {
	rows, err := s.part.Waking(at, limit)
	return tasksOf(rows), err
}

func tasksOf(rows []projector.DueRow) []string {
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.Task
	}
	return ids
}

// Unplanned implements supervisor.Store.
func (s *partitionStore) Unplanned(limit int) ([]string, error) { return s.part.Unplanned(limit) }

// Unended implements supervisor.Store.
func (s *partitionStore) Tasks(after string, limit int) ([]string, error) {
	return s.part.Tasks(after, limit)
}

func (s *partitionStore) Unended(after string, limit int) ([]string, error) {
	return s.part.Unended(after, limit)
}

// Ended implements supervisor.Store.
func (s *partitionStore) Ended(before events.Instant, limit int) ([]string, error) {
	return s.part.EndedBefore(before, limit)
}

// Forgettable implements supervisor.Store.
func (s *partitionStore) Forgettable(before events.Instant, limit int) ([]string, error) {
	return s.part.ForgetBefore(before, limit)
}

// livePage is how many rows Live reads at once.
const livePage = 1000

// Live implements supervisor.Store.
func (s *partitionStore) Live(yield func(id string) error) error {
	var after projector.DueRow
	for {
		rows, err := s.part.Running(after, livePage)
		if err != nil {
			return fmt.Errorf("walk live tasks: %w", err)
		}
		for _, r := range rows {
			if err := yield(r.Task); err != nil {
				return err
			}
		}
		if len(rows) < livePage {
			return nil
		}
		after = rows[len(rows)-1]
	}
}
