package node_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// spoilRow writes a row of a task that cannot be decoded, without a fact.
func spoilRow(t *testing.T, p *process, task string) {
	t.Helper()
	// The owner may still be committing the last facts. A commit of its state between the two calls below would move the offset.
	synctest.Wait()
	snap, _, _, err := p.Store().Partition(0).Snapshot()
	require.NoError(t, err)
	require.NoError(t, p.Store().Commit(projector.Batch{Deltas: []*events.Delta{{
		Next: snap.Next, Sum: snap.Sum, Runs: snap.Runs, Tasks: []events.TaskRow{{ID: task, Encoding: []byte(`{"id":`)}},
	}}}))
}

// A row that cannot be read is no fault of the submission that needs it.
func TestADamagedRowIsRebuiltFromTheLogOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		p := w.node(dir)
		w.apply(p, order)
		w.hire(nil)
		w.submit("before")
		w.watch.ended("before")
		spoilRow(t, p, "first")
		w.submit("first", "later")
		w.watch.ended("first", "later")
		require.Len(t, w.logs.find("the state of this partition cannot be used"), 1)
		require.Empty(t, w.read(w.topics.DeadLetters(events.Submissions), 0))

		spoilRow(t, p, "second")
		w.submit("second")
		err := <-p.ended
		require.ErrorIs(t, err, node.ErrStore)
		require.ErrorContains(t, err, "partition 0")
		require.ErrorContains(t, err, "the rebuilt state is damaged again")
		t.Log(err)
		p.ended <- err
		_ = p.stop()

		p = w.node(dir)
		w.watch.ended("second")
		require.NoError(t, p.stop())
		w.watch.verify()
		w.proveHashes(dir)
	})
}

// The state is found not to fit the log when a new epoch begins. The node need not be restarted for that.
func TestAStateOfAnotherLogIsRebuiltWithoutARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		dir := t.TempDir()
		p := w.node(dir)
		w.apply(p, order)
		w.hire(nil)
		w.submit("before")
		w.watch.ended("before")
		end := w.end(0)
		_, err := p.Store().Wait(t.Context(), 0, func(i projector.Info) bool { return i.Next >= end })
		require.NoError(t, err)
		snap, anchor, _, err := p.Store().Partition(0).Snapshot()
		require.NoError(t, err)
		anchor.Hash = "other"
		require.NoError(t, p.Store().Commit(projector.Batch{
			Deltas:  []*events.Delta{{Next: snap.Next, Sum: snap.Sum, Runs: snap.Runs}},
			Anchors: map[int32]projector.Anchor{0: anchor},
		}))
		stray, err := events.EncodeFact(&events.Fact{Time: events.At(time.Now()), Body: &events.PartitionClaimed{ID: "a", Prev: "b", Owner: "c"}}, 0, "/x")
		require.NoError(t, err)
		w.produce(w.topics.Events(), 0, stray) // ends the epoch
		w.submit("after")
		w.watch.ended("after")
		require.Len(t, w.logs.find("the state of this partition cannot be used"), 1)
		require.Empty(t, p.ended)
		require.NoError(t, p.stop())
		w.watch.verify()
		w.proveHashes(dir)
	})
}

// The copied state is spoilt before the log's next hash, which finds it.
func TestAStateThatDiffersFromTheLogIsRebuilt(t *testing.T) {
	for name, followed := range map[string]bool{"owned": false, "followed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hashed := func(c *node.Config) {
					c.Settings = events.DefaultSettings()
					c.Settings.HashEvery = 10
					c.Alone = false
				}
				w := setup(t, 1)
				dir, old := t.TempDir(), filepath.Join(t.TempDir(), "old")
				p := w.node(dir, hashed)
				w.apply(p, order)
				w.hire(nil)
				w.submit("before")
				w.watch.ended("before")
				require.NoError(t, p.stop())
				copied(t, dir, old)
				w.state(old, func(p *process) {
					snap, _, _, err := p.Store().Partition(0).Snapshot()
					require.NoError(t, err)
					require.NoError(t, p.Store().Commit(projector.Batch{Deltas: []*events.Delta{{Next: snap.Next, Sum: events.Hash{Lo: 7}, Runs: snap.Runs}}}))
				}, hashed)
				owner := w.node(dir, hashed)
				after := ids("after", 10)
				w.submit(after...)
				w.watch.ended(after...)
				if !followed {
					require.NoError(t, owner.stop())
				}
				p = w.node(old, hashed)
				w.submit("last")
				w.watch.ended("last")
				for p.Ready() != nil {
					w.pause(t.Context(), "the node to be ready")
				}
				require.Len(t, w.logs.find("the state of this partition cannot be used"), 1)
				require.NoError(t, p.stop())
				w.watch.verify()
				w.proveHashes(old)
			})
		})
	}
}

func TestWhichFaultsRemoveTheStateOfAPartition(t *testing.T) {
	for name, c := range map[string]struct {
		cause         error
		removed, ends bool
	}{
		"a damaged row":         {cause: fmt.Errorf("look: %w", projector.ErrDamaged), removed: true},
		"a differing hash":      {cause: errors.Join(supervisor.ErrFold, events.ErrStateHash), removed: true},
		"a full disk":           {cause: fmt.Errorf("%w: %w", projector.ErrRead, syscall.ENOSPC), ends: true},
		"a failing disk":        {cause: fmt.Errorf("%w: %w", projector.ErrRead, syscall.EIO), ends: true},
		"a log that was cut":    {cause: projector.ErrAnchor, removed: true},
		"an end that is gone":   {cause: errors.Join(supervisor.ErrFold, supervisor.ErrPosition), removed: true},
		"an input that is gone": {cause: fmt.Errorf("%w: %w", supervisor.ErrInputLost, supervisor.ErrPosition)},
		"a newer log":           {cause: events.ErrReaderTooOld},
		"an unknown fact":       {cause: events.ErrUnknownFact},
		"something not thought": {cause: errors.New("other")},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 1)
				dir := t.TempDir()
				p := w.node(dir)
				w.apply(p, order)
				w.hire(nil)
				w.submit("one")
				w.watch.ended("one")
				require.NoError(t, p.stop())
				w.state(dir, func(p *process) {
					before, err := p.Store().PartitionInfo(0)
					require.NoError(t, err)
					require.Positive(t, before.Next)
					repaired := p.Repair(0, c.cause) == nil
					after, err := p.Store().PartitionInfo(0)
					require.NoError(t, err)
					require.Equal(t, c.removed, repaired)
					require.Equal(t, c.removed, after.Next == 0)
					require.Equal(t, c.ends, p.Failed() != nil)
					if c.removed {
						require.Error(t, p.Repair(0, c.cause), "once in a process")
					}
				})
			})
		})
	}
}
