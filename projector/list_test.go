package projector_test

import (
	"encoding/base64"
	"fmt"
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

// Tasks that come, end and are forgotten meanwhile neither hide nor repeat those that stay.
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
			writing = false // and one last walk
		default:
		}
		var got []string
		f := projector.Filter{Workflow: "ship", State: events.Pending, Limit: 7}
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

// A filter whose members hardly hold together gives short pages instead of a call without end.
func TestListIsBoundedBySteps(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const tasks = 25_000
	for first := 0; first < tasks; first += 5000 {
		d := &events.Delta{Next: int64(first + 1)}
		for i := first; i < first+5000; i++ {
			task := pending(fmt.Sprint(i), events.Instant(tasks-i))
			if i%2 == 0 {
				task.State = events.Parked
			} else {
				task.Workflow = "other"
			}
			if i == tasks-1 {
				task.State = events.Parked
			}
			d.Tasks = append(d.Tasks, row(t, task, events.Keys{}, nil))
		}
		commit(t, s, d)
	}
	f := projector.Filter{Workflow: "other", State: events.Parked}
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

// cursorOf puts two tasks into the store and returns the cursor between them.
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
