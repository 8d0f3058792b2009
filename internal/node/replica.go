package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
	"golang.org/x/sync/errgroup"
)

// commitEvery bounds how far the store lags behind the fold while the log is read faster than it grows. At the end of the log,
// commits are immediate.
const commitEvery = 100 * time.Millisecond

// replicaRecords bounds one fetch of all partitions together. It is larger than the reader's default, since after a
// rebuild nothing waits for the first records.
const replicaRecords = 16_384

// replica folds the partitions that others own into this node's store: reads of them stay here, and a take-over has
// little left to fold. It writes nothing to the log and decides nothing. Partitions are folded in parallel.
//
// Invariant: a partition is written by its shell or by the replica, never by both. drop returns when the replica has
// stopped writing; the channel that a shell's Revoke returns is closed when the shell has.
type replica struct {
	store  *stateStore
	reader *kafka.Reader
	// goals are the ends of events at the start, by partition: a partition that has been folded up to its goal has
	// caught up.
	goals map[int32]int64

	// mu guards followed. It may be locked while a following's mu is held, but not vice versa.
	mu       sync.Mutex
	followed map[int32]*following
	// follows is the same as followed, by partition, for readers that must not wait for mu.
	follows []atomic.Bool
	// lost says that a partition's log cannot be folded here.
	lost []atomic.Bool
}

// following is one partition that is followed.
type following struct {
	partition int32
	// mu is held while a fetch is folded and committed. It guards the fields below.
	mu     sync.Mutex
	folder *projector.Folder
	// stored is the store's error, which ends the node.
	stored error
	// committed is when the store was last written.
	committed time.Time
	// dropped says that nothing more may be written.
	dropped bool
}

// newReplica follows all partitions; those that are assigned to this node leave it.
func newReplica(ctx context.Context, store *stateStore) (*replica, error) {
	ns := store.ns
	ends, err := ns.cluster.EndOffsets(ctx, ns.all(ns.topics.Events()))
	if err != nil {
		return nil, err
	}
	r, err := kafka.NewReader(ns.cluster, kafka.ReaderConfig{KeepControl: true, MaxRecords: replicaRecords})
	if err != nil {
		return nil, err
	}
	s := &replica{store: store, reader: r, goals: ends[ns.topics.Events()], followed: map[int32]*following{}, follows: make([]atomic.Bool, ns.partitions), lost: make([]atomic.Bool, ns.partitions)}
	for p := range ns.partitions {
		if err := s.follow(p); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// follow begins to fold a partition from where its state ends. It does nothing if the partition is followed already: a node that
// has given up its partitions loses them once more when it leaves the group.
func (s *replica) follow(partition int32) error {
	s.mu.Lock()
	already := s.followed[partition] != nil
	s.mu.Unlock()
	if already {
		return nil
	}
	f := &following{partition: partition}
	next, err := s.open(f)
	if errors.Is(err, events.ErrReaderTooOld) { // the node serves what it can, and is not ready
		s.store.log.Error("the stored state needs a newer build; the partition is not followed", "partition", partition, "error", err)
		s.lost[partition].Store(true)
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed[partition] = f
	s.follows[partition].Store(true)
	s.lost[partition].Store(false)
	s.reader.Add(s.store.ns.topics.Events(), partition, next, -1)
	return nil
}

// open reads the state from the store, and returns where to continue reading.
func (s *replica) open(f *following) (next int64, err error) {
	part := s.store.Partition(f.partition)
	snap, _, _, err := part.Snapshot()
	if err != nil {
		return 0, fmt.Errorf("open partition %d to follow it: %w", f.partition, err)
	}
	state, err := events.OpenStateAt(s.store.ns.maxLevel, f.partition, snap, part.Loader())
	if err != nil {
		return 0, fmt.Errorf("open partition %d to follow it: %w", f.partition, err)
	}
	var voids int64 // are counted
	f.folder = projector.NewFolder(projector.Folding{State: state, TopicID: s.store.topic, Evict: true,
		Commit: func(d *events.Delta, a projector.Anchor) error {
			s.store.takeovers.void(f.partition, uint64(state.Void-voids))
			voids = state.Void
			f.stored = s.store.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{f.partition: a}})
			return f.stored
		},
	})
	if state.Next > 0 {
		return state.Next, nil
	}
	return s.store.first(f.partition)
}

// drop stops following a partition. When it returns, the replica no longer writes it.
func (s *replica) drop(partition int32) {
	s.mu.Lock()
	f := s.followed[partition]
	s.mu.Unlock()
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.stop(f)
}

// stop is called with the following's mu held.
func (s *replica) stop(f *following) {
	f.dropped = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followed[f.partition] != f {
		return
	}
	delete(s.followed, f.partition)
	s.follows[f.partition].Store(false)
	s.reader.Remove(s.store.ns.topics.Events(), f.partition)
}

// readFrom reads a partition from an offset on, if it is still followed.
func (s *replica) readFrom(f *following, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followed[f.partition] == f {
		s.reader.Add(s.store.ns.topics.Events(), f.partition, next, -1)
	}
}

// Run folds until ctx ends.
func (s *replica) Run(ctx context.Context) error {
	for {
		fetches, err := s.reader.Poll(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		of := map[int32][]kafka.Fetch{}
		for _, f := range fetches {
			of[f.Partition] = append(of[f.Partition], f)
		}
		var g errgroup.Group
		g.SetLimit(runtime.GOMAXPROCS(0))
		for partition, list := range of {
			s.mu.Lock()
			f := s.followed[partition]
			s.mu.Unlock()
			if f != nil {
				g.Go(func() error { return s.fold(ctx, f, list) })
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
}

// fold folds fetches of one partition. It returns only errors of the store, without which the node cannot continue.
func (s *replica) fold(ctx context.Context, f *following, fetches []kafka.Fetch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fetch := range fetches {
		if f.dropped || ctx.Err() != nil {
			return nil
		}
		err := f.fold(fetch)
		switch {
		case f.stored != nil:
			return fmt.Errorf("follow partition %d: %w", f.partition, f.stored)
		case err != nil && s.repaired(ctx, f, err):
			return nil
		case err != nil:
			// From now on its owner answers reads of it, and this node is not ready.
			s.store.log.Error("the log cannot be folded; the partition is no longer followed", "partition", f.partition, "error", err)
			s.lost[f.partition].Store(true)
			s.stop(f)
			return nil
		}
		if fetch.Err != nil {
			return s.interrupted(ctx, f, fetch.Err) // it is the partition's last fetch
		}
	}
	return nil
}

// repaired begins again from an emptied state, if the stored state is to blame for an error of the fold.
func (s *replica) repaired(ctx context.Context, f *following, cause error) bool {
	if s.store.repair(ctx, f.partition, errors.Join(supervisor.ErrFold, cause)) != nil {
		return false
	}
	next, err := s.open(f)
	if err != nil {
		return false
	}
	s.readFrom(f, next)
	return true
}

// fold folds a fetch, and commits at the end of the log and every commitEvery before it.
func (f *following) fold(fetch kafka.Fetch) error {
	from := f.folder.State().Next
	for i := range fetch.Records {
		r := &fetch.Records[i]
		if r.Offset < from { // fetched for an earlier following of the partition
			continue
		}
		if err := f.folder.Take(r); err != nil {
			return err
		}
		if f.folder.Full() {
			if err := f.commit(); err != nil {
				return err
			}
		}
	}
	if fetch.Err == nil && fetch.Next < fetch.HighWatermark && time.Since(f.committed) < commitEvery {
		return nil
	}
	return f.commit()
}

func (f *following) commit() error {
	f.committed = time.Now()
	return f.folder.Flush()
}

// interrupted reads a partition again after a pause. If the log is not the one that was folded, it rebuilds the partition.
func (s *replica) interrupted(ctx context.Context, f *following, cause error) error {
	log := s.store.log.With("partition", f.partition, "error", cause)
	next := f.folder.State().Next
	if errors.As(cause, new(*kafka.OutOfRangeError)) || errors.As(cause, new(*kafka.DataLossError)) {
		switch err := s.store.rebuildable(ctx, f.partition, next); {
		case errors.Is(err, ErrGap):
			// This is like a log that cannot be folded, because a rebuild would need records that are gone.
			s.store.log.Error("the log cannot be folded; the partition is no longer followed", "partition", f.partition, "error", err)
			s.lost[f.partition].Store(true)
			s.stop(f)
			return nil
		case err == nil:
			log.Warn("the log is not the one that the state was folded from; the partition is rebuilt from the log")
			if err := s.store.Reset(f.partition); err != nil {
				return err
			}
			if next, err = s.open(f); err != nil {
				return err
			}
			s.readFrom(f, next)
			return nil
		}
	}
	log.Warn("following is interrupted; trying again")
	time.AfterFunc(sendPause, func() {
		if ctx.Err() == nil {
			s.readFrom(f, next)
		}
	})
	return nil
}

// close ends the reading.
func (s *replica) close() { s.reader.Close() }
