package events_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// text returns a JSON text of n bytes.
func text(n int) []byte { return raw(`"` + strings.Repeat("x", n-2) + `"`) }

// written returns how many bytes of which rows a delta writes.
func written(d *events.Delta) (bytes int, kinds map[events.Kind]int) {
	kinds = map[events.Kind]int{}
	for _, row := range d.Tasks {
		bytes += len(row.Encoding)
		for _, r := range row.Rows {
			bytes += len(r.Encoding)
			kinds[r.Kind]++
		}
	}
	return bytes, kinds
}

// A task of 50 steps with outputs of 200 KB holds 10 MB. Each fact writes the head and the step that it is about.
func TestAFactWritesOnlyTheRowsThatItChanges(t *testing.T) {
	t.Parallel()
	const (
		steps = 50
		large = 200_000
		// head is a bound for a head, and for what a step holds besides its input and output.
		head = 4 << 10
	)
	k := keeping(t)
	k.write("t", &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Input: text(large), Content: "c"})
	bytes, kinds := written(k.flush(nil))
	require.Equal(t, map[events.Kind]int{events.KindInput: 1}, kinds)
	require.Less(t, bytes, large+head)
	for i := range steps {
		path := fmt.Sprint("s", i)
		k.start("t", path, 1)
		bytes, _ := written(k.flush(nil))
		require.Less(t, bytes, 2*head, "%s starts", path)
		if i%10 == 9 {
			k.evictAll()
		}
		k.write("t", &events.StepCompleted{Step: path, Attempt: 1, Output: text(large)})
		bytes, kinds = written(k.flush(nil))
		require.Less(t, bytes, large+2*head, "%s completes", path)
		require.Equal(t, map[events.Kind]int{events.KindStep: 1}, kinds)
	}
	k.write("t", &events.DeadlinePassed{Action: events.DeadlineAlert})
	bytes, kinds = written(k.flush(nil))
	require.Less(t, bytes, head, "only the head changes")
	require.Empty(t, kinds)
	k.state.Touch("t")
	bytes, kinds = written(k.flush(nil))
	require.Less(t, bytes, head)
	require.Empty(t, kinds)
	k.write("t", &events.TaskProcessed{Output: text(large)})
	bytes, kinds = written(k.flush(nil))
	require.Less(t, bytes, large+head)
	require.Equal(t, map[events.Kind]int{events.KindOutput: 1}, kinds)

	k.evictAll()
	got := k.task("t")
	require.Len(t, got.Steps, steps)
	for i, s := range got.Steps {
		require.Equal(t, fmt.Sprint("s", i), s.Path, "the order in which they started")
		require.Len(t, s.Output, large)
	}
	require.Len(t, got.Input, large)
	require.Len(t, got.Output, large)
	k.write("", &events.TasksSwept{Tasks: []string{"t"}})
	k.flush(nil)
	require.Empty(t, k.store.rows, "no row is left")
}

// What is short stays in the head, so that a usual task is one row.
func TestAUsualTaskIsOneRow(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	k.submit("t")
	for i := range 8 {
		k.start("t", fmt.Sprint("s", i), 1)
		k.complete("t", fmt.Sprint("s", i), 1)
	}
	_, kinds := written(k.flush(nil))
	require.Empty(t, kinds)
	k.start("t", "s8", 1)
	_, kinds = written(k.flush(nil))
	require.Equal(t, map[events.Kind]int{events.KindStep: 1}, kinds, "the ninth step")
	require.Equal(t, `{"ordinal":9,"step":`, string(k.flushed("t", events.KindStep, "t\x00s8")[:20]))
}

// flushed returns the stored encoding of a row.
func (k *kept) flushed(task string, kind events.Kind, id string) []byte {
	return k.store.rows[task][string(kind)+"\x00"+id].Encoding
}

// A step moves out of the head when it becomes long, and back when it becomes short, in memory or not.
func TestAStepMovesBetweenHeadAndRow(t *testing.T) {
	t.Parallel()
	for name, rest := range map[string]func(k *kept){"in memory": func(*kept) {}, "evicted": (*kept).evictAll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := keeping(t)
			k.submit("t")
			k.write("t", &events.StepFailed{Step: "a", Verdict: retryAt(k.now), Error: events.Error{Class: events.ClassExpression, Detail: text(2000)}})
			k.start("t", "b", 1)
			k.flush(nil)
			rest(k)
			require.Len(t, k.store.rows["t"], 1)
			require.NotNil(t, k.flushed("t", events.KindStep, "t\x00a"))
			k.write("t", &events.StepSkipped{Step: "a", Why: events.SkipCondition})
			d := k.flush(nil)
			rest(k)
			require.Equal(t, []events.PartRow{{Kind: events.KindStep, ID: "t\x00a"}}, d.Tasks[0].Rows)
			require.Empty(t, k.store.rows)
			require.Equal(t, []string{"a", "b"}, paths(k.task("t")))
			k.write("t", &events.StepCompleted{Step: "b", Attempt: 1, Output: text(2000)})
			k.flush(nil)
			rest(k)
			require.Len(t, k.store.rows["t"], 1)
			require.Equal(t, []string{"a", "b"}, paths(k.task("t")))
			require.Equal(t, k.state.Sum(), counted(k.store))
		})
	}
}

func paths(t *events.Task) (list []string) {
	for _, s := range t.Steps {
		list = append(list, s.Path)
	}
	return list
}

// A swept task leaves no rows, even if it was accepted again or swept twice since the last Flush.
func TestASweptTaskLeavesNoRows(t *testing.T) {
	t.Parallel()
	life := func(k *kept, output int) {
		k.submit("t")
		k.write("t", &events.TaskReopened{Request: "q1"})
		k.start("t", "a", 1)
		k.write("t", &events.StepCompleted{Step: "a", Attempt: 1, Output: text(output)})
		k.write("t", &events.TaskProcessed{Output: text(output)})
	}
	sweep := func(k *kept) { k.write("", &events.TasksSwept{Tasks: []string{"t"}}) }
	for name, rest := range map[string]func(k *kept){"in memory": func(*kept) {}, "evicted": (*kept).evictAll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := keeping(t)
			life(k, 5000)
			k.flush(nil)
			rest(k)
			require.Len(t, k.store.rows["t"], 3)
			sweep(k)
			k.flush(nil)
			require.Empty(t, k.store.rows)

			life(k, 5000)
			k.flush(nil)
			rest(k)
			sweep(k)
			life(k, 10) // a shorter life, of which only the request is a row
			k.flush(nil)
			require.Len(t, k.store.rows["t"], 1)
			require.Equal(t, k.state.Sum(), counted(k.store))
			rest(k)
			sweep(k)
			life(k, 5000)
			sweep(k)
			k.flush(nil)
			require.Empty(t, k.store.rows)
			require.Empty(t, k.store.tasks)
		})
	}
}

// A task with a row missing, or with a row that is not its own, is not loaded.
func TestATaskWithARowMissingIsNotLoaded(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	k.write("t", &events.RequestHeld{Request: events.Request{ID: "q0", Kind: events.RequestCancel}, ExpiresAt: k.now.Add(9e9)}, fromInput(events.Reports, 0))
	k.write("t", &events.Submitted{Workflow: "w", Version: 1, Hash: "d1", Input: text(2000), Content: "c"})
	k.write("t", &events.TaskReopened{Request: "q1"})
	for _, path := range []string{"a", "b"} {
		k.start("t", path, 1)
		k.write("t", &events.StepCompleted{Step: path, Attempt: 1, Output: text(2000)})
	}
	k.write("t", &events.TaskProcessed{Output: text(2000)})
	k.flush(nil)
	head, rows := k.store.tasks["t"].Encoding, slices.Collect(maps.Values(k.store.rows["t"]))
	require.Len(t, rows, 6)
	got, err := events.DecodeTask(head, rows)
	require.NoError(t, err)
	require.Equal(t, asJSON(t, k.task("t")), asJSON(t, got))
	refused := func(rows []events.PartRow, what string, args ...any) {
		t.Helper()
		_, err := events.DecodeTask(head, rows)
		require.Error(t, err, fmt.Sprintf(what, args...))
	}
	refused(nil, "no row")
	for i, r := range rows {
		refused(slices.Delete(slices.Clone(rows), i, i+1), "%s %q is missing", r.Kind, r.ID)
		refused(append(slices.Clone(rows), events.PartRow{Kind: r.Kind, ID: r.ID + "x", Encoding: r.Encoding}), "%s %q twice", r.Kind, r.ID)
		for _, encoding := range []string{"", "{", `{"ordinal":3,"step":{"path":"a","state":"running"}}`, `{"held":{"id":"other"}}`} {
			changed := slices.Clone(rows)
			changed[i].Encoding = raw(encoding)
			if r.Kind == events.KindRequest && strings.HasPrefix(encoding, `{"ordinal`) || r.Kind != events.KindRequest && r.Kind != events.KindStep && len(encoding) > 1 {
				continue // such a row can be read
			}
			refused(changed, "%s %q is %q", r.Kind, r.ID, encoding)
		}
	}
	k.state = nil
	delete(k.store.rows["t"], string(events.KindStep)+"\x00t\x00a")
	s, err := events.OpenState(testPartition, k.store.snapshot(), k.store.load)
	require.NoError(t, err)
	_, err = s.Task("t")
	require.ErrorIs(t, err, events.ErrRow)
}

// A request is remembered after its task was evicted, and held until it is judged.
func TestRequestsAreRowsOfTheirTask(t *testing.T) {
	t.Parallel()
	k := keeping(t)
	for _, id := range []string{"q2", "q1"} {
		k.write("t", &events.RequestHeld{Request: events.Request{ID: id, Kind: events.RequestCancel, Reason: "why"}, ExpiresAt: k.now.Add(9e9)}, fromInput(events.Reports, int64(k.next)))
	}
	k.submit("t")
	k.flush(nil)
	k.evictAll()
	require.Equal(t, `{"held":{"id":"q1","kind":"cancel","task":"t","reason":"why"}}`, string(k.flushed("t", events.KindRequest, "t\x00q1")))
	require.Equal(t, "q1", k.task("t").Held[0].ID)
	k.write("t", &events.CancelRequested{Request: "q1"})
	_, kinds := written(k.flush(nil))
	require.Equal(t, map[events.Kind]int{events.KindRequest: 1}, kinds)
	k.evictAll()
	require.Equal(t, `{"verb":"cancel","fact":"1-a0/3"}`, string(k.flushed("t", events.KindRequest, "t\x00q1")))
	require.True(t, k.task("t").HasRequest("q1"))
	require.False(t, k.task("t").HasRequest("q2"))
	require.Len(t, k.task("t").Held, 1)
	require.Equal(t, k.state.Sum(), counted(k.store))
}
