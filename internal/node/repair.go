package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
)

var (
	// ErrStore is returned by Run when the state store cannot be used any longer. The next start continues from what the store
	// and the log hold.
	ErrStore = errors.New("the state store of this node cannot be used")
	// ErrLog stops a partition whose log was folded from its beginning and still contradicts itself.
	ErrLog = errors.New("the log itself cannot be folded, here and probably everywhere; its facts up to there are intact")
)

// repairs knows which partitions were emptied because of stored data; each is emptied at most once in a process.
type repairs struct {
	mu      sync.Mutex
	emptied map[int32]bool
	// failed holds the first error that ends the node.
	failed chan error
}

func newRepairs() repairs { return repairs{emptied: map[int32]bool{}, failed: make(chan error, 1)} }

// repair is called with the error that stopped the fold or the owner of a partition. If the data stored here is to blame, it
// empties the partition once and returns nil: the log is folded again. Otherwise it returns the error to stop with. A store
// that cannot be read, or is at fault again, ends the node, so that others take its partitions. A full or failing disk is no
// reason to remove anything.
func (s *stateStore) repair(ctx context.Context, partition int32, cause error) error {
	switch {
	case s.Damage() != nil: // watch ends the node
		return cause
	case errors.Is(cause, supervisor.ErrInputLost) && !s.ofOtherLog(ctx, partition):
		return s.explained(ctx, partition, cause)
	case isOfStore(cause), isOfFold(cause), isOfOtherLog(cause):
	case errors.Is(cause, projector.ErrRead):
		return s.fail(fmt.Errorf("%w: partition %d: %w: free some space or repair the disk, then start this process again", ErrStore, partition, cause))
	default:
		return cause
	}
	if s.isBeforeCut(ctx, partition) { // and not a fault, however often it happens
		s.log.Warn("the log was cut behind the state here, which is removed and built from the log", "partition", partition)
		if err := s.Reset(partition); err != nil {
			return s.fail(fmt.Errorf("%w: partition %d: %w", ErrStore, partition, err))
		}
		return nil
	}
	s.mu.Lock()
	again := s.emptied[partition]
	s.emptied[partition] = true
	s.mu.Unlock()
	switch {
	case again && isOfStore(cause):
		return s.fail(fmt.Errorf("%w: partition %d: the rebuilt state is damaged again: %w; look at the disk and the memory of this machine", ErrStore, partition, cause))
	case again && isOfOtherLog(cause):
		return s.fail(fmt.Errorf("%w: partition %d: the log lost acknowledged records again: %w; look at the disks of the brokers and at unclean.leader.election.enable",
			ErrStore, partition, cause))
	case again: // even a fold from the beginning of the log meets this: no node can do better
		return fmt.Errorf("%w: %w", ErrLog, cause)
	}
	info, err := s.PartitionInfo(partition)
	if err != nil { // even the end of the state is unknown: an empty log would look as if it had always been empty
		return s.fail(fmt.Errorf("%w: partition %d: %w", ErrStore, partition, err))
	}
	if err := s.rebuildable(ctx, partition, info.Next); err != nil {
		if errors.Is(err, ErrGap) {
			return fmt.Errorf("%w; the state here is left as it is: %w", cause, err)
		}
		return s.fail(fmt.Errorf("%w: partition %d: %w; the log does not say whether it can be rebuilt: %w", ErrStore, partition, cause, err))
	}
	s.log.Warn("the state of this partition cannot be used; it is removed and rebuilt from the log", "partition", partition, "error", cause)
	if err := s.Reset(partition); err != nil {
		return s.fail(fmt.Errorf("%w: partition %d: %w", ErrStore, partition, err))
	}
	return nil
}

// isOfStore says that only the data stored here can be to blame.
func isOfStore(err error) bool {
	return errors.Is(err, projector.ErrDamaged) || errors.Is(err, events.ErrRow)
}

// isOfFold says that the state does not fit the log. Folding the log again shows which of the two is wrong.
func isOfFold(err error) bool {
	return errors.Is(err, supervisor.ErrFold) && (errors.Is(err, events.ErrStateHash) || errors.Is(err, events.ErrImpossible))
}

// isOfOtherLog says that the log is not the one that the state was folded from: it lost acknowledged records, or was replaced.
func isOfOtherLog(err error) bool {
	return errors.Is(err, projector.ErrAnchor) || errors.Is(err, supervisor.ErrInputLost) || errors.Is(err, supervisor.ErrFold) && errors.Is(err, supervisor.ErrPosition)
}

// ofOtherLog says that the log lacks the record that was folded last. Then an input that seems to have lost records may hold
// everything that the log, as it is now, has not judged.
func (s *stateStore) ofOtherLog(ctx context.Context, partition int32) bool {
	_, anchor, _, err := s.Partition(partition).Snapshot()
	return err == nil && errors.Is(projector.Check(anchor, s.topic, s.recordAt(ctx, partition)), projector.ErrAnchor)
}

// isBeforeCut says whether the state of a partition ends in front of the first record of a log that was cut.
func (s *stateStore) isBeforeCut(ctx context.Context, partition int32) bool {
	ctx, cancel := context.WithTimeout(ctx, anchorWait)
	defer cancel()
	logs, err := s.extents(ctx)
	if err != nil || s.Partition(partition).Next() >= logs[partition].start {
		return false
	}
	carried, err := s.beginsWithCarry(ctx, partition, logs[partition].start)
	return err == nil && carried && s.Partition(partition).Next() > 0
}

// rebuildable returns ErrGap for a partition whose log cannot be folded from its beginning. next is where the state ends.
func (s *stateStore) rebuildable(ctx context.Context, partition int32, next int64) error {
	ctx, cancel := context.WithTimeout(ctx, anchorWait)
	defer cancel()
	logs, err := s.extents(ctx)
	if err != nil {
		return err
	}
	return s.refuseGap(ctx, partition, logs[partition], next)
}

// fail ends the node.
func (s *stateStore) fail(err error) error {
	select {
	case s.failed <- err:
	default: // it is ending already
	}
	return err
}
