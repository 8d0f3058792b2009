package events_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// kept is a scribe with a store behind it.
type kept struct {
	*scribe
	store *store
}

func keeping(t *testing.T) *kept {
	st := newStore()
	w := &scribe{t: t, state: events.NewState(testPartition, st.load), now: testStart, step: 1000}
	w.claim("a0", "")
	return &kept{w, st}
}

func (k *kept) flush(agenda events.Agenda) *events.Delta {
	k.t.Helper()
	want := k.hash()
	d, err := k.state.Flush(agenda)
	require.NoError(k.t, err)
	require.Equal(k.t, want, d.Sum, "Hash and Flush agree")
	require.Equal(k.t, d.Sum, k.state.Sum())
	k.store.commit(k.t, d) // checks what each row replaces
	return d
}

func (k *kept) evictAll() {
	for id := range k.store.tasks {
		k.state.Evict(id)
	}
}

// A row says which row it replaces, even if its task was swept, accepted and swept again in between. Otherwise the store would
// never delete the index entries.
func TestRowsNameTheRowsThatTheyReplace(t *testing.T) {
	t.Parallel()
	life := func(k *kept) {
		k.submit("t")
		k.write("t", &events.TaskProcessed{})
	}
	sweep := func(k *kept) { k.write("", &events.TasksSwept{Tasks: []string{"t"}}) }
	for name, evict := range map[string]bool{"in memory": false, "evicted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rest := func(k *kept) {
				if evict {
					k.evictAll()
				}
			}
			k := keeping(t)
			life(k)
			k.flush(nil)
			rest(k)
			sweep(k)
			life(k)
			sweep(k)
			d := k.flush(nil)
			require.Len(t, d.Tasks, 1)
			require.Nil(t, d.Tasks[0].Encoding)
			require.NotNil(t, d.Tasks[0].Was)
			require.Empty(t, k.store.tasks)

			life(k)
			k.flush(nil)
			rest(k)
			sweep(k)
			life(k)
			require.Equal(t, events.TaskStateProcessed, k.flush(nil).Tasks[0].Was.State)

			sweep(k)
			k.flush(nil)
			life(k)
			sweep(k)
			require.Nil(t, k.flush(nil).Tasks[0].Was, "the store never had the task")
		})
	}
}

// A swept task is not loaded again while its row may still be in the store. When the row is gone, Evict drops the task's entry
// from memory.
func TestSweptTasksAreNotLoadedAgain(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	k.submit("t")
	k.write("t", &events.TaskProcessed{})
	k.flush(nil)
	k.evictAll()
	k.write("", &events.TasksSwept{Tasks: []string{"t"}})
	require.Nil(t, k.task("t"))
	k.state.Evict("t")
	require.Nil(t, k.task("t"), "not flushed, so not evicted")
	d, err := k.state.Flush(nil)
	require.NoError(t, err)
	require.Nil(t, k.task("t"), "not durable yet")
	k.store.commit(t, d)
	k.state.Evict("t")
	require.Zero(t, k.state.InMemory())
	require.Nil(t, k.task("t"))
	k.state.Loaded(func(*events.Task) bool { t.Fatal("nothing is loaded"); return true })
}

// An unknown task is looked for once, and is found when it has been accepted and evicted.
func TestAnUnknownTaskIsLookedForOnce(t *testing.T) {
	t.Parallel()
	loads, found := 0, events.StoredTask{}
	state := events.NewState(0, func(string) (events.StoredTask, error) { loads++; return found, nil })
	apply := func(f *events.Fact) {
		_, err := state.Apply(f, state.Next)
		require.NoError(t, err)
	}
	apply(&events.Fact{Time: 1, Body: &events.PartitionClaimed{ID: "a0"}})
	for range 2 {
		task, err := state.Task("t")
		require.NoError(t, err)
		require.Nil(t, task)
	}
	apply(&events.Fact{Time: 1, Epoch: state.Partition.Epoch, Task: "t", Body: &events.Submitted{Workflow: "w"}})
	require.Equal(t, 1, loads)
	d, err := state.Flush(nil)
	require.NoError(t, err)
	found = events.StoredTask{Encoding: slices.Clone(d.Tasks[0].Encoding), Keys: events.AppendKeys(nil, &d.Tasks[0].Keys)}
	state.Evict("t")
	task, err := state.Task("t")
	require.NoError(t, err)
	require.NotNil(t, task)
	require.Equal(t, 2, loads)
}

// A changed task is not evicted before its row is written.
func TestChangedTasksAreKept(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	k.submit("t")
	k.state.Evict("t")
	require.NotNil(t, k.task("t"))
	k.flush(nil)
	k.state.Evict("t")
	require.Zero(t, k.state.InMemory())
	require.Equal(t, events.TaskStatePending, k.task("t").State)
	n := 0
	k.state.Loaded(func(*events.Task) bool { n++; return false })
	require.Equal(t, 1, n)
}

// Touch makes the next Flush write a task's row again although no fact changed it, even if the task was evicted. It does not
// create a row for an unknown task.
func TestATouchedTaskIsWrittenAgain(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	k.submit("t")
	before := k.flush(nil).Sum
	k.evictAll()
	k.state.Touch("t")
	k.state.Touch("nobody")
	ready := []events.ReadyKey{{Agent: "a", Path: "a", Operation: events.Do, Since: testStart}}
	waits := []events.WaitCount{{Kind: events.WaitingSignal, N: 2}}
	d := k.flush(func(*events.Task) events.Planned { return events.Planned{Due: 7, Wake: 8, Ready: ready, Waits: waits} })
	require.Equal(t, before, d.Sum)
	require.Len(t, d.Tasks, 1)
	require.NotNil(t, d.Tasks[0].Encoding)
	require.Equal(t, events.Keys{State: events.TaskStatePending, Workflow: "w", SubmittedAt: k.task("t").SubmittedAt, Due: 7, Wake: 8, Ready: ready, Waits: waits}, d.Tasks[0].Keys)
	k.state.Touch("t")
	require.True(t, k.flush(nil).Tasks[0].Keys.Unplanned)
	k.write("t", &events.TaskProcessed{})
	keys := k.flush(nil).Tasks[0].Keys
	require.False(t, keys.Unplanned)
	require.Zero(t, keys.Due)
	require.Equal(t, k.now, keys.EndedAt)
}

// A delta names the facts about each task, and leaves out void records.
func TestADeltaNamesTheFactsOfEachTask(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	k.submit("t")
	k.put(k.log[1].fact, events.FateVoid)
	k.write("", &events.InputsPassed{})
	k.start("t", "a", 1)
	require.Equal(t, []events.History{{Task: "t", Offset: 1}, {Task: "t", Offset: 4}}, k.flush(nil).History)
	require.Empty(t, k.flush(nil).History)
}

// Two states that folded the same records have one hash, whatever was in memory in between (INV2).
func TestStatesOfTheSameFactsHashAlike(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	k.write("", &events.SettingsAdopted{Settings: events.DefaultSettings()})
	k.write("", &events.DefinitionAdopted{Workflow: "w", Hash: "d1", Version: 2, Body: raw(`{"steps":{}}`)})
	k.write("u", &events.RequestHeld{Request: events.Request{ID: "q", Kind: events.RequestCancel}})
	k.submit("t")
	d := k.flush(nil)
	s, err := events.OpenState(testPartition, k.store.snapshot(), k.store.load)
	require.NoError(t, err)
	require.Equal(t, d.Sum, s.Sum())
	require.Equal(t, k.state.Partition, s.Partition)
	require.Equal(t, k.state.Next, s.Next)
	require.Equal(t, k.state.Runs(), s.Runs())
	require.Equal(t, k.state.Definition("d1"), s.Definition("d1"))
	require.Equal(t, k.state.HeldFor("u"), s.HeldFor("u"))
	require.Equal(t, asJSON(t, k.task("t")), func() string { got, err := s.Task("t"); require.NoError(t, err); return asJSON(t, got) }())
	h, err := s.Hash()
	require.NoError(t, err)
	require.Equal(t, d.Sum, h)
	_, err = s.Apply(k.fact("u", &events.Submitted{Workflow: "w", Content: "c"}), s.Next)
	require.NoError(t, err)
	_, err = k.state.Apply(k.fact("u", &events.Submitted{Workflow: "w", Content: "c"}, func(f *events.Fact) { f.Time -= 1000 }), k.state.Next)
	require.NoError(t, err)
	h, err = s.Hash()
	require.NoError(t, err)
	require.Equal(t, k.hash(), h)
}

// A store that cannot load a task stops its caller.
func TestAStoreThatCannotLoadStopsItsCaller(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk")
	for name, load := range map[string]events.Loader{
		"an error": func(string) (events.StoredTask, error) { return events.StoredTask{}, broken },
		"a damaged row": func(string) (events.StoredTask, error) {
			return events.StoredTask{Encoding: []byte("{"), Keys: []byte("{}")}, nil
		},
		"damaged keys": func(string) (events.StoredTask, error) { return events.StoredTask{Encoding: []byte("{}")}, nil },
	} {
		s := events.NewState(testPartition, load)
		_, err := s.Apply(&events.Fact{Time: testStart, Body: &events.PartitionClaimed{ID: "a0"}}, 0)
		require.NoError(t, err)
		for sequence, b := range []events.Body{&events.Submitted{}, &events.TaskParked{}, &events.TasksSwept{Tasks: []string{"t"}}} {
			_, err = s.Apply(&events.Fact{Epoch: events.Epoch{N: 1, ID: "a0"}, Time: testStart, Task: "t", Body: b}, int64(1+sequence))
			require.Error(t, err, name)
		}
		s.Touch("t")
		_, err = s.Flush(nil)
		require.Error(t, err, name)
	}
}
