package projector_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

const benchTasks = 512

// life returns the deltas of tasks that are accepted, started and ended: three commits each, 512 tasks at a time.
type life struct {
	b     *testing.B
	next  int64
	round int
	was   []*events.Keys
	tasks []*events.Task
	enc   [3][]byte
}

func (l *life) delta() *events.Delta {
	stage := l.round % 3
	if stage == 0 {
		l.was, l.tasks = make([]*events.Keys, benchTasks), make([]*events.Task, benchTasks)
	}
	d := &events.Delta{Next: l.next + benchTasks, Tasks: make([]events.TaskRow, benchTasks)}
	for i := range benchTasks {
		id := fmt.Sprintf("delivery-%d-%d", l.round/3, i)
		at := events.Instant(1_800_000_000_000 + l.round)
		k := events.Keys{State: events.TaskStatePending, Workflow: "drone-delivery", SubmittedAt: at, Labels: map[string]string{"region": "north"}}
		switch stage {
		case 0:
			k.Ready = []events.ReadyKey{{Agent: "package", Path: "package", Operation: events.Do, Since: at}}
		case 1:
			k.State, k.Due = events.TaskStateProcessing, at+5000
		case 2:
			k.State, k.EndedAt = events.TaskStateProcessed, at+100
		}
		if was := l.was[i]; was != nil {
			k.SubmittedAt = was.SubmittedAt
		}
		d.Tasks[i] = events.TaskRow{ID: id, Encoding: l.encoding(stage), Keys: k, Was: l.was[i]}
		l.was[i] = &d.Tasks[i].Keys
		d.History = append(d.History, events.History{Task: id, Offset: l.next + int64(i)})
	}
	l.next = d.Next
	l.round++
	return d
}

// encoding has the size of a task with stage+1 steps. Its content does not matter here.
func (l *life) encoding(stage int) []byte {
	if l.enc[stage] == nil {
		t := pending("delivery", 1)
		t.Input = []byte(fmt.Sprintf(`{"ownerId":"o-1","packageInfo":{"weight":12.5,"tag":"%0200d"}}`, 7))
		for i := range stage + 1 {
			t.Steps = append(t.Steps, &events.Step{Path: fmt.Sprint("step", i), Agent: "package", State: events.StepStateCompleted, Attempt: 1,
				Input: []byte(`{"id":"delivery-1","package":{"weight":12.5}}`), Output: []byte(`{"id":"p-1"}`)})
		}
		b, err := events.Marshal(t)
		require.NoError(l.b, err)
		l.enc[stage] = b
	}
	return l.enc[stage]
}

func BenchmarkCommit(b *testing.B) {
	s, err := projector.Open(b.TempDir(), projector.Options{Namespace: namespace})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	l := &life{b: b}
	var before, after runtime.MemStats
	var allocs uint64
	for b.Loop() {
		b.StopTimer()
		d := l.delta()
		batch := projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{0: {TopicID: topic, Offset: d.Next - 1, Hash: "x"}}}
		runtime.ReadMemStats(&before)
		b.StartTimer()
		if err := s.Commit(batch); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		runtime.ReadMemStats(&after)
		allocs += after.Mallocs - before.Mallocs
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchTasks), "ns/task")
	b.ReportMetric(float64(allocs)/float64(b.N*benchTasks), "allocs/task")
}

// BenchmarkReadyInABacklog takes from the front of a long queue, as an owner does in a burst. A read must not step over the
// rows that were taken before.
func BenchmarkReadyInABacklog(b *testing.B) {
	s, err := projector.Open(b.TempDir(), projector.Options{Namespace: namespace})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	next, tasks := int64(0), 0
	fill := func() {
		for range 100 {
			d := &events.Delta{Next: next + 1}
			for range benchTasks {
				k := events.Keys{Ready: []events.ReadyKey{{Agent: "x", Path: "p", Operation: events.Do, Since: events.Instant(tasks)}}}
				d.Tasks = append(d.Tasks, row(b, pending(fmt.Sprint(tasks), events.Instant(tasks)), k, nil))
				tasks++
			}
			next = d.Next
			commit(b, s, d)
		}
	}
	for b.Loop() {
		rows, err := s.Partition(0).Ready(events.Line{Queue: "x", Operation: events.Do}, 64)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if len(rows) < 64 {
			fill()
		}
		d := &events.Delta{Next: next + 1}
		for _, r := range rows {
			t := pending(r.Task, r.Key.Since)
			was := row(b, t, events.Keys{Ready: []events.ReadyKey{r.Key}}, nil).Keys
			d.Tasks = append(d.Tasks, row(b, t, events.Keys{}, &was))
		}
		next = d.Next
		commit(b, s, d)
		b.StartTimer()
	}
}

func BenchmarkList(b *testing.B) {
	s, err := projector.Open(b.TempDir(), projector.Options{Namespace: namespace})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	l := &life{b: b}
	for range 90 {
		d := l.delta()
		require.NoError(b, s.Commit(projector.Batch{Deltas: []*events.Delta{d}}))
	}
	for b.Loop() {
		tasks, _, err := s.List(projector.Filter{Labels: map[string]string{"region": "north"}, States: []events.TaskState{events.TaskStateProcessed}, Limit: 50})
		if err != nil || len(tasks) != 50 {
			b.Fatal(len(tasks), err)
		}
	}
}

// BenchmarkSweep forgets tasks with their histories, 512 in each commit, and reads a queue after each commit, as owners do.
func BenchmarkSweep(b *testing.B) {
	s, err := projector.Open(b.TempDir(), projector.Options{Namespace: namespace})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	l := &life{b: b}
	for b.Loop() {
		b.StopTimer()
		var d *events.Delta
		for range 3 {
			d = l.delta()
			require.NoError(b, s.Commit(projector.Batch{Deltas: []*events.Delta{d}}))
		}
		forget := &events.Delta{Next: d.Next}
		for i := range d.Tasks {
			forget.Tasks = append(forget.Tasks, events.TaskRow{ID: d.Tasks[i].ID, Was: &d.Tasks[i].Keys})
		}
		b.StartTimer()
		if err := s.Commit(projector.Batch{Deltas: []*events.Delta{forget}}); err != nil {
			b.Fatal(err)
		}
		if _, _, err := s.Partition(0).NextDue(); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Partition(0).Ready(events.Line{Queue: "package", Operation: events.Do}, 64); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchTasks), "ns/task")
}
