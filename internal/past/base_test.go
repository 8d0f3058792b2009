package past_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/past"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

// checkpoint makes a checkpoint of the state of a node that has folded the first records of each partition, up to ends, and whose tasks an owner has planned.
func (w world) checkpoint(t *testing.T, dir string, ends []int) {
	t.Helper()
	w.checkpointOf(t, dir, ends, func(*events.Delta) {})
}

// spoiled makes a checkpoint that is whole and fits the log, and of which no task can be read.
func (w world) spoiled(t *testing.T, dir string, ends []int) {
	t.Helper()
	spoiled := 0
	w.checkpointOf(t, dir, ends, func(d *events.Delta) {
		for i := range d.Tasks {
			d.Tasks[i].Encoding = []byte("spoiled")
			spoiled++
		}
	})
	require.Positive(t, spoiled)
}

// checkpointOf is checkpoint with a change of what the owner has planned.
func (w world) checkpointOf(t *testing.T, dir string, ends []int, change func(*events.Delta)) {
	t.Helper()
	id, _, err := past.Namespace(t.Context(), w.cluster, "sim")
	require.NoError(t, err)
	topic, err := w.cluster.TopicID(t.Context(), topics.Events())
	require.NoError(t, err)
	store, err := projector.Open(t.TempDir(), projector.Options{Namespace: id})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	for p, end := range ends {
		_, err := node.Fold(t.Context(), w.cluster, store, node.FoldRange{Topic: topics.Events(), Partition: int32(p), To: int64(end), TopicID: topic})
		require.NoError(t, err)
		part := store.Partition(int32(p))
		snap, _, exists, err := part.Snapshot()
		require.NoError(t, err)
		if !exists {
			continue
		}
		s, err := events.OpenState(int32(p), snap, part.Loader())
		require.NoError(t, err)
		ids, err := part.Unended("", 10_000)
		require.NoError(t, err)
		for _, id := range ids {
			s.Touch(id)
		}
		d, err := s.Flush(func(*events.Task) events.Planned {
			return events.Planned{Ready: []events.ReadyKey{{Agent: "a", Path: "x", Operation: events.Do}}}
		})
		require.NoError(t, err)
		change(d)
		require.NoError(t, store.Commit(projector.Batch{Deltas: []*events.Delta{d}}))
	}
	_, err = projector.MakeCheckpoint(t.Context(), store, dir, projector.About{Namespace: "sim", NamespaceID: id, Time: events.At(time.Now())})
	require.NoError(t, err)
}

// partitionRows is all of a partition of a store: what the state hash covers, and what readers ask for beside it.
type partitionRows struct {
	info      projector.Info
	tasks     []string
	histories map[string][]int64
	unplanned []string
	queues    map[string]int64
}

// rows returns the partitions of the state of a copy. The anchors must be about the topic of the copy, or a node would fold it again.
func (w world) rows(t *testing.T, dir string) (list []partitionRows) {
	t.Helper()
	var topic projector.TopicID
	onBroker(t, dir, func(c *kafka.Cluster) {
		id, err := c.TopicID(t.Context(), topics.Events())
		require.NoError(t, err)
		topic = id
	})
	id, _, err := past.Namespace(t.Context(), w.cluster, "sim")
	require.NoError(t, err)
	store, err := projector.OpenIntact(filepath.Join(dir, past.StateDir), projector.Options{Namespace: id})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	for p := range w.log {
		part := store.Partition(int32(p))
		var r partitionRows
		r.info, err = part.Info()
		require.NoError(t, err)
		if r.info.Exists {
			require.Equal(t, topic, r.info.Anchor.TopicID, "partition %d", p)
		}
		r.info.Anchor.TopicID = projector.TopicID{}
		r.tasks, err = part.Tasks("", 100_000)
		require.NoError(t, err)
		r.histories = map[string][]int64{}
		for _, id := range r.tasks {
			r.histories[id], err = store.HistoryOffsets(int32(p), id, -1, 100_000)
			require.NoError(t, err)
		}
		r.unplanned, err = part.Unplanned(100_000)
		require.NoError(t, err)
		r.queues = part.Queues()
		list = append(list, r)
	}
	return list
}

// A copy that begins with a checkpoint is the copy that a fold from the first fact makes, with fewer facts folded: whether the checkpoint is before the moment in all
// partitions or in some, or just at it. Of two, the nearer one is taken.
func TestTheFoldBeginsWithTheNearestCheckpoint(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 3))
	list := worlds(t, 3)
	began, reset, atIt := 0, 0, 0
	for i := range max(*instants/2, 3) {
		w := list[i%len(list)]
		m, ends := w.moment(rnd)
		checkpoints := t.TempDir()
		far, near := make([]int, len(ends)), make([]int, len(ends))
		saved, beyond := 0, false
		for p, end := range ends {
			near[p] = rnd.IntN(end + 1)
			switch {
			case i%2 == 0 && p == 0: // behind the moment, unless the log ends there
				near[p] = len(w.log[p])
			case rnd.IntN(4) == 0: // just at it
				near[p] = end
				atIt++
			}
			if i%4 < 2 {
				far[p] = min(near[p], end) / 2
			}
			if near[p] <= end {
				saved += near[p]
			} else {
				beyond = true
			}
		}
		w.checkpoint(t, filepath.Join(checkpoints, "far"), far)
		w.checkpoint(t, filepath.Join(checkpoints, "near"), near)
		if farSaved := sum(far); saved < farSaved { // "near" is behind the moment where most of the facts are
			saved = farSaved
			beyond = false
		}
		whole, begun := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "begun")
		cfg := past.Config{Cluster: w.cluster, Namespace: "sim", Moment: m, Dir: whole}
		want, err := past.Copy(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, want.Facts, want.Folded)
		require.Empty(t, want.Checkpoint)
		cfg.Dir, cfg.Checkpoints = begun, []string{checkpoints}
		got, err := past.Copy(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, want.Hashes, got.Hashes)
		require.Equal(t, want.Ends, got.Ends)
		require.EqualValues(t, int(want.Facts)-saved, got.Folded)
		require.Equal(t, saved > 0, got.Checkpoint != "")
		require.Equal(t, w.rows(t, whole), w.rows(t, begun))
		id, _, err := past.Namespace(t.Context(), w.cluster, "sim")
		require.NoError(t, err)
		require.Equal(t, tasks(t, whole, id), tasks(t, begun, id))
		if got.Checkpoint != "" {
			began++
		}
		if beyond {
			reset++
		}
		require.NoError(t, os.RemoveAll(filepath.Dir(whole)))
		require.NoError(t, os.RemoveAll(filepath.Dir(begun)))
	}
	require.Positive(t, began)
	require.Positive(t, reset)
	require.Positive(t, atIt)
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}

// A difference is the same from a checkpoint on, too.
func TestTheDifferenceBeginsWithTheNearestCheckpoint(t *testing.T) {
	t.Parallel()
	w := worlds(t, 1)[0]
	checkpoints := t.TempDir()
	ends := make([]int, len(w.log))
	var half past.Moment
	for p, records := range w.log {
		ends[p] = len(records) / 2
		half.Time = max(half.Time, records[ends[p]].Timestamp)
	}
	w.checkpoint(t, filepath.Join(checkpoints, "c"), ends)
	cfg := past.DiffConfig{Cluster: w.cluster, Namespace: "sim", From: half, To: past.Moment{Time: events.At(time.Now().AddDate(500, 0, 0))}}
	want, err := past.Diff(t.Context(), cfg)
	require.NoError(t, err)
	cfg.Checkpoints = []string{checkpoints}
	got, err := past.Diff(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(checkpoints, "c"), got.Checkpoint)
	require.EqualValues(t, int(want.Folded)-sum(ends), got.Folded)
	got.Checkpoint, got.Folded = want.Checkpoint, want.Folded
	require.Equal(t, want, got)
	require.NotEmpty(t, got.Changes)
}

// A checkpoint that is damaged, of another log, or behind the moment is passed over.
func TestACheckpointThatDoesNotFitIsPassedOver(t *testing.T) {
	t.Parallel()
	list := worlds(t, 2)
	w, other := list[0], list[1]
	checkpoints := t.TempDir()
	ends := make([]int, len(w.log))
	for p, records := range w.log {
		ends[p] = len(records)
	}
	foreign := make([]int, len(other.log))
	for p, records := range other.log {
		foreign[p] = len(records) / 2
	}
	other.checkpoint(t, filepath.Join(checkpoints, "foreign"), foreign)
	w.checkpoint(t, filepath.Join(checkpoints, "damaged"), ends)
	tables, err := filepath.Glob(filepath.Join(checkpoints, "damaged", "state", "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	b, err := os.ReadFile(tables[0])
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.Remove(tables[0])) // not in place: it is a link to a table of a store
	require.NoError(t, os.WriteFile(tables[0], b, 0o600))
	cfg := past.Config{
		Cluster: w.cluster, Namespace: "sim", Moment: past.Moment{Time: events.At(time.Now().AddDate(500, 0, 0))},
		Checkpoints: []string{filepath.Join(checkpoints, "nowhere"), checkpoints}, Dir: filepath.Join(t.TempDir(), "past"),
	}
	mark, err := past.Copy(t.Context(), cfg)
	require.NoError(t, err)
	require.Empty(t, mark.Checkpoint)
	require.Equal(t, mark.Facts, mark.Folded)
	for p, records := range w.log {
		want, err := folded(t, p, records).Hash()
		require.NoError(t, err)
		require.Equal(t, want, mark.Hashes[p])
	}
}

// The copy for a task that waits for a permit has all partitions: the limit and the tasks that hold its permits may be in any.
func TestTheCopyForATaskThatWaitsForAPermitIsWhole(t *testing.T) {
	t.Parallel()
	for _, w := range worlds(t, 8) {
		m, task := w.waiting(t)
		if task == "" {
			continue
		}
		cfg := past.Config{Cluster: w.cluster, Namespace: "sim", Moment: m, Dir: filepath.Join(t.TempDir(), "all")}
		want, err := past.Copy(t.Context(), cfg)
		require.NoError(t, err)
		cfg.Dir, cfg.Task = filepath.Join(t.TempDir(), "task"), task
		got, err := past.Copy(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, want, got)
		return
	}
	t.Fatal("no task of any run waits for a permit")
}

// waiting returns a fact after which its task waits for a permit, and the task; none if there is no such fact.
func (w world) waiting(t *testing.T) (m past.Moment, task string) {
	t.Helper()
	for p, records := range w.log {
		s := events.NewState(int32(p), nil)
		for _, r := range records {
			f, err := events.DecodeFact(&r)
			require.NoError(t, err)
			_, err = s.Apply(f, r.Offset)
			require.NoError(t, err)
			x, err := s.Task(f.Task)
			require.NoError(t, err)
			if f.Task == "" || x == nil {
				continue
			}
			for why := range events.WaitingFor(x, f.Time) {
				if why.Kind == events.WaitingConcurrency || why.Kind == events.WaitingLimit {
					return past.Moment{Fact: true, Partition: int32(p), Offset: r.Offset}, f.Task
				}
			}
		}
	}
	return m, ""
}
