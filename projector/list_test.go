package projector_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

func TestListMergesPartitionsNewestFirst(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for i := range 10 {
		task := pending(fmt.Sprintf("t%d", i), events.Instant(i))
		commit(t, s, &events.Delta{Partition: int32(i % 3), Next: int64(i + 1), Tasks: []events.TaskRow{row(t, task, events.Keys{}, nil)}})
	}
	tasks, next, err := s.List(projector.Filter{Limit: 4})
	require.NoError(t, err)
	require.Equal(t, []string{"t9", "t8", "t7", "t6"}, ids(tasks))
	tasks, next, err = s.List(projector.Filter{Limit: 4, Cursor: next})
	require.NoError(t, err)
	require.Equal(t, []string{"t5", "t4", "t3", "t2"}, ids(tasks))
	tasks, next, err = s.List(projector.Filter{Limit: 4, Cursor: next})
	require.NoError(t, err)
	require.Equal(t, []string{"t1", "t0"}, ids(tasks))
	require.Empty(t, next)
	tasks, next, err = s.List(projector.Filter{Since: 3, Until: 6})
	require.NoError(t, err)
	require.Equal(t, []string{"t5", "t4", "t3"}, ids(tasks))
	require.Empty(t, next)
}

// Tasks that are added, ended or forgotten meanwhile do not cause others to be hidden or repeated.
func TestListIsStableUnderWrites(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const stay = 100
	d := &events.Delta{Next: 1}
	var want []string
	for i := range stay {
		task := pending(fmt.Sprintf("stay%03d", i), events.Instant(1+stay-i))
		d.Tasks = append(d.Tasks, row(t, task, events.Keys{}, nil))
		want = append(want, task.ID)
	}
	commit(t, s, d)
	const come = 2000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range come {
			task := pending(fmt.Sprintf("come%d", i), events.Instant(1000+i))
			r := row(t, task, events.Keys{}, nil)
			commit(t, s, &events.Delta{Next: int64(2 + 2*i), Tasks: []events.TaskRow{r}})
			if i%20 != 0 {
				commit(t, s, &events.Delta{Next: int64(3 + 2*i), Tasks: []events.TaskRow{{ID: task.ID, Was: &r.Keys}}})
			}
		}
	}()
	for writing := true; writing; {
		select {
		case <-done:
			writing = false // and then walk once more
		default:
		}
		var got []string
		f := projector.Filter{Workflow: "ship", States: []events.TaskState{events.TaskStatePending}, Limit: 7}
		for {
			page, next, err := s.List(f)
			assert.NoError(t, err)
			for _, id := range ids(page) {
				if id[0] == 's' {
					got = append(got, id)
				}
			}
			if next == "" {
				break
			}
			f.Cursor = next
		}
		assert.Equal(t, want, got)
	}
	require.NoError(t, s.CheckIndexes())
}

// Two stores each hold half of the partitions, and outdated rows of the other half. Their pages merge into the list of
// all tasks.
func TestListIsRestrictedToPartitionsAndItsPlacesMerge(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var want []string
	deltas := map[int32]*events.Delta{}
	for i := range 60 {
		// Many tasks are submitted at the same instant, so that the ID and the partition also decide the order. Some IDs are
		// prefixes of others.
		task := pending(strings.Repeat("x", 1+i%4)+fmt.Sprint(i), events.Instant(i/12))
		p := int32(i % 3)
		if deltas[p] == nil {
			deltas[p] = &events.Delta{Partition: p, Next: 1}
		}
		deltas[p].Tasks = append(deltas[p].Tasks, row(t, task, events.Keys{}, nil))
	}
	for _, d := range deltas {
		commit(t, s, d)
	}
	all, _, err := s.List(projector.Filter{})
	require.NoError(t, err)
	want = ids(all)
	require.Len(t, want, 60)

	var got []string
	for cursor, begin := "", ""; ; begin = cursor {
		bound, heads := "", map[string]string{} // ID by place
		for _, partitions := range [][]int32{{0, 2}, {1}} {
			tasks, next, err := s.List(projector.Filter{Partitions: partitions, Limit: 7, Cursor: begin})
			require.NoError(t, err)
			for _, task := range tasks {
				at, err := projector.Place(projector.CursorAt(partitionIn(t, deltas, task.ID), task.ID, task.SubmittedAt))
				require.NoError(t, err)
				heads[at] = task.ID
			}
			if next != "" {
				at, err := projector.Place(next)
				require.NoError(t, err)
				if bound == "" || at < bound {
					bound, cursor = at, next
				}
			}
		}
		for _, at := range slices.Sorted(maps.Keys(heads)) {
			if bound == "" || at < bound {
				got = append(got, heads[at])
			}
		}
		if bound == "" {
			break
		}
	}
	require.Equal(t, want, got)
	_, err = projector.Place("zz")
	require.ErrorIs(t, err, projector.ErrCursor)
	page, next, err := s.List(projector.Filter{Partitions: []int32{9}})
	require.NoError(t, err)
	require.Empty(t, page)
	require.Empty(t, next)
}

func partitionIn(t *testing.T, deltas map[int32]*events.Delta, id string) int32 {
	t.Helper()
	for p, d := range deltas {
		for _, r := range d.Tasks {
			if r.ID == id {
				return p
			}
		}
	}
	t.Fatalf("task %s is in no partition", id)
	return -1
}

// A store that holds mostly rows of other owners' partitions returns short pages, and does not search endlessly.
func TestListOfOnePartitionIsBoundedBySteps(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	s := setup(t)
	const tasks = 25_000
	for first := 0; first < tasks; first += 5000 {
		d := &events.Delta{Next: int64(first + 1)}
		for i := first; i < first+5000; i++ {
			d.Tasks = append(d.Tasks, row(t, pending(fmt.Sprint(i), events.Instant(1+tasks-i)), events.Keys{}, nil))
		}
		commit(t, s, d)
	}
	commit(t, s, &events.Delta{Partition: 1, Next: 1, Tasks: []events.TaskRow{row(t, pending("oldest", 1), events.Keys{}, nil)}})
	f := projector.Filter{Partitions: []int32{1}}
	page, next, err := s.List(f)
	require.NoError(t, err)
	require.Empty(t, page)
	require.NotEmpty(t, next)
	f.Cursor = next
	page, next, err = s.List(f)
	require.NoError(t, err)
	require.Equal(t, []string{"oldest"}, ids(page))
	require.Empty(t, next)
}

// A filter whose conditions are rarely true together returns short pages instead of searching endlessly.
func TestListIsBoundedBySteps(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	s := setup(t)
	const tasks = 25_000
	for first := 0; first < tasks; first += 5000 {
		d := &events.Delta{Next: int64(first + 1)}
		for i := first; i < first+5000; i++ {
			task := pending(fmt.Sprint(i), events.Instant(tasks-i))
			if i%2 == 0 {
				task.State = events.TaskStateError
			} else {
				task.Workflow = "other"
			}
			if i == tasks-1 {
				task.State = events.TaskStateError
			}
			d.Tasks = append(d.Tasks, row(t, task, events.Keys{}, nil))
		}
		commit(t, s, d)
	}
	f := projector.Filter{Workflow: "other", States: []events.TaskState{events.TaskStateError}}
	page, next, err := s.List(f)
	require.NoError(t, err)
	require.Empty(t, page)
	require.NotEmpty(t, next)
	f.Cursor = next
	page, next, err = s.List(f)
	require.NoError(t, err)
	require.Equal(t, []string{fmt.Sprint(tasks - 1)}, ids(page))
	require.Empty(t, next)
}

func TestListRefusesForeignCursors(t *testing.T) {
	t.Parallel()
	s := setup(t)
	good := cursorOf(t, s)
	for _, c := range []string{
		"x", "====", good + "A", good[:len(good)-1], good + "\n", string(make([]byte, 5000)),
		base64.RawURLEncoding.EncodeToString(make([]byte, 40)), base64.RawURLEncoding.EncodeToString([]byte{1, 0, 0, 0, 0}),
	} {
		_, _, err := s.List(projector.Filter{Cursor: c})
		require.ErrorIs(t, err, projector.ErrCursor, "%q", c)
	}
	raw, err := base64.RawURLEncoding.DecodeString(good)
	require.NoError(t, err)
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			_, _, err := s.List(projector.Filter{Cursor: base64.RawURLEncoding.EncodeToString(raw)})
			require.ErrorIs(t, err, projector.ErrCursor)
			raw[i] ^= 1 << bit
		}
	}
}

// cursorOf stores two tasks and returns the cursor between them.
func cursorOf(t tb, s *projector.Store) string {
	t.Helper()
	commit(t, s, &events.Delta{Next: 1, Tasks: []events.TaskRow{
		row(t, pending("a", 1), events.Keys{}, nil), row(t, pending("日本語", 2), events.Keys{}, nil),
	}})
	_, next, err := s.List(projector.Filter{Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, next)
	return next
}

func FuzzListCursor(f *testing.F) {
	s := open(f, vfs.NewMem())
	f.Cleanup(func() { require.NoError(f, s.Close()) })
	f.Add(cursorOf(f, s))
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, cursor string) {
		tasks, _, err := s.List(projector.Filter{Cursor: cursor})
		if err != nil {
			require.ErrorIs(t, err, projector.ErrCursor)
			return
		}
		require.LessOrEqual(t, len(tasks), 2)
	})
}

// A page reads no more than its bytes, but at least one task.
func TestListIsBoundedByBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	s := setup(t)
	for i := range 5 {
		task := pending(fmt.Sprintf("t%d", i), events.Instant(i+1))
		task.Input = json.RawMessage(`"` + strings.Repeat("x", projector.MaxListBytes*2/5) + `"`)
		if i == 0 {
			task.Input = json.RawMessage(`"` + strings.Repeat("x", projector.MaxListBytes) + `"`)
		}
		commit(t, s, &events.Delta{Next: int64(i + 1), Tasks: []events.TaskRow{row(t, task, events.Keys{}, nil)}})
	}
	var pages [][]string
	for f := (projector.Filter{}); ; {
		tasks, next, err := s.List(f)
		require.NoError(t, err)
		pages = append(pages, ids(tasks))
		if f.Cursor = next; next == "" {
			break
		}
	}
	require.Equal(t, [][]string{{"t4", "t3"}, {"t2", "t1"}, {"t0"}}, pages)
}

func TestABriefListHoldsNothingLarge(t *testing.T) {
	t.Parallel()
	s := setup(t)
	task := pending("t", 1)
	task.Labels, task.UpdatedAt, task.Version, task.Reason, task.FailureCount = map[string]string{"a": "b"}, 7, 3, "why", 2
	want := *task
	task.Input, task.Output = json.RawMessage(`{"a":1}`), json.RawMessage(`[2]`)
	task.Steps = []*events.Step{{Path: "p", State: events.StepStateCompleted}}
	commit(t, s, &events.Delta{Next: 1, Tasks: []events.TaskRow{row(t, task, events.Keys{}, nil)}})
	tasks, _, err := s.List(projector.Filter{Brief: true})
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	require.JSONEq(t, jsonOf(t, &want), jsonOf(t, tasks[0]))
}
