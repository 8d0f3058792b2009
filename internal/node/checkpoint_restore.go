package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

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

// Fits returns nil if the log continues the checkpoint: it holds the last record that each partition has folded, and all behind it; and all of a
// partition that is not in the checkpoint. Otherwise it says in one sentence what differs. An error of the brokers does not wrap projector.ErrCheckpoint.
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
	if err := l.missing(c, starts[topic]); err != nil {
		return err
	}
	for _, p := range c.Partitions {
		if p.Partition < 0 || p.Partition >= l.Partitions {
			return fmt.Errorf("%w: it holds partition %d, and the namespace has %d partitions", projector.ErrCheckpoint, p.Partition, l.Partitions)
		}
		start := starts[topic][p.Partition]
		switch {
		case p.Offset < start:
			return fmt.Errorf("%w: it ends at offset %d of topic %s partition %d, and the log begins at offset %d: the records between are gone", projector.ErrCheckpoint, p.Offset, topic, p.Partition, start)
		case p.Offset == start && (start == 0 || p.Anchor.TopicID == id):
			continue // the log was cut at the end of the checkpoint: nothing is missing
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

// missing refuses a checkpoint without a partition whose log was cut: that one could not be folded from its beginning.
func (l CheckpointLog) missing(c *projector.Checkpoint, starts map[int32]int64) error {
	for p := range l.Partitions {
		held := slices.ContainsFunc(c.Partitions, func(h projector.CheckpointPartition) bool { return h.Partition == p })
		if start := starts[p]; start > 0 && !held {
			return fmt.Errorf("%w: it holds nothing of partition %d, whose log begins at offset %d: the records before it are gone", projector.ErrCheckpoint, p, start)
		}
	}
	return nil
}

// restoreMissing takes the newest checkpoint that is whole and fits the log if there is no state. If none is, the log is folded from its beginning.
func (s *stateStore) restoreMissing(ctx context.Context, thorough bool) error {
	if _, err := s.files().Stat(s.dir); err == nil {
		return nil
	}
	_, err := s.restoreNewest(ctx, thorough, func() error { return nil })
	return err
}

// replaceByCheckpoint takes a checkpoint in place of a state that is of no use and that the log alone cannot bring back: it ends before the log
// begins, or is damaged. The old state is kept beside it.
func (s *stateStore) replaceByCheckpoint(ctx context.Context, thorough bool) (bool, error) {
	fs, aside := s.files(), ""
	restored, err := s.restoreNewest(ctx, thorough, func() error {
		to := s.aside()
		if err := fs.Rename(s.dir, to); err != nil {
			return fmt.Errorf("a checkpoint fits the log, but the state cannot be moved away: %w", err)
		}
		s.log.Warn("the state here cannot be used; a checkpoint takes its place, and the old state is kept", "kept", to)
		aside = to
		return nil
	})
	if !restored && aside != "" {
		if back := fs.Rename(aside, s.dir); back != nil {
			err = errors.Join(err, fmt.Errorf("the state cannot be moved back from %s to %s: %w", aside, s.dir, back))
		}
	}
	return restored, err
}

// aside returns a name for a state that is kept, and never that of one that is kept already: it may be the only record of what was accepted.
func (s *stateStore) aside() string {
	for n := 1; ; n++ {
		name := s.dir + ".replaced"
		if n > 1 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		if _, err := s.files().Stat(name); err != nil {
			return name
		}
	}
}

// restoreNewest makes the state from the newest checkpoint that is whole and fits the log, and warns of newer ones. It calls begin once before the
// first attempt. thorough also reads each block: a damaged state may have been copied with its damage. An error of the brokers ends it, since
// another attempt may succeed, while folding a long log takes long and may be impossible.
func (s *stateStore) restoreNewest(ctx context.Context, thorough bool, begin func() error) (bool, error) {
	found, err := projector.FindCheckpoints(s.files(), s.checkpoints.Dir)
	if err != nil {
		s.log.Warn("the checkpoints cannot be looked at", "error", err)
	}
	log := CheckpointLog{Cluster: s.ns.cluster, Namespace: s.ns.name, ID: s.ns.record.ID, Partitions: s.ns.partitions}
	begun := false
	for i := range found {
		f := &found[i]
		err := f.Err
		if err == nil {
			if err = log.Fits(ctx, &f.Checkpoint); err != nil && !errors.Is(err, projector.ErrCheckpoint) {
				return false, err
			}
		}
		if err == nil && !begun {
			if err := begin(); err != nil {
				return false, err
			}
			begun = true
		}
		if err == nil {
			err = s.restore(f, thorough)
		}
		if err == nil {
			s.log.Info("the state was restored from a checkpoint; the rest is folded from the log", "checkpoint", f.Dir, "records", f.Records(), "time", f.Time)
			return true, nil
		}
		s.log.Warn("a checkpoint is not used", "checkpoint", f.Dir, "error", err)
	}
	return false, nil
}

// restore makes the state from a checkpoint. If it fails, no state is left.
func (s *stateStore) restore(f *projector.FoundCheckpoint, thorough bool) error {
	if err := f.Restore(s.files(), f.Dir, s.dir); err != nil || !thorough {
		return err
	}
	store, err := projector.OpenIntact(s.dir, projector.Options{Namespace: s.ns.record.ID, FS: s.fs})
	if err == nil {
		return store.Close()
	}
	return errors.Join(err, s.remove())
}
