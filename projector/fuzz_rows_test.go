package projector

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// FuzzStoredRow writes an arbitrary row into an intact store, reopens it and reads everything. An invalid row is an error, and
// never a panic.
func FuzzStoredRow(f *testing.F) {
	base := storeOfOneTask(f)
	s, err := Open("state", Options{Namespace: "n", FS: base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))}), CacheBytes: 1 << 20, MemTableBytes: 64 << 10})
	require.NoError(f, err)
	it, err := s.db.NewIter(nil)
	require.NoError(f, err)
	for it.First(); it.Valid(); it.Next() {
		f.Add(append([]byte{}, it.Key()...), append([]byte{}, it.Value()...))
		f.Add(append(append([]byte{}, it.Key()...), 0), []byte{0xff})
		f.Add(append([]byte{}, it.Key()[:len(it.Key())-1]...), []byte(nil))
	}
	require.NoError(f, it.Close())
	require.NoError(f, s.Close())
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if len(key) == 0 || len(key) > 1000 || len(value) > 10_000 {
			return
		}
		fs := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
		o := Options{Namespace: "n", FS: fs, CacheBytes: 1 << 20, MemTableBytes: 64 << 10}
		s, err := Open("state", o)
		require.NoError(t, err)
		require.NoError(t, s.db.Set(key, value, pebble.NoSync))
		require.NoError(t, s.Close())
		if s, err = Open("state", o); err != nil {
			require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, ErrFormat) || errors.Is(err, ErrNamespace) || errors.Is(err, ErrNewer), "%v", err)
			return
		}
		readAll(s)
		require.NoError(t, s.Close())
	})
}

// readAll calls every read that the engine uses. The results do not matter here, because the changed row may be valid.
func readAll(s *Store) {
	s.Rejection(3, events.Submissions, 1)
	s.List(Filter{})
	s.List(Filter{States: []events.TaskState{events.TaskStatePending}, Limit: 1})
	s.List(Filter{Workflow: "ship", Labels: map[string]string{"k": "v"}})
	s.CheckIndexes()
	s.States()
	for _, n := range append(s.Partitions(), 0, 3) {
		p := s.Partition(n)
		p.Info()
		snap, _, _, err := p.Snapshot()
		if err == nil {
			if state, err := events.OpenState(n, snap, p.Loader()); err == nil {
				state.Task("t")
				state.Touch("t")
				state.Flush(nil)
			}
		}
		p.Task("t")
		for agent := range p.Queues() {
			p.Ready(events.Line{Queue: agent, Operation: events.Do}, 10)
		}
		p.Ready(events.Line{Queue: "alpha", Operation: events.Do}, 10)
		p.Due(1<<60, 10)
		p.Running(DueRow{}, 10)
		p.NextDue()
		p.EndedBefore(1<<60, 10)
		p.Unplanned(10)
		s.HistoryOffsets(n, "t", -1, 10)
	}
}

// storeOfOneTask returns a store with a row of each kind.
func storeOfOneTask(f testing.TB) *vfs.MemFS {
	f.Helper()
	fs := vfs.NewCrashableMem()
	s, err := Open("state", Options{Namespace: "n", FS: fs, CacheBytes: 1 << 20, MemTableBytes: 64 << 10})
	require.NoError(f, err)
	row := func(id string, state events.TaskState, k events.Keys) events.TaskRow {
		task := &events.Task{ID: id, Run: 1, Workflow: "ship", State: state, SubmittedAt: 5, UpdatedAt: 5, Labels: map[string]string{"k": "v"}}
		if state.Ended() {
			task.EndedAt = 9
		}
		b, err := events.Marshal(task)
		require.NoError(f, err)
		k.State, k.Workflow, k.SubmittedAt, k.EndedAt, k.Labels = state, "ship", 5, task.EndedAt, task.Labels
		r := events.TaskRow{ID: id, Encoding: b, Keys: k}
		if id == "t" { // with a row of each kind
			r.Encoding = append(b[:len(b)-1], `,"steps":[{"path":"a","state":"skipped"}],"rows":{"input":true,"output":true,"steps":1,"requests":2}}`...)
			r.Others = 5
			r.Rows = []events.PartRow{
				{Kind: events.KindInput, ID: "t", Encoding: []byte(`1`)}, {Kind: events.KindOutput, ID: "t", Encoding: []byte(`{}`)},
				{Kind: events.KindStep, ID: "t\x00p", Encoding: []byte(`{"ordinal":1,"step":{"path":"p","state":"running"}}`)},
				{Kind: events.KindRequest, ID: "t\x00q", Encoding: []byte(`{}`)},
				{Kind: events.KindRequest, ID: "t\x00r", Encoding: []byte(`{"held":{"id":"r","kind":"cancel","task":"t"}}`)},
			}
		}
		return r
	}
	partition, err := events.Marshal(events.PartitionState{Partition: 3})
	require.NoError(f, err)
	held, err := events.Marshal(events.HeldRequest{Request: events.Request{ID: "q", Task: "u"}, ExpiresAt: 7})
	require.NoError(f, err)
	d := &events.Delta{Partition: 3, Next: 4, Rejected: []events.Rejection{{Input: events.Submissions, Offset: 1, Fact: 3, At: 5}}, History: []events.History{{Task: "t", Offset: 2}}, Tasks: []events.TaskRow{
		row("e", events.TaskStateProcessed, events.Keys{}),
		row("t", events.TaskStateProcessing, events.Keys{Due: 8, Ready: []events.ReadyKey{{Agent: "alpha", Path: "a", Operation: events.Do, Since: 5, Priority: 2}}}),
		row("u", events.TaskStatePending, events.Keys{Unplanned: true}),
	}, Parts: []events.PartRow{{Kind: events.KindPartition, Encoding: partition}, {Kind: events.KindHeld, ID: "u\x00q", Encoding: held}}}
	require.NoError(f, s.Commit(Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]Anchor{3: {Offset: 3, Hash: "x"}}}))
	require.NoError(f, s.CheckIndexes())
	require.NoError(f, s.Sync())
	require.NoError(f, s.Close())
	return fs
}
