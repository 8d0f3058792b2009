package projector_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// model is the store as maps. Every read is compared with it.
type model struct {
	partitions map[int32]*modelPartition
}

type modelPartition struct {
	next    int64
	sum     events.Hash
	anchor  projector.Anchor
	tasks   map[string]*modelTask
	parts   map[string]events.PartRow
	history map[string][]int64
}

type modelTask struct {
	task *events.Task
	row  events.TaskRow
}

func newModel() *model { return &model{partitions: map[int32]*modelPartition{}} }

func (m *model) partition(n int32) *modelPartition {
	p := m.partitions[n]
	if p == nil {
		p = &modelPartition{tasks: map[string]*modelTask{}, parts: map[string]events.PartRow{}, history: map[string][]int64{}}
		m.partitions[n] = p
	}
	return p
}

var (
	states    = []events.TaskState{events.TaskStatePending, events.TaskStateProcessing, events.TaskStateProcessed, events.TaskStateUndoing, events.TaskStateUndone, events.TaskStateError, events.TaskStateTerminated}
	workflows = []string{"ship", "ship2", "s"}
	agents    = []string{"drone", "dron", "package"}
	functions = []string{"", "ne"}
	fairKeys  = []string{"", "a", "a\x00", "ab", "b"}
	labels    = []map[string]string{nil, {"k": "v"}, {"k": "v2", "kk": "v"}, {"k": "v", "empty": ""}, {"k": "v:\x00w", "ü": "\x00"}}
)

// change draws a delta, and makes the same change to the model.
func (m *model) change(t *rapid.T, number int32) *events.Delta {
	p := m.partition(number)
	d := &events.Delta{Partition: number, Next: p.next + int64(rapid.IntRange(0, 3).Draw(t, "records"))}
	d.Sum = events.Hash{Hi: uint64(d.Next), Lo: rapid.Uint64().Draw(t, "sum")}
	d.Runs = []events.Run{{Epoch: events.Epoch{N: 1, ID: "x"}, Offset: d.Next, Count: 1}}
	p.sum = d.Sum
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(nastyIDs), 0, 4, rapid.ID).Draw(t, "ids") {
		d.Tasks = append(d.Tasks, m.touch(t, p, id))
	}
	for offset := p.next; offset < d.Next; offset++ {
		id := rapid.SampledFrom(nastyIDs).Draw(t, "of")
		d.History = append(d.History, events.History{Task: id, Offset: offset})
		p.history[id] = append(p.history[id], offset)
	}
	for _, r := range d.Tasks {
		if r.Encoding == nil {
			delete(p.history, r.ID)
		}
	}
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(nastyIDs), 0, 2, rapid.ID).Draw(t, "held") {
		part := events.PartRow{Kind: events.KindHeld, ID: id + "\x00r1", Encoding: []byte(`{}`)}
		if p.parts[part.ID].Encoding != nil {
			part.Encoding = nil
			delete(p.parts, part.ID)
		} else {
			p.parts[part.ID] = part
		}
		d.Parts = append(d.Parts, part)
	}
	p.next = d.Next
	return d
}

func (m *model) touch(t *rapid.T, p *modelPartition, id string) events.TaskRow {
	old := p.tasks[id]
	if old != nil && rapid.IntRange(0, 3).Draw(t, "forget") == 0 {
		delete(p.tasks, id)
		return events.TaskRow{ID: id, Was: &old.row.Keys, Rows: removed(old.row.Rows, nil)}
	}
	task := pending(id, events.Instant(rapid.IntRange(-1, 4).Draw(t, "submitted")))
	task.Workflow, task.Labels = rapid.SampledFrom(workflows).Draw(t, "workflow"), rapid.SampledFrom(labels).Draw(t, "labels")
	task.State = rapid.SampledFrom(states).Draw(t, "state")
	k := events.Keys{Unplanned: rapid.Bool().Draw(t, "unplanned"), Due: events.Instant(rapid.IntRange(0, 6).Draw(t, "due")), Wake: events.Instant(rapid.IntRange(0, 6).Draw(t, "wake"))}
	if task.State.Ended() {
		k = events.Keys{}
		task.EndedAt = events.Instant(rapid.IntRange(1, 5).Draw(t, "ended"))
	} else {
		for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p", "p[1]", "pack"}), 0, 3, rapid.ID).Draw(t, "ready") {
			k.Ready = append(k.Ready, events.ReadyKey{
				Agent: rapid.SampledFrom(agents).Draw(t, "agent"), Function: rapid.SampledFrom(functions).Draw(t, "function"), Path: path, Operation: events.Do,
				Since: task.SubmittedAt, Priority: rapid.SampledFrom([]int{-1000, -1, 0, 1, 1000}).Draw(t, "priority"),
			})
		}
	}
	if len(k.Ready) > 0 {
		k.FairBy = rapid.SampledFrom(fairKeys).Draw(t, "fair by")
	}
	var was *events.Keys
	another := false
	if old != nil {
		was = &old.row.Keys
		// A task that was accepted at another time was submitted again.
		if another = was.State.Ended() && was.SubmittedAt != task.SubmittedAt; another {
			delete(p.history, id)
		}
	}
	if rapid.Bool().Draw(t, "large") {
		task.Input = []byte(`"` + strings.Repeat("i", rapid.IntRange(1000, 1100).Draw(t, "input")) + `"`)
		for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"p", "p[1]", "pack"}), 0, 3, rapid.ID).Draw(t, "steps") {
			output := []byte(`"` + strings.Repeat("o", rapid.IntRange(900, 1000).Draw(t, "output")) + `"`)
			task.Steps = append(task.Steps, &events.Step{Path: path, State: events.StepStateCompleted, Output: output})
		}
	}
	r := row(t, task, k, was)
	r.Another = another
	p.tasks[id] = &modelTask{task: task, row: r}
	if old != nil {
		r.Rows = slices.Concat(removed(old.row.Rows, r.Rows), r.Rows)
	}
	return r
}

// removed returns what removes those rows that are not among the new ones.
func removed(rows, now []events.PartRow) (list []events.PartRow) {
	for _, r := range rows {
		if !slices.ContainsFunc(now, func(n events.PartRow) bool { return n.Kind == r.Kind && n.ID == r.ID }) {
			list = append(list, events.PartRow{Kind: r.Kind, ID: r.ID})
		}
	}
	return list
}

func TestStoreReadsLikeAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMem()
		s := open(t, fs)
		defer func() { require.NoError(t, s.Close()) }()
		m := newModel()
		t.Repeat(map[string]func(*rapid.T){
			"commit":       func(t *rapid.T) { m.commit(t, s) },
			"commit again": func(t *rapid.T) { m.commit(t, s) }, // drawn twice as often
			"reset": func(t *rapid.T) {
				n := rapid.Int32Range(0, 2).Draw(t, "partition")
				require.NoError(t, s.Reset(n))
				delete(m.partitions, n)
			},
			"reopen": func(t *rapid.T) {
				require.NoError(t, s.Close())
				s = open(t, fs)
			},
			"owner reads": func(t *rapid.T) { m.compareOwner(t, s) },
			"lists":       func(t *rapid.T) { m.compareLists(t, s) },
			"tasks":       func(t *rapid.T) { m.compareTasks(t, s) },
			"meta":        func(t *rapid.T) { m.compareMeta(t, s) },
			"check":       func(t *rapid.T) { require.NoError(t, s.CheckIndexes()) },
		})
		m.compareMeta(t, s)
		require.NoError(t, s.CheckIndexes())
	})
}

func (m *model) commit(t *rapid.T, s *projector.Store) {
	b := projector.Batch{Anchors: map[int32]projector.Anchor{}}
	for _, n := range rapid.SliceOfN(rapid.Int32Range(0, 2), 1, 3).Draw(t, "partitions") {
		b.Deltas = append(b.Deltas, m.change(t, n))
		if p := m.partition(n); p.next > 0 && rapid.Bool().Draw(t, "anchor") {
			p.anchor = projector.Anchor{TopicID: topic, Offset: p.next - 1, Hash: fmt.Sprint(p.next)}
			b.Anchors[n] = p.anchor
		}
	}
	require.NoError(t, s.Commit(b))
}

// compareMeta compares the data that each partition has only once.
func (m *model) compareMeta(t *rapid.T, s *projector.Store) {
	total := map[events.TaskState]int64{}
	for n := range int32(3) {
		p, known := m.partitions[n]
		snap, anchor, exists, err := s.Partition(n).Snapshot()
		require.NoError(t, err)
		require.Equal(t, known, exists)
		if !known {
			p = newModel().partition(n)
		}
		require.Equal(t, p.next, snap.Next)
		require.Equal(t, p.sum, snap.Sum)
		require.Equal(t, p.anchor, anchor)
		parts := map[string]events.PartRow{}
		for _, part := range snap.Parts {
			parts[part.ID] = part
		}
		require.Equal(t, p.parts, parts)
		info, err := s.PartitionInfo(n)
		require.NoError(t, err)
		require.Equal(t, p.next, info.Next)
		require.Equal(t, p.sum, info.StateHash)
		live, due := int64(0), int64(0)
		for _, x := range p.tasks {
			total[x.task.State]++
			if !x.task.State.Ended() {
				live++
			}
			if x.row.Keys.Due != 0 {
				due++
			}
		}
		require.Equal(t, live, info.Live)
		require.Equal(t, due, info.Due)
	}
	require.Equal(t, total, s.States())
}

func (m *model) compareTasks(t *rapid.T, s *projector.Store) {
	n := rapid.Int32Range(0, 2).Draw(t, "partition")
	p := m.partitions[n]
	if p == nil {
		p = newModel().partition(n)
	}
	load := s.Partition(n).Loader()
	for _, id := range nastyIDs {
		x := p.tasks[id]
		task, ok, err := s.Get(n, id)
		require.NoError(t, err)
		require.Equal(t, x != nil, ok)
		stored, err := load(id)
		require.NoError(t, err)
		if x == nil {
			require.Nil(t, stored.Encoding)
		} else {
			require.Equal(t, jsonOf(t, x.task), jsonOf(t, task))
			require.Equal(t, x.row.Encoding, stored.Encoding)
			require.ElementsMatch(t, x.row.Rows, stored.Rows)
			decoded, err := events.DecodeKeys(stored.Keys)
			require.NoError(t, err)
			require.Equal(t, jsonOf(t, x.row.Keys), jsonOf(t, decoded))
		}
		var offsets []int64
		after := int64(-1)
		for {
			page, err := s.HistoryOffsets(n, id, after, 2)
			require.NoError(t, err)
			offsets = append(offsets, page...)
			if len(page) < 2 {
				break
			}
			after = page[1]
		}
		require.Equal(t, p.history[id], offsets)
	}
}

// compareOwner compares the queues, page by page.
func (m *model) compareOwner(t *rapid.T, s *projector.Store) {
	n := rapid.Int32Range(0, 2).Draw(t, "partition")
	p, v := m.partitions[n], s.Partition(n)
	if p == nil {
		p = newModel().partition(n)
	}
	limit := rapid.IntRange(1, 4).Draw(t, "limit")
	waiting := map[string]int64{}
	for _, queue := range []string{"drone", "dron", "package", "drone/ne", "dron/ne", "package/ne"} {
		for _, op := range []events.Operation{events.Do, events.Undo} {
			var keys []string
			for _, key := range fairKeys {
				line := events.Line{Queue: queue, Operation: op, FairBy: key}
				want := p.ready(line)
				if len(want) > 0 {
					waiting[queue] += int64(len(want))
					keys = append(keys, key)
				}
				for _, n := range []int{limit, projector.MaxRows} {
					got, err := v.Ready(line, n)
					require.NoError(t, err)
					require.Equal(t, want[:min(n, len(want))], append([]projector.ReadyRow{}, got...))
				}
			}
			for i, after := range append([]string{""}, keys...) {
				behind := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k <= after })
				got, err := v.FairKeys(events.Line{Queue: queue, Operation: op, FairBy: after}, limit)
				require.NoError(t, err)
				require.Equal(t, append([]string{}, behind[:min(limit, len(behind))]...), append([]string{}, got...), "%d", i)
			}
		}
	}
	require.Equal(t, waiting, mapOf(v.Queues()))
	m.compareDue(t, p, v, limit)
	comparePages(t, p.sorted(func(x *modelTask) bool { return !x.row.Keys.State.Ended() }), v.Unended, limit)
	comparePages(t, p.sorted(func(*modelTask) bool { return true }), v.Tasks, limit)
	unplanned := p.sorted(func(x *modelTask) bool { return x.row.Keys.Unplanned })
	for _, n := range []int{limit, projector.MaxRows} {
		got, err := v.Unplanned(n)
		require.NoError(t, err)
		require.Equal(t, unplanned[:min(n, len(unplanned))], append([]string{}, got...))
	}
}

func (m *model) compareDue(t *rapid.T, p *modelPartition, v *projector.Partition, limit int) {
	by := events.Instant(rapid.IntRange(0, 7).Draw(t, "by"))
	all := p.due(math.MaxInt64)
	due := p.due(by)
	got, err := v.Due(by, limit)
	require.NoError(t, err)
	require.Equal(t, due[:min(limit, len(due))], append([]projector.DueRow{}, got...))
	waking := p.at(by, func(k *events.Keys) events.Instant { return k.Wake })
	got, err = v.Waking(by, limit)
	require.NoError(t, err)
	require.Equal(t, waking[:min(limit, len(waking))], append([]projector.DueRow{}, got...))
	next, ok, err := v.NextDue()
	require.NoError(t, err)
	require.Equal(t, len(all) > 0, ok)
	if ok {
		require.Equal(t, all[0].Due, next)
	}
	walked := []projector.DueRow{}
	for after := (projector.DueRow{}); ; {
		page, err := v.Running(after, limit)
		require.NoError(t, err)
		walked = append(walked, page...)
		if len(page) < limit {
			break
		}
		after = page[limit-1]
	}
	require.Equal(t, all, walked)
	forget, err := v.ForgetBefore(by, projector.MaxRows)
	require.NoError(t, err)
	want := p.sorted(func(x *modelTask) bool { return x.row.Keys.Forget != 0 && x.row.Keys.Forget < by })
	slices.SortStableFunc(want, func(a, b string) int { return cmp.Compare(p.tasks[a].row.Keys.Forget, p.tasks[b].row.Keys.Forget) })
	require.Equal(t, want, forget)
	ended, err := v.EndedBefore(by, projector.MaxRows)
	require.NoError(t, err)
	want = p.sorted(func(x *modelTask) bool { return x.row.Keys.Forget == 0 && x.task.EndedAt != 0 && x.task.EndedAt < by })
	slices.SortStableFunc(want, func(a, b string) int { return cmp.Compare(p.tasks[a].task.EndedAt, p.tasks[b].task.EndedAt) })
	require.Equal(t, want, ended)
}

func mapOf(m map[string]int64) map[string]int64 {
	if m == nil {
		return map[string]int64{}
	}
	return m
}

func (p *modelPartition) sorted(which func(*modelTask) bool) []string {
	list := []string{}
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		if which(p.tasks[id]) {
			list = append(list, id)
		}
	}
	return list
}

func (p *modelPartition) ready(line events.Line) []projector.ReadyRow {
	list := []projector.ReadyRow{}
	for id, x := range p.tasks {
		for _, k := range x.row.Keys.Ready {
			if k.Queue() == line.Queue && k.Operation == line.Operation && x.row.Keys.FairBy == line.FairBy {
				list = append(list, projector.ReadyRow{Key: k, Task: id})
			}
		}
	}
	slices.SortFunc(list, func(a, b projector.ReadyRow) int {
		return cmp.Or(cmp.Compare(b.Key.Priority, a.Key.Priority), cmp.Compare(a.Key.Since, b.Key.Since),
			strings.Compare(a.Task, b.Task), strings.Compare(a.Key.Path, b.Key.Path))
	})
	return list
}

func (p *modelPartition) due(by events.Instant) []projector.DueRow {
	return p.at(by, func(k *events.Keys) events.Instant { return k.Due })
}

// at lists the tasks with a time of one kind at or before an instant, the earliest first.
func (p *modelPartition) at(by events.Instant, timeOf func(k *events.Keys) events.Instant) []projector.DueRow {
	list := []projector.DueRow{}
	for id, x := range p.tasks {
		if d := timeOf(&x.row.Keys); d != 0 && d <= by {
			list = append(list, projector.DueRow{Due: d, Task: id})
		}
	}
	slices.SortFunc(list, func(a, b projector.DueRow) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), strings.Compare(a.Task, b.Task))
	})
	return list
}

// compareLists draws a filter and walks its pages.
func (m *model) compareLists(t *rapid.T, s *projector.Store) {
	f := projector.Filter{
		Limit: rapid.IntRange(1, 4).Draw(t, "limit"),
		Since: events.Instant(rapid.IntRange(-1, 4).Draw(t, "since")),
		Until: events.Instant(rapid.IntRange(-1, 5).Draw(t, "until")),
	}
	if rapid.Bool().Draw(t, "by state") {
		f.States = rapid.SliceOfN(rapid.SampledFrom(states), 1, 3).Draw(t, "states")
	}
	if rapid.Bool().Draw(t, "by workflow") {
		f.Workflow = rapid.SampledFrom(workflows).Draw(t, "workflow")
	}
	f.Labels = rapid.SampledFrom(labels).Draw(t, "labels")
	var got []string
	for {
		page, next, err := s.List(f)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), f.Limit)
		for _, task := range page {
			got = append(got, jsonOf(t, task))
		}
		if next == "" {
			break
		}
		require.Len(t, page, f.Limit, "a page with a cursor is full")
		f.Cursor = next
	}
	require.Equal(t, m.list(t, f), got)
}

func (m *model) list(t *rapid.T, f projector.Filter) []string {
	type item struct {
		task      *events.Task
		partition int32
	}
	var all []item
	for n, p := range m.partitions {
		for _, x := range p.tasks {
			k := x.task
			fits := (len(f.States) == 0 || slices.Contains(f.States, k.State)) && (f.Workflow == "" || k.Workflow == f.Workflow) &&
				(f.Since == 0 || k.SubmittedAt >= f.Since) && (f.Until == 0 || k.SubmittedAt < f.Until)
			for key, value := range f.Labels {
				v, ok := k.Labels[key]
				fits = fits && ok && v == value
			}
			if fits {
				all = append(all, item{k, n})
			}
		}
	}
	slices.SortFunc(all, func(a, b item) int {
		return cmp.Or(cmp.Compare(b.task.SubmittedAt, a.task.SubmittedAt), strings.Compare(a.task.ID, b.task.ID),
			cmp.Compare(a.partition, b.partition))
	})
	var list []string
	for _, x := range all {
		list = append(list, jsonOf(t, x.task))
	}
	return list
}

func comparePages(t require.TestingT, want []string, page func(after string, limit int) ([]string, error), limit int) {
	for after := ""; ; {
		got, err := page(after, limit)
		require.NoError(t, err)
		require.Equal(t, want[:min(limit, len(want))], append([]string{}, got...))
		if want = want[len(got):]; len(got) == 0 {
			return
		}
		after = got[len(got)-1]
	}
}
