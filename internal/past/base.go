package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
)

// bases are the checkpoints with one of which a fold begins, in place of the first facts of the log. A carry in the middle of the log is never a place to begin:
// it holds neither the histories before it nor the tasks that were forgotten by then. (A log that was cut begins with a carry, and so does its fold.)
type bases struct {
	log node.CheckpointLog
	// dirs are directories of checkpoints.
	dirs []string
	// begins and ends are the ranges of the partitions of events up to the moment.
	begins, ends map[int32]int64
}

// saved is how many facts a fold need not read that begins with the checkpoint. Of a partition that is further on than the moment it saves none.
func (b *bases) saved(c *projector.Checkpoint) (n int64) {
	for _, p := range c.Partitions {
		if p.Offset <= b.ends[p.Partition] {
			n += max(0, p.Offset-b.begins[p.Partition])
		}
	}
	return n
}

// restore makes the state in dir, which must not exist, from the checkpoint that saves most, and returns the directory of that: "" if none is of use, and then nothing
// is made. One that is damaged, or that the log does not continue, is of no use.
func (b *bases) restore(ctx context.Context, dir string) (string, error) {
	var list []projector.FoundCheckpoint
	for _, from := range b.dirs {
		if found, err := projector.FindCheckpoints(projector.OnDisk(), from); err == nil {
			list = append(list, found...)
		}
	}
	slices.SortStableFunc(list, func(x, y projector.FoundCheckpoint) int {
		return cmp.Compare(b.saved(&y.Checkpoint), b.saved(&x.Checkpoint))
	})
	for i := range list {
		c := &list[i]
		if c.Err != nil || b.saved(&c.Checkpoint) == 0 {
			continue
		}
		err := b.log.Fits(ctx, &c.Checkpoint)
		if err == nil {
			err = c.Restore(projector.OnDisk(), c.Dir, dir)
		}
		switch {
		case err == nil:
			return c.Dir, nil
		case !errors.Is(err, projector.ErrCheckpoint):
			return "", err
		}
	}
	return "", nil
}

// open opens the state in dir, without the partitions that are further on than the moment, and returns the checkpoint that it begins with, as restore does, and how many facts
// that leaves to fold. If the state of a checkpoint cannot be opened, the fold begins without one.
func (b *bases) open(ctx context.Context, dir string) (s *projector.Store, from string, left int64, err error) {
	if from, err = b.restore(ctx, dir); err != nil {
		return nil, "", 0, err
	}
	if s, left, err = b.opened(dir); err != nil && from != "" {
		if err = os.RemoveAll(dir); err == nil {
			from = ""
			s, left, err = b.opened(dir)
		}
	}
	return s, from, left, err
}

func (b *bases) opened(dir string) (s *projector.Store, left int64, err error) {
	if s, err = projector.Open(dir, projector.Options{Namespace: b.log.ID}); err != nil {
		return nil, 0, err
	}
	for p, end := range b.ends {
		begin := b.begins[p]
		if next := s.Partition(p).Next(); next > end {
			err = errors.Join(err, s.Reset(p))
		} else {
			begin = max(begin, next)
		}
		left += max(0, end-begin)
	}
	if err != nil {
		return nil, 0, errors.Join(err, s.Close())
	}
	return s, left, nil
}

// adoptTasks bounds how many tasks are rewritten at once.
const adoptTasks = 1000

// adopt makes the rows of a partition those of a fold, which the state hash does not cover: the anchor names the topic of the copy, and no task counts as planned by an owner.
func adopt(s *projector.Store, p int32, topic projector.TopicID) error {
	part := s.Partition(p)
	snap, anchor, exists, err := part.Snapshot()
	if err != nil || !exists || anchor.TopicID == topic {
		return err
	}
	anchor.TopicID = topic
	state, err := events.OpenState(p, snap, part.Loader())
	if err != nil {
		return err
	}
	for after := ""; ; {
		ids, err := part.Unended(after, adoptTasks)
		if err != nil {
			return err
		}
		for _, id := range ids {
			state.Touch(id)
		}
		d, err := state.Flush(nil)
		if err != nil {
			return err
		}
		if err := s.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{p: anchor}}); err != nil {
			return fmt.Errorf("adopt the checkpoint of partition %d: %w", p, err)
		}
		for _, id := range ids {
			state.Evict(id)
		}
		if len(ids) < adoptTasks {
			return nil
		}
		after = ids[len(ids)-1]
	}
}
