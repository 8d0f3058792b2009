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
	"golang.org/x/sync/errgroup"
)

// followEvery bounds how far the store lags behind what is folded while the log is read faster than it grows. What is at
// its end is written at once.
const followEvery = 100 * time.Millisecond

// standbyRecords bounds one fetch of all partitions together: more than the reader's own, since after a rebuild has begun
// nobody waits for the first of them.
const standbyRecords = 16_384

// standby folds the partitions that others own into this node's store: reads of them stay here, and a take-over has
// little left to fold. It writes nothing to the log and decides nothing. Partitions are folded beside each other.
//
// Invariant: a partition is written by its shell or by the standby, never by both. drop returns when the standby writes
// no more; a shell's Revoke tells when the shell does not.
type standby struct {
	n      *Node
	reader *kafka.Reader
	topic  projector.TopicID

	// mu guards followed. Who holds a following's may take it, not the reverse.
	mu       sync.Mutex
	followed map[int32]*following
	// follows says the same, by partition, for readers who must not wait for mu.
	follows []atomic.Bool
}

// following is the following of one partition.
type following struct {
	partition int32
	// mu is held while a fetch is folded and committed. It guards the fields below.
	mu     sync.Mutex
	folder *projector.Folder
	// stored is the store's error, which no other partition escapes.
	stored error
	// committed is when the store was last written.
	committed time.Time
	// dropped says that nothing may be written any more.
	dropped bool
}

func newStandby(n *Node, topic projector.TopicID) (*standby, error) {
	r, err := kafka.NewReader(n.cfg.Cluster, kafka.ReaderConfig{KeepControl: true, MaxRecords: standbyRecords})
	if err != nil {
		return nil, err
	}
	return &standby{n: n, reader: r, topic: topic, followed: map[int32]*following{}, follows: make([]atomic.Bool, n.partitions)}, nil
}

// follow begins to fold a partition from where the store stands.
func (s *standby) follow(partition int32) error {
	f := &following{partition: partition}
	next, err := s.open(f)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed[partition] = f
	s.follows[partition].Store(true)
	s.reader.Add(s.n.topics.Events(), partition, next, -1)
	return nil
}

// open reads the state from the store, and returns where to read on.
func (s *standby) open(f *following) (next int64, err error) {
	part := s.n.store.Partition(f.partition)
	snap, _, _, err := part.Snapshot()
	if err != nil {
		return 0, fmt.Errorf("open partition %d to follow it: %w", f.partition, err)
	}
	state, err := events.OpenState(f.partition, snap, part.Loader())
	if err != nil {
		return 0, fmt.Errorf("open partition %d to follow it: %w", f.partition, err)
	}
	f.folder = projector.NewFolder(projector.Folding{State: state, TopicID: s.topic, Evict: true,
		Commit: func(d *events.Delta, a projector.Anchor) error {
			f.stored = s.n.store.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{f.partition: a}})
			return f.stored
		},
	})
	return state.Next, nil
}

// drop ends the following of a partition. When it returns, the standby writes nothing more of it.
func (s *standby) drop(partition int32) {
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
func (s *standby) stop(f *following) {
	f.dropped = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followed[f.partition] != f {
		return
	}
	delete(s.followed, f.partition)
	s.follows[f.partition].Store(false)
	s.reader.Remove(s.n.topics.Events(), f.partition)
}

// readOn reads a partition from an offset on, if it is still followed.
func (s *standby) readOn(f *following, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followed[f.partition] == f {
		s.reader.Add(s.n.topics.Events(), f.partition, next, -1)
	}
}

// Run folds until ctx ends.
func (s *standby) Run(ctx context.Context) error {
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
				g.Go(func() error { return s.take(ctx, f, list) })
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
}

// take folds fetches of one partition. Its errors are the store's: without it the node cannot go on.
func (s *standby) take(ctx context.Context, f *following, fetches []kafka.Fetch) error {
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
		case err != nil:
			// Reads of it are passed to its owner from now on, and this node is not ready.
			s.n.cfg.Logger.Error("the log cannot be folded; the partition is not followed any more", "partition", f.partition, "error", err)
			s.stop(f)
			return nil
		}
		if fetch.Err != nil {
			return s.interrupted(ctx, f, fetch.Err) // nothing follows it
		}
	}
	return nil
}

// fold folds a fetch, and commits at the end of the log and every so often before it.
func (f *following) fold(fetch kafka.Fetch) error {
	from := f.folder.State().Next
	for i := range fetch.Records {
		r := &fetch.Records[i]
		if r.Offset < from { // fetched for an earlier following, which began before this one
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
	if fetch.Err == nil && fetch.Next < fetch.HighWatermark && time.Since(f.committed) < followEvery {
		return nil
	}
	return f.commit()
}

func (f *following) commit() error {
	f.committed = time.Now()
	return f.folder.Flush()
}

// interrupted reads a partition again after a pause. Where the log is not the one that was folded, it is folded anew.
func (s *standby) interrupted(ctx context.Context, f *following, cause error) error {
	log := s.n.cfg.Logger.With("partition", f.partition, "error", cause)
	next := f.folder.State().Next
	if errors.As(cause, new(*kafka.OutOfRangeError)) || errors.As(cause, new(*kafka.DataLossError)) {
		switch err := s.gap(ctx, f.partition, next); {
		case errors.Is(err, ErrGap):
			// As for a log that cannot be folded: folding anew would begin at records that are gone, for ever.
			s.n.cfg.Logger.Error("the log cannot be folded; the partition is not followed any more", "partition", f.partition, "error", err)
			s.stop(f)
			return nil
		case err == nil:
			log.Warn("the log is not the one that the state was folded from; the partition is rebuilt from the log")
			if err := s.n.store.Reset(f.partition); err != nil {
				return err
			}
			if next, err = s.open(f); err != nil {
				return err
			}
			s.readOn(f, next)
			return nil
		}
	}
	log.Warn("following is interrupted; trying again")
	time.AfterFunc(sendPause, func() {
		if ctx.Err() == nil {
			s.readOn(f, next)
		}
	})
	return nil
}

// gap refuses a log that cannot be folded anew.
func (s *standby) gap(ctx context.Context, partition int32, next int64) error {
	ctx, cancel := context.WithTimeout(ctx, anchorWait)
	defer cancel()
	logs, err := s.n.extents(ctx)
	if err != nil {
		return err
	}
	return s.n.refuseGap(partition, logs[partition], next)
}

// close ends the reading.
func (s *standby) close() { s.reader.Close() }
