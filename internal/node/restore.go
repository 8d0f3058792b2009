package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
)

// stateDir is where the projection is.
func (n *Node) stateDir() string { return filepath.Join(n.cfg.Dir, "state") }

// openStore opens the projection. One of an older format, or a damaged one, is deleted and folded anew: the log is
// the truth. Damage may show when it is opened or when it is first read.
func (n *Node) openStore(ctx context.Context) error {
	err := n.tryStore(ctx)
	if errors.Is(err, projector.ErrFormat) || errors.Is(err, projector.ErrDamaged) {
		if gap := n.refuseGaps(ctx); gap != nil {
			return fmt.Errorf("the state store cannot be used (%w), and cannot be built anew: %w", err, gap)
		}
		n.cfg.Logger.Warn("the state store cannot be used; it is rebuilt from the log", "error", err)
		if err := n.removeAll(n.stateDir()); err != nil {
			return err
		}
		err = n.tryStore(ctx)
	}
	if err != nil {
		return fmt.Errorf("open the state store: %w", err)
	}
	return nil
}

func (n *Node) tryStore(ctx context.Context) error {
	store, err := projector.Open(n.stateDir(), projector.Options{Namespace: n.namespace.ID, FS: n.cfg.FS, Logger: n.cfg.Logger, Registerer: n.cfg.Registry})
	if err != nil {
		return err
	}
	n.store = store
	if err := n.checkAnchors(ctx); err != nil {
		n.store = nil
		return errors.Join(err, store.Close())
	}
	return nil
}

func (n *Node) removeAll(dir string) error {
	if n.cfg.FS != nil {
		return n.cfg.FS.RemoveAll(dir)
	}
	return os.RemoveAll(dir)
}

// watchStore ends the node when its store is found damaged: what is read from then on may fail, and only the next start
// can build it anew.
func (n *Node) watchStore(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-n.store.Damaged():
		return fmt.Errorf("start this node again, and it builds its state anew: %w", n.store.Damage())
	}
}

// extent is what the log of a partition holds.
type extent struct{ start, end int64 }

func (n *Node) extents(ctx context.Context) (map[int32]extent, error) {
	of := kafka.Partitions{}
	for p := range n.partitions {
		of[n.topics.Events()] = append(of[n.topics.Events()], p)
	}
	starts, err := n.cfg.Cluster.StartOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	ends, err := n.cfg.Cluster.HighWatermarks(ctx, of)
	if err != nil {
		return nil, err
	}
	list := make(map[int32]extent, n.partitions)
	for p := range n.partitions {
		list[p] = extent{start: starts[n.topics.Events()][p], end: ends[n.topics.Events()][p]}
	}
	return list, nil
}

// checkAnchors compares the log of each partition with what was folded of it.
func (n *Node) checkAnchors(ctx context.Context) error {
	topic, err := n.cfg.Cluster.TopicID(ctx, n.topics.Events())
	if err != nil {
		return err
	}
	logs, err := n.extents(ctx)
	if err != nil {
		return err
	}
	for p := range n.partitions {
		if err := n.checkAnchor(ctx, p, topic, logs[p]); err != nil {
			return err
		}
	}
	return nil
}

// checkAnchor resets a partition whose last folded record is not in the log any more, and says so loudly. It refuses a
// log that the state can neither go on with nor be built of.
func (n *Node) checkAnchor(ctx context.Context, partition int32, topic projector.TopicID, log extent) error {
	snap, anchor, _, err := n.store.Partition(partition).Snapshot()
	if err != nil {
		return err
	}
	err = projector.Check(anchor, topic, n.recordAt(ctx, partition))
	switch {
	case err == nil && snap.Next >= log.start:
		return nil
	case err != nil && !errors.Is(err, projector.ErrAnchor):
		return err
	case anchor.TopicID == topic && snap.Next > 0 && snap.Next == log.start:
		// Trimmed to where the state ends: nothing is missing, and there is no record to compare.
		n.cfg.Logger.Warn("the records before the state's end were deleted; this node goes on, and no other can build its state of what is left", "partition", partition, "offset", snap.Next)
		return nil
	}
	if err := n.refuseGap(partition, log, snap.Next); err != nil {
		return err
	}
	n.cfg.Logger.Warn("the log is not the one that the state was folded from; the partition is rebuilt from the log", "partition", partition, "error", err)
	return n.store.Reset(partition)
}

// ErrGap is returned for a log of events that no longer holds what has not been folded here. Nothing is changed: the
// state that is left may be the only memory of what was accepted.
var ErrGap = errors.New("accepted facts are gone")

// refuseGap refuses a log that cannot be folded from its beginning. next is where the state ends, 0 without one.
func (n *Node) refuseGap(partition int32, log extent, next int64) error {
	topic := n.topics.Events()
	switch {
	case log.start > 0:
		return fmt.Errorf("%w: topic %s partition %d begins at offset %d, so what precedes was deleted, and the state here ends at offset %d; "+
			"restore the topic from a copy, or start with the directory %s of a node that has folded more, or begin another --namespace",
			ErrGap, topic, partition, log.start, next, n.stateDir())
	case log.end == 0 && next > 0:
		return fmt.Errorf("%w: topic %s partition %d is empty, and the state here ends at offset %d: the topic was made anew or emptied; "+
			"restore it from a copy, or, to begin anew and have every submission that is still in %s judged once more, delete %s",
			ErrGap, topic, partition, next, n.topics.Submissions(), n.stateDir())
	}
	return nil
}

// refuseGaps refuses to throw a state away that no log can bring back.
func (n *Node) refuseGaps(ctx context.Context) error {
	logs, err := n.extents(ctx)
	if err != nil {
		return err
	}
	for p := range n.partitions {
		if err := n.refuseGap(p, logs[p], 0); err != nil {
			return err
		}
	}
	return nil
}

// anchorWait bounds the reading of an anchor's record at a change of epoch, where the owner waits for it.
const anchorWait = 2 * time.Second

// recordAt reads a record of a partition of events; false says that the log does not hold it.
func (n *Node) recordAt(ctx context.Context, partition int32) func(int64) (events.Record, bool, error) {
	return func(offset int64) (events.Record, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, anchorWait)
		defer cancel()
		r, err := n.cfg.Cluster.ReadAt(ctx, n.topics.Events(), partition, offset)
		var out *kafka.OutOfRangeError
		if errors.As(err, &out) || errors.Is(err, kafka.ErrNoRecord) {
			return r, false, nil
		}
		return r, err == nil, err
	}
}
