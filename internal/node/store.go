package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
)

// ErrGap is returned for a log of events that has lost facts before they were folded here. Nothing is changed: the remaining
// state may be the only record of what was accepted.
var ErrGap = errors.New("accepted facts are gone")

// errBehind is the ErrGap of a state that ends before the log begins: a checkpoint that ends later can take its place.
var errBehind = fmt.Errorf("%w", ErrGap)

// stateStore is the projection of a namespace on this node's disk. It also checks whether the
// projection fits the log.
type stateStore struct {
	*projector.Store
	ns  *namespace
	dir string
	fs  projector.FS
	// checkpoints says where the copies of this store are.
	checkpoints Checkpoints
	topic       projector.TopicID // of events
	registry    prometheus.Registerer
	log         *slog.Logger
	watchers    watchers
	// takeovers is nil until the node has opened its other parts.
	takeovers *takeoverLog
	repairs
}

// openStore opens the projection. If it has an older format or is damaged, it is deleted and rebuilt from the log. Damage
// may show when the store is opened or when it is first read.
func openStore(ctx context.Context, ns *namespace, cfg *Config) (*stateStore, error) {
	s := &stateStore{ns: ns, dir: filepath.Join(cfg.Dir, "state"), fs: cfg.FS, registry: cfg.Registry, log: cfg.Logger, repairs: newRepairs(), checkpoints: cfg.checkpoints()}
	var err error
	if s.topic, err = ns.cluster.TopicID(ctx, ns.topics.Events()); err != nil {
		return nil, fmt.Errorf("open the state store: %w", err)
	}
	if err := projector.RemovePartial(s.files(), s.dir+projector.PartialSuffix); err != nil {
		s.log.Warn("a state that was half restored could not be removed", "error", err)
	}
	if err = s.restoreMissing(ctx, false); err == nil {
		err = s.tryOpen(ctx)
	}
	switch {
	case errors.Is(err, errBehind):
		err = s.replace(ctx, err, false)
	case errors.Is(err, projector.ErrFormat), errors.Is(err, projector.ErrDamaged):
		err = s.renew(ctx, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the state store: %w", err)
	}
	return s, nil
}

// renew makes a state that cannot be used, because of cause, again.
func (s *stateStore) renew(ctx context.Context, cause error) error {
	thorough := errors.Is(cause, projector.ErrDamaged)
	if gap := s.refuseGaps(ctx); gap != nil {
		cause = fmt.Errorf("the state store cannot be used (%w), and cannot be rebuilt: %w", cause, gap)
		if !errors.Is(gap, ErrGap) {
			return cause
		}
		return s.replace(ctx, cause, thorough)
	}
	s.log.Warn("the state store cannot be used; it is rebuilt from the log", "error", cause)
	if err := s.remove(); err != nil {
		return err
	}
	if err := s.restoreMissing(ctx, thorough); err != nil {
		return err
	}
	return s.tryOpen(ctx)
}

// replace opens a checkpoint in place of a state that cannot be used because of cause. It returns cause if no checkpoint fits.
func (s *stateStore) replace(ctx context.Context, cause error, thorough bool) error {
	replaced, err := s.replaceByCheckpoint(ctx, thorough)
	if !replaced {
		return cmp.Or(err, cause)
	}
	return s.tryOpen(ctx)
}

// Commit writes a batch, tells those who watch, and notes the claims in it.
func (s *stateStore) Commit(b projector.Batch) error {
	if err := s.Store.Commit(b); err != nil {
		return err
	}
	s.watchers.tell(b.Deltas)
	if s.takeovers == nil {
		return nil
	}
	for _, d := range b.Deltas {
		if !s.takeovers.mayClaim(d) {
			continue
		}
		owner, epoch, since, err := s.Partition(d.Partition).Claim()
		if err != nil {
			return err
		}
		s.takeovers.folded(d.Partition, owner, epoch, since)
	}
	return nil
}

func (s *stateStore) tryOpen(ctx context.Context) (err error) {
	s.Store, err = projector.Open(s.dir, projector.Options{Namespace: s.ns.record.ID, FS: s.fs, Logger: s.log, Registerer: s.registry})
	if err != nil {
		return err
	}
	if err := s.checkAnchors(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

func (s *stateStore) remove() error { return s.files().RemoveAll(s.dir) }

func (s *stateStore) files() projector.FS { return cmp.Or(s.fs, projector.OnDisk()) }

// watch ends the node when its store is found damaged or unusable: reads may fail from then on, and only the next start can
// rebuild it. Meanwhile other nodes take the partitions.
func (s *stateStore) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	case <-s.Damaged():
		return fmt.Errorf("restart this node, which rebuilds its state from the log: %w", s.Damage())
	}
}

// extent is the range of offsets that the log of a partition holds.
type extent struct{ start, end int64 }

func (s *stateStore) extents(ctx context.Context) (map[int32]extent, error) {
	topic := s.ns.topics.Events()
	starts, err := s.ns.cluster.StartOffsets(ctx, s.ns.all(topic))
	if err != nil {
		return nil, err
	}
	ends, err := s.ns.cluster.HighWatermarks(ctx, s.ns.all(topic))
	if err != nil {
		return nil, err
	}
	list := make(map[int32]extent, s.ns.partitions)
	for p := range s.ns.partitions {
		list[p] = extent{start: starts[topic][p], end: ends[topic][p]}
	}
	return list, nil
}

// checkAnchors compares the log of each partition with the state that was folded from it.
func (s *stateStore) checkAnchors(ctx context.Context) error {
	logs, err := s.extents(ctx)
	if err != nil {
		return err
	}
	for p := range s.ns.partitions {
		if err := s.checkAnchor(ctx, p, logs[p]); err != nil {
			return err
		}
	}
	return nil
}

// checkAnchor resets a partition whose last folded record is no longer in the log, and logs a warning. It refuses a log
// that neither continues the state nor can rebuild it.
func (s *stateStore) checkAnchor(ctx context.Context, partition int32, log extent) error {
	snap, anchor, _, err := s.Partition(partition).Snapshot()
	if err != nil {
		return err
	}
	err = projector.Check(anchor, s.topic, s.recordAt(ctx, partition))
	switch {
	case err == nil && snap.Next >= log.start:
		return nil
	case err != nil && !errors.Is(err, projector.ErrAnchor):
		return err
	case anchor.TopicID == s.topic && snap.Next > 0 && snap.Next == log.start:
		// The log was cut at the end of the state: nothing is missing, but there is no record to compare.
		s.log.Warn("the records before the end of the state were deleted; this node continues", "partition", partition, "offset", snap.Next)
		return nil
	}
	if err := s.refuseGap(ctx, partition, log, snap.Next); err != nil {
		return err
	}
	if snap.Next == 0 { // and there is no anchor: the log was cut, and this node begins there
		return nil
	}
	s.log.Warn("the log is not the one that the state was folded from; the partition is rebuilt from the log", "partition", partition, "error", err)
	return s.Reset(partition)
}

// refuseGap refuses a log that cannot be folded from its beginning. next is where the state ends, 0 if there is no state.
func (s *stateStore) refuseGap(ctx context.Context, partition int32, log extent, next int64) error {
	topic := s.ns.topics.Events()
	if log.start > 0 {
		if carried, err := s.beginsWithCarry(ctx, partition, log.start); err != nil || carried {
			return err
		}
	}
	switch {
	case log.start > 0:
		gap := ErrGap
		if next < log.start {
			gap = errBehind
		}
		return fmt.Errorf("%w: topic %s partition %d begins at offset %d, and not with a carry, so the records before it were deleted, and the state here ends at offset %d; "+
			"facts cannot be given up: restore the topic from a copy, or start with the directory %s of a node that has folded more, or begin another --namespace",
			gap, topic, partition, log.start, next, s.dir)
	case log.end == 0 && next > 0:
		return fmt.Errorf("%w: topic %s partition %d is empty, and the state here ends at offset %d: the topic was recreated or emptied; "+
			"restore it from a copy, or, to start over and have every submission that is still in %s judged again, delete %s",
			ErrGap, topic, partition, next, s.ns.topics.Input(events.Submissions), s.dir)
	}
	return nil
}

// refuseGaps refuses to delete a state that the log cannot bring back.
func (s *stateStore) refuseGaps(ctx context.Context) error {
	logs, err := s.extents(ctx)
	if err != nil {
		return err
	}
	for p := range s.ns.partitions {
		if err := s.refuseGap(ctx, p, logs[p], 0); err != nil {
			return err
		}
	}
	return nil
}

// anchorWait bounds the read of an anchor's record at a change of epoch, where the owner waits for it.
const anchorWait = 2 * time.Second

// recordAt returns a function that reads a record of a partition of events; false means that the log does not hold it.
func (s *stateStore) recordAt(ctx context.Context, partition int32) func(int64) (events.Record, bool, error) {
	return recordAt(ctx, s.ns.cluster, s.ns.topics.Events(), partition)
}

func recordAt(ctx context.Context, c *kafka.Cluster, topic string, partition int32) func(int64) (events.Record, bool, error) {
	return func(offset int64) (events.Record, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, anchorWait)
		defer cancel()
		r, err := c.ReadAt(ctx, topic, partition, offset)
		var out *kafka.OutOfRangeError
		if errors.As(err, &out) || errors.Is(err, kafka.ErrNoRecord) {
			return r, false, nil
		}
		return r, err == nil, err
	}
}
