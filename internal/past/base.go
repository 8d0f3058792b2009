package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
)

// bases are the checkpoints with one of which a fold begins, in place of the first facts of the log. A carry in the middle of the log is never a place to begin:
// it holds neither the histories before it nor the tasks that were forgotten by then. (A log that was cut begins with a carry, and so does its fold.)
type bases struct {
	log node.CheckpointLog
	// dirs are directories of checkpoints, or checkpoints.
	dirs []string
	// begins and ends are the ranges of the partitions of events up to the moment.
	begins, ends map[int32]int64
	// exitCode is that of the process if the disk of the state is full.
	exitCode int
	// warn is called with a sentence for each checkpoint that is passed over, and if none is of use; nil: not.
	warn func(string)
}

func (b *bases) warnf(format string, args ...any) {
	if b.warn != nil {
		b.warn(fmt.Sprintf(format, args...))
	}
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

// find returns the checkpoints that can be read and save something, the one that saves most first, and what is to be said if the fold begins with none of them.
func (b *bases) find() (list []projector.FoundCheckpoint, none []string) {
	for _, dir := range b.dirs {
		found, err := checkpointsIn(dir)
		switch {
		case err != nil:
			none = append(none, err.Error())
		case len(found) == 0:
			none = append(none, fmt.Sprintf("%s holds no checkpoint: name a directory of checkpoints, such as %s in the data directory of a node, or one checkpoint in it", dir, node.CheckpointsDir))
		}
		later := 0
		for i := range found {
			switch c := &found[i]; {
			case c.Err != nil:
				b.warnf("%s", passedOver(c.Dir, c.Err))
			case b.saved(&c.Checkpoint) == 0:
				later++
			default:
				list = append(list, *c)
			}
		}
		if later > 0 {
			none = append(none, fmt.Sprintf("%d of the %d checkpoints in %s save nothing: they are later than the moment, or hold no fact that would be folded", later, len(found), dir))
		}
	}
	slices.SortStableFunc(list, func(x, y projector.FoundCheckpoint) int {
		return cmp.Compare(b.saved(&y.Checkpoint), b.saved(&x.Checkpoint))
	})
	return list, none
}

// checkpointsIn returns the checkpoints in a directory, or the one that it is.
func checkpointsIn(dir string) ([]projector.FoundCheckpoint, error) {
	if _, err := os.Stat(filepath.Join(dir, projector.CheckpointManifest)); err == nil {
		c, err := projector.ReadCheckpoint(projector.OnDisk(), dir)
		return []projector.FoundCheckpoint{{Name: filepath.Base(dir), Dir: dir, Checkpoint: c, Err: err}}, nil
	}
	return projector.FindCheckpoints(projector.OnDisk(), dir)
}

func passedOver(dir string, why error) string {
	return fmt.Sprintf("the checkpoint %s is passed over: %v", dir, why)
}

// baseTries bounds how many checkpoints a fold tries, because each may take long.
const baseTries = 3

// folding folds from a state up to the moment. from is the checkpoint that the state is of, "" if the fold begins with the first fact, and left how many facts are to be folded.
type folding func(s *projector.Store, from string, left int64) error

// fold opens the state in dir, which must not exist, and calls do with it, without the partitions that are further on than the moment. The state is of the checkpoint that saves
// most. If that is damaged, does not fit the log, or cannot be folded on, a warning says so, and do is called again with the next one, and at last with an empty state.
func (b *bases) fold(ctx context.Context, dir string, do folding) error {
	list, none := b.find()
	for i := range min(len(list), baseTries) {
		c := &list[i]
		further, err := b.from(ctx, c, dir, do)
		if err == nil || !further {
			return err
		}
		b.warnf("%s", passedOver(c.Dir, err))
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if len(b.dirs) > 0 {
		for _, why := range none {
			b.warnf("%s", why)
		}
		b.warnf("no checkpoint is used: the fold begins with the first fact of the log")
	}
	return b.opened(dir, "", do)
}

// from folds from a checkpoint. further says whether another checkpoint may do better.
func (b *bases) from(ctx context.Context, c *projector.FoundCheckpoint, dir string, do folding) (further bool, err error) {
	if err = b.log.Fits(ctx, &c.Checkpoint); err == nil {
		err = c.Restore(projector.OnDisk(), c.Dir, dir)
	}
	if err != nil {
		return errors.Is(err, projector.ErrCheckpoint), err
	}
	err = b.opened(dir, c.Dir, do)
	return ctx.Err() == nil && !answered(err) && !kafka.IsPassing(err), err
}

// answered says that an error is what the log leads to, with whichever checkpoint the fold begins.
func answered(err error) bool {
	return errors.Is(err, errWaits) || errors.Is(err, ErrBeforeLog) || errors.Is(err, ErrTooMany)
}

// opened opens the state in dir, calls do with it, and closes it.
func (b *bases) opened(dir, from string, do folding) (err error) {
	s, err := projector.Open(dir, projector.Options{Namespace: b.log.ID, ExitCode: b.exitCode})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	left := int64(0)
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
		return err
	}
	return do(s, from, left)
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
