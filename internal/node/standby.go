package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
)

// standbyTasks bounds the tasks that a followed partition keeps in memory between two fetches: enough for those that
// are under way, so that few are read from the store again.
const standbyTasks = 8192

// standby folds the partitions that others own into this node's store: reads of them stay here, and a take-over has
// little left to fold. It writes nothing to the log and decides nothing.
//
// Invariant: a partition is written by its shell or by the standby, never by both. drop returns when the standby writes
// no more; a shell's Revoke tells when the shell does not.
type standby struct {
	n      *Node
	reader *kafka.Reader
	topic  projector.TopicID

	// mu guards followed. It is held while a fetch is folded and committed.
	mu       sync.Mutex
	followed map[int32]*events.State
	// follows says the same, by partition, for readers who must not wait for mu.
	follows []atomic.Bool
}

func newStandby(n *Node, topic projector.TopicID) (*standby, error) {
	r, err := kafka.NewReader(n.cfg.Cluster, kafka.ReaderConfig{KeepControl: true})
	if err != nil {
		return nil, err
	}
	return &standby{n: n, reader: r, topic: topic, followed: map[int32]*events.State{}, follows: make([]atomic.Bool, n.partitions)}, nil
}

// follow begins to fold a partition from where the store stands.
func (s *standby) follow(partition int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin(partition)
}

// begin is called with mu held.
func (s *standby) begin(partition int32) error {
	part := s.n.store.Partition(partition)
	snap, _, _, err := part.Snapshot()
	if err != nil {
		return fmt.Errorf("open partition %d to follow it: %w", partition, err)
	}
	state, err := events.OpenState(partition, snap, part.Loader())
	if err != nil {
		return fmt.Errorf("open partition %d to follow it: %w", partition, err)
	}
	s.followed[partition] = state
	s.follows[partition].Store(true)
	s.reader.Add(s.n.topics.Events(), partition, state.Next, -1)
	return nil
}

// drop ends the following of a partition. When it returns, the standby writes nothing more of it.
func (s *standby) drop(partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop(partition)
}

func (s *standby) stop(partition int32) {
	delete(s.followed, partition)
	s.follows[partition].Store(false)
	s.reader.Remove(s.n.topics.Events(), partition)
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
		for _, f := range fetches {
			if err := s.take(ctx, f); err != nil {
				return err
			}
		}
	}
}

// take folds one fetch. Its errors are the store's: without it the node cannot go on.
func (s *standby) take(ctx context.Context, f kafka.Fetch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.followed[f.Partition]
	if state == nil {
		return nil
	}
	// What was fetched for an earlier following may begin before this one.
	for len(f.Records) > 0 && f.Records[0].Offset < state.Next {
		f.Records = f.Records[1:]
	}
	if len(f.Records) > 0 {
		var stored error
		err := projector.Fold(ctx, projector.Folding{
			State: state, TopicID: s.topic, Every: len(f.Records),
			Read: func(yield func(events.Record) error) error {
				for _, r := range f.Records {
					if err := yield(r); err != nil {
						return err
					}
				}
				return nil
			},
			Commit: func(d *events.Delta, a projector.Anchor) error {
				stored = s.n.store.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{f.Partition: a}})
				return stored
			},
		})
		switch {
		case stored != nil:
			return fmt.Errorf("follow partition %d: %w", f.Partition, stored)
		case ctx.Err() != nil:
			return nil
		case err != nil:
			// Reads of it are passed to its owner from now on, and this node is not ready.
			s.n.cfg.Logger.Error("the log cannot be folded; the partition is not followed any more", "partition", f.Partition, "error", err)
			s.stop(f.Partition)
			return nil
		}
		if state.InMemory() > standbyTasks {
			var ids []string
			state.Loaded(func(t *events.Task) bool { ids = append(ids, t.ID); return true })
			for _, id := range ids {
				state.Evict(id)
			}
		}
	}
	if f.Err != nil {
		return s.interrupted(ctx, f)
	}
	return nil
}

// interrupted reads a partition again after a pause. Where the log is not the one that was folded, it is folded anew.
func (s *standby) interrupted(ctx context.Context, f kafka.Fetch) error {
	log := s.n.cfg.Logger.With("partition", f.Partition, "error", f.Err)
	if errors.As(f.Err, new(*kafka.OutOfRangeError)) || errors.As(f.Err, new(*kafka.DataLossError)) {
		log.Warn("the log is not the one that the state was folded from; the partition is rebuilt from the log")
		s.stop(f.Partition)
		if err := s.n.store.Reset(f.Partition); err != nil {
			return err
		}
		return s.begin(f.Partition)
	}
	log.Warn("following is interrupted; trying again")
	time.AfterFunc(sendPause, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state := s.followed[f.Partition]; state != nil && ctx.Err() == nil {
			s.reader.Add(s.n.topics.Events(), f.Partition, state.Next, -1)
		}
	})
	return nil
}

// close ends the reading.
func (s *standby) close() { s.reader.Close() }
