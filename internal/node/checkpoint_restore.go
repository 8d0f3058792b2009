package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"path/filepath"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
)

// checkpoints fills in the defaults.
func (c *Config) checkpoints() Checkpoints {
	k := c.Checkpoints
	k.Dir = cmp.Or(k.Dir, filepath.Join(c.Dir, CheckpointsDir))
	k.Keep = cmp.Or(k.Keep, DefaultCheckpointsKept)
	return k
}

// CheckpointLog is the log that a checkpoint is compared with.
type CheckpointLog struct {
	Cluster *kafka.Cluster
	// Namespace is the prefix of the topics, ID the namespace's.
	Namespace, ID string
	Partitions    int32
}

// Fits returns nil if the log continues the checkpoint: it holds the last record that each partition has folded, and all behind it. Otherwise
// it says in one sentence what differs. An error of the brokers does not wrap projector.ErrCheckpoint.
func (l CheckpointLog) Fits(ctx context.Context, c *projector.Checkpoint) error {
	topic := kafka.Topics{Namespace: l.Namespace}.Events()
	if c.NamespaceID != l.ID {
		return fmt.Errorf("%w: it is of namespace %s (ID %s), and the log is of namespace %s (ID %s)", projector.ErrCheckpoint, cmp.Or(c.Namespace, "-"), c.NamespaceID, l.Namespace, l.ID)
	}
	id, err := l.Cluster.TopicID(ctx, topic)
	if err != nil {
		return fmt.Errorf("compare the checkpoint with the log: %w", err)
	}
	if c.TopicID != (projector.TopicID{}) && c.TopicID != id {
		return fmt.Errorf("%w: it was folded from the topic %s with ID %s, and the topic now has the ID %s: it was deleted and made again", projector.ErrCheckpoint, topic, c.TopicID, id)
	}
	partitions := map[string][]int32{topic: {}}
	for p := range l.Partitions {
		partitions[topic] = append(partitions[topic], p)
	}
	starts, err := l.Cluster.StartOffsets(ctx, partitions)
	if err != nil {
		return fmt.Errorf("compare the checkpoint with the log: %w", err)
	}
	for _, p := range c.Partitions {
		if p.Partition >= l.Partitions {
			return fmt.Errorf("%w: it holds partition %d, and the namespace has %d partitions", projector.ErrCheckpoint, p.Partition, l.Partitions)
		}
		if start := starts[topic][p.Partition]; p.Offset == start {
			continue // the log was cut at the end of the checkpoint: nothing is missing
		} else if p.Offset < start {
			return fmt.Errorf("%w: it ends at offset %d of topic %s partition %d, and the log begins at offset %d: the records between are gone", projector.ErrCheckpoint, p.Offset, topic, p.Partition, start)
		}
		err := projector.Check(p.Anchor, id, recordAt(ctx, l.Cluster, topic, p.Partition))
		switch {
		case errors.Is(err, projector.ErrAnchor):
			return fmt.Errorf("%w: topic %s partition %d: %w", projector.ErrCheckpoint, topic, p.Partition, err)
		case err != nil:
			return fmt.Errorf("compare the checkpoint with the log: %w", err)
		}
	}
	return nil
}

// restoreMissing takes the newest checkpoint that fits the log if there is no state. If none does, the log is folded from its beginning.
func (s *stateStore) restoreMissing(ctx context.Context) {
	if _, err := s.files().Stat(s.dir); err == nil {
		return
	}
	if f := s.fitting(ctx); f != nil {
		s.restore(f)
	}
}

// replaceByCheckpoint takes a checkpoint in place of a state that ends before the log begins, for example one that was copied here from another node. The
// old state is kept beside it, in one directory.
func (s *stateStore) replaceByCheckpoint(ctx context.Context) bool {
	f := s.fitting(ctx)
	if f == nil {
		return false
	}
	aside := s.dir + ".replaced"
	fs := s.files()
	if err := fs.RemoveAll(aside); err != nil {
		s.log.Warn("a checkpoint fits the log, but the state cannot be moved away", "error", err)
		return false
	}
	if err := fs.Rename(s.dir, aside); err != nil {
		s.log.Warn("a checkpoint fits the log, but the state cannot be moved away", "error", err)
		return false
	}
	s.log.Warn("the state here ends before the log begins; a checkpoint takes its place, and the old state is kept", "checkpoint", f.Dir, "kept", aside)
	if s.restore(f) {
		return true
	}
	if err := fs.Rename(aside, s.dir); err != nil {
		s.log.Error("the state cannot be moved back", "from", aside, "to", s.dir, "error", err)
	}
	return false
}

// fitting returns the newest checkpoint that fits the log, and warns of newer ones that do not. Without any it returns nil.
func (s *stateStore) fitting(ctx context.Context) *projector.FoundCheckpoint {
	found, err := projector.FindCheckpoints(s.files(), s.checkpoints.Dir)
	if err != nil {
		s.log.Warn("the checkpoints cannot be looked at", "error", err)
	}
	log := CheckpointLog{Cluster: s.ns.cluster, Namespace: s.ns.name, ID: s.ns.record.ID, Partitions: s.ns.partitions}
	for i := range found {
		f := &found[i]
		err := f.Err
		if err == nil {
			err = log.Fits(ctx, &f.Checkpoint)
		}
		if err == nil {
			return f
		}
		s.log.Warn("a checkpoint is not used", "checkpoint", f.Dir, "error", err)
	}
	return nil
}

// restore makes the state from a checkpoint. If it fails, the log is folded from its beginning.
func (s *stateStore) restore(f *projector.FoundCheckpoint) bool {
	if err := f.Restore(s.files(), f.Dir, s.dir); err != nil {
		s.log.Warn("a checkpoint is not used", "checkpoint", f.Dir, "error", err)
		return false
	}
	s.log.Info("the state was restored from a checkpoint; the rest is folded from the log", "checkpoint", f.Dir, "records", f.Records(), "time", f.Time)
	return true
}
