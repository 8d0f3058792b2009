package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"golang.org/x/sync/errgroup"
)

// mostDetailed bounds the tasks whose fields are compared, a few KiB of memory each.
const mostDetailed = 100_000

// ErrTooMany says that too many tasks changed to compare their fields.
var ErrTooMany = fmt.Errorf("more than %d tasks changed: choose moments closer together or one workflow, or ask only for the summary", mostDetailed)

// DiffConfig says what to compare.
type DiffConfig struct {
	Cluster   *kafka.Cluster
	Namespace string
	From, To  Moment
	// Workflow leaves out the tasks of all others.
	Workflow string
	// Summary leaves out the changes.
	Summary bool
	// Checkpoints are directories of checkpoints of the namespace, or checkpoints. The fold up to the earlier moment begins with the one that is nearest to it and not behind it.
	Checkpoints []string
	// Warn is that of Config.
	Warn func(string)
	// Progress is called with how many records were read, and with how many there are; nil: not.
	Progress func(done, of int64)
}

// Difference is how the past at one moment differs from that at a later one.
type Difference struct {
	From Point `json:"from"`
	To   Point `json:"to"`
	// Facts is how many facts lie between them, void ones and those about the partition included, and Touched how many tasks they are about.
	Facts   int64 `json:"facts"`
	Touched int   `json:"touched"`
	// Folded is how many facts before them were folded, and Checkpoint the checkpoint that had folded the others; empty if all were folded.
	Folded     int64  `json:"-"`
	Checkpoint string `json:"-"`
	// New counts how often a task began to exist between them, and Forgotten how often one was forgotten.
	New       int `json:"new"`
	Forgotten int `json:"forgotten"`
	// Ended are those that ended between them, by their state.
	Ended map[events.TaskState]int `json:"ended"`
	// Live are those that have not ended, by their state.
	Live struct {
		From map[events.TaskState]int `json:"from"`
		To   map[events.TaskState]int `json:"to"`
	} `json:"live"`
	// Definitions are the workflows whose current version differs; of a workflow that does not exist, it is 0.
	Definitions map[string][2]int `json:"definitions"`
	Changes     []Change          `json:"changes"`
	// WorkflowKnown says that the workflow that was asked for existed at one of the moments.
	WorkflowKnown bool `json:"-"`
}

// Point is a moment, and where each partition was.
type Point struct {
	Time    events.Instant `json:"time"`
	Offsets []int64        `json:"offsets"`
}

// Diff folds the log up to the later moment, and compares the tasks as they are then with those at the earlier one.
func Diff(ctx context.Context, cfg DiffConfig) (_ *Difference, err error) {
	x := &differing{DiffConfig: cfg, topics: kafka.Topics{Namespace: cfg.Namespace}}
	if x.Progress == nil {
		x.Progress = func(int64, int64) {}
	}
	if err := x.resolve(ctx); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sagalog-diff-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := bases{
		log: node.CheckpointLog{Cluster: x.Cluster, Namespace: x.Namespace, ID: x.id, Partitions: x.partitions}, dirs: x.Checkpoints,
		begins: x.from.Begins[x.topics.Events()], ends: x.from.Ends[x.topics.Events()], warn: x.Warn,
		exitCode: 2, // 1 means that something differs
	}
	if err := b.fold(ctx, filepath.Join(dir, StateDir), func(store *projector.Store, from string, left int64) error {
		x.begin()
		x.result.Checkpoint, x.result.Folded = from, left
		g, within := errgroup.WithContext(ctx)
		g.SetLimit(runtime.GOMAXPROCS(0))
		for p := range x.partitions {
			g.Go(func() error { return x.partition(within, store, p) })
		}
		return g.Wait()
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(x.result.Changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Task, b.Task), strings.Compare(a.Field, b.Field))
	})
	return &x.result, x.definitions(ctx)
}

// begin forgets what an attempt with another checkpoint found.
func (x *differing) begin() {
	x.read.Store(0)
	x.detailed.Store(0)
	r := &x.result
	r.Touched, r.New, r.Forgotten, r.Changes = 0, 0, 0, []Change{}
	r.Ended, r.Definitions = map[events.TaskState]int{}, map[string][2]int{}
	r.Live.From, r.Live.To = map[events.TaskState]int{}, map[events.TaskState]int{}
}

type differing struct {
	DiffConfig
	topics     kafka.Topics
	id         string
	partitions int32
	from, to   Cut
	all        int64
	read       atomic.Int64
	detailed   atomic.Int64

	mu     sync.Mutex
	result Difference // guarded by mu
}

func (x *differing) resolve(ctx context.Context) (err error) {
	if x.id, x.partitions, err = Namespace(ctx, x.Cluster, x.Namespace); err != nil {
		return err
	}
	if x.from, err = Resolve(ctx, x.Cluster, x.topics, x.partitions, x.From); err != nil {
		return fmt.Errorf("from: %w", err)
	}
	if x.to, err = Resolve(ctx, x.Cluster, x.topics, x.partitions, x.To); err != nil {
		return fmt.Errorf("to: %w", err)
	}
	x.result.From.Time, x.result.To.Time = x.from.Time, x.to.Time
	for p := range x.partitions {
		from, to := x.from.Ends[x.topics.Events()][p], x.to.Ends[x.topics.Events()][p]
		if from > to {
			return fmt.Errorf("%s (%d@%d) is later than %s (%d@%d): exchange them", x.from.Time, p, from, x.to.Time, p, to)
		}
		x.result.From.Offsets, x.result.To.Offsets = append(x.result.From.Offsets, from), append(x.result.To.Offsets, to)
		x.result.Facts += to - from
		x.all += to - x.from.Begins[x.topics.Events()][p]
	}
	return nil
}

// touched is a task that some fact between the moments is about.
type touched struct {
	// before is the state at the earlier moment, "" if the task did not exist; fields are its fields then.
	before   events.TaskState
	workflow string
	// fact is the last fact about the task then, and other says that the task is of a workflow that was not asked for.
	fact   events.Position
	other  bool
	fields Fields
	// by says which fact changed each field last, and last is the last fact about the task.
	by   map[string]*By
	last *By
	// requests are the fields of the requests and signals when there were as many of them as asked says.
	requests Fields
	asked    [3]int
}

func (x *differing) partition(ctx context.Context, store *projector.Store, p int32) error {
	from, to := x.from.Ends[x.topics.Events()][p], x.to.Ends[x.topics.Events()][p]
	begin := x.from.Begins[x.topics.Events()][p]
	if _, err := node.Fold(ctx, x.Cluster, store, node.FoldRange{Topic: x.topics.Events(), Partition: p, To: from}); err != nil {
		return fmt.Errorf("fold partition %d: %w", p, err)
	}
	x.Progress(x.read.Add(max(from-begin, 0)), x.all)
	x.live(store.Partition(p), x.result.Live.From)
	part := store.Partition(p)
	snap, _, _, err := part.Snapshot()
	if err != nil {
		return err
	}
	state, err := events.OpenState(p, snap, part.Loader())
	if err != nil {
		return err
	}
	if state.Partition.Loading() {
		return fmt.Errorf("%w: partition %d begins with a carry, which had not ended then, so tasks would be missing: ask for later moments", ErrBeforeLog, p)
	}
	f := projector.NewFolder(projector.Folding{State: state, Evict: true, Commit: func(d *events.Delta, a projector.Anchor) error {
		return store.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{p: a}})
	}})
	tasks := map[string]*touched{}
	err = kafka.ReadWhole(ctx, x.Cluster, x.topics.Events(), p, max(from, begin), to, func(r events.Record) error {
		if done := x.read.Add(1); done%1000 == 0 {
			x.Progress(done, x.all)
		}
		if err := x.take(f, &r, tasks); err != nil {
			return fmt.Errorf("%d@%d: %w", p, r.Offset, err)
		}
		if !f.Full() {
			return nil
		}
		return f.Flush()
	})
	if err == nil {
		err = f.Flush()
	}
	if err != nil {
		return err
	}
	x.live(part, x.result.Live.To)
	if state.Partition.Loading() {
		return fmt.Errorf("%w: partition %d begins with a carry, which had not ended then, so tasks would be missing: ask for later moments", ErrBeforeLog, p)
	}
	return x.compare(state, tasks)
}

// live adds the tasks of a partition that have not ended.
func (x *differing) live(p *projector.Partition, to map[events.TaskState]int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p.LiveTasks(func(workflow string, s events.TaskState, n int64) {
		if x.Workflow == "" || workflow == x.Workflow {
			to[s] += int(n)
		}
	})
}

// take folds a record, and notes which fields of its task it changes.
func (x *differing) take(f *projector.Folder, r *events.Record, tasks map[string]*touched) error {
	if r.Control {
		return f.Take(r)
	}
	fact, err := events.DecodeFact(r)
	if err != nil {
		return err
	}
	by := &By{Partition: r.Partition, Offset: r.Offset, Type: fact.Body.Name(), Time: fact.Time}
	switch b := fact.Body.(type) {
	case *events.TasksSwept:
		return x.sweep(f, r, b, tasks, by)
	case *events.EntityCarried: // a carry changes nothing
		return f.Take(r)
	}
	if fact.Task == "" {
		return f.Take(r)
	}
	t, err := x.touch(f.State(), fact, tasks, by)
	if err != nil {
		return err
	}
	step := events.StepOf(fact.Body)
	before, was, err := x.fields(f.State(), fact.Task, step, t)
	if err != nil {
		return err
	}
	if err := f.Take(r); err != nil {
		return err
	}
	after, is, err := x.fields(f.State(), fact.Task, step, t)
	if err != nil {
		return err
	}
	x.count(was, is)
	if was.output != is.output {
		t.by["output"] = by
	}
	if was.input != is.input {
		t.by["input"] = by
	}
	for name := range is.requests {
		if was.requests[name] != is.requests[name] {
			t.by[name] = by
		}
	}
	for name, value := range after {
		if before[name] != value {
			t.by[name] = by
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			t.by[name] = by
		}
	}
	return nil
}

// brief is what is counted of a task.
type brief struct {
	exists   bool
	workflow string
	state    events.TaskState
	// input and output are their lengths, and requests the fields of requests and signals.
	input, output int
	requests      Fields
}

// fields returns the fields that a fact about a step may change, without what users put in, which can be large.
func (x *differing) fields(s *events.State, id, step string, of *touched) (Fields, brief, error) {
	t, err := s.Task(id)
	if err != nil || t == nil {
		return nil, brief{}, err
	}
	b := brief{exists: true, workflow: t.Workflow, state: t.State, input: len(t.Input), output: len(t.Output)}
	if x.Summary || of.other {
		return nil, b, nil
	}
	if asked := [3]int{len(t.Requests), len(t.Held), len(t.Kept)}; asked != of.asked {
		of.asked = asked
		of.requests = Fields{}
		if err := of.requests.add("", &events.Task{Requests: t.Requests, Held: t.Held, Kept: t.Kept}); err != nil {
			return nil, b, err
		}
	}
	b.requests = of.requests
	head := *t
	head.Input, head.Output, head.Requests, head.Held, head.Kept = nil, nil, nil, nil, nil
	f, err := fieldsOf(&head, cmp.Or(step, "-"))
	return f, b, err
}

// count counts a task that comes or ends.
func (x *differing) count(was, is brief) {
	if !is.exists || x.Workflow != "" && is.workflow != x.Workflow {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !was.exists {
		x.result.New++
	}
	if is.state.Ended() && !was.state.Ended() {
		x.result.Ended[is.state]++
	}
}

// sweep folds a fact that forgets tasks.
func (x *differing) sweep(f *projector.Folder, r *events.Record, b *events.TasksSwept, tasks map[string]*touched, by *By) error {
	there := 0
	for _, id := range b.Tasks {
		t, err := x.touch(f.State(), &events.Fact{Task: id, Body: b}, tasks, by)
		if err != nil {
			return err
		}
		if known, err := f.State().Task(id); err != nil {
			return err
		} else if known != nil && !t.other {
			there++
		}
	}
	if err := f.Take(r); err != nil {
		return err
	}
	for _, id := range b.Tasks {
		if left, err := f.State().Task(id); err != nil {
			return err
		} else if left != nil { // a void fact
			return nil
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.result.Forgotten += there
	return nil
}

// touch remembers a task as it was at the earlier moment.
func (x *differing) touch(s *events.State, fact *events.Fact, tasks map[string]*touched, by *By) (*touched, error) {
	id := fact.Task
	if t := tasks[id]; t != nil {
		t.last = by
		return t, nil
	}
	was, err := s.Task(id)
	if err != nil {
		return nil, err
	}
	t := &touched{last: by}
	if was != nil {
		t.before, t.workflow, t.fact = was.State, was.Workflow, was.Last
	}
	if b, ok := fact.Body.(*events.Submitted); ok {
		t.workflow = b.Workflow
	}
	t.other = x.Workflow != "" && t.workflow != "" && t.workflow != x.Workflow
	t.by = map[string]*By{}
	if !x.Summary && !t.other {
		if x.detailed.Add(1) > mostDetailed {
			return nil, ErrTooMany
		}
		if t.fields, err = fieldsOf(was, ""); err != nil {
			return nil, err
		}
	}
	tasks[strings.Clone(id)] = t
	return t, nil
}

// compare counts and lists what has become of the touched tasks of a partition.
func (x *differing) compare(s *events.State, tasks map[string]*touched) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, t := range tasks {
		now, err := s.Task(id)
		if err != nil {
			return err
		}
		var after events.TaskState
		if now != nil {
			after, t.workflow = now.State, now.Workflow
		}
		if after == "" && t.before == "" || now != nil && now.Last == t.fact || x.Workflow != "" && t.workflow != x.Workflow {
			continue // a void fact, a request before its task, or a task that came and was forgotten
		}
		x.result.Touched++
		if x.Summary {
			continue
		}
		fields, err := fieldsOf(now, "")
		if err != nil {
			return err
		}
		x.result.Changes = append(x.result.Changes, changes(id, t, fields)...)
	}
	return nil
}

// changes lists the fields that differ. Of those that no fact was seen to change, the last fact about the task is to blame: it changed several steps.
func changes(id string, t *touched, now Fields) (list []Change) {
	names := map[string]bool{}
	for name := range t.fields {
		names[name] = true
	}
	for name := range now {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if t.fields[name] != now[name] {
			list = append(list, Change{Task: id, Field: name, From: t.fields[name], To: now[name], By: cmp.Or(t.by[name], t.last), Whole: t.fields == nil || now == nil})
		}
	}
	return list
}

// definitions compares the current versions of the workflows.
func (x *differing) definitions(ctx context.Context) error {
	versions := func(end int64) (map[string]int, error) {
		c := scheduler.NewCatalog(nil)
		err := x.Cluster.ReadRange(ctx, x.topics.Definitions(), 0, x.from.Begins[x.topics.Definitions()][0], end, func(r events.Record) error { return c.Apply(&r) })
		list := map[string]int{}
		for _, v := range c.List() {
			if now, ok := c.Current(v.Workflow); ok {
				list[v.Workflow] = now.Version
			}
		}
		return list, err
	}
	from, err := versions(x.from.Ends[x.topics.Definitions()][0])
	if err != nil {
		return err
	}
	to, err := versions(x.to.Ends[x.topics.Definitions()][0])
	for name := range from {
		to[name] += 0 // of a deleted one, 0
	}
	_, x.result.WorkflowKnown = to[x.Workflow]
	for name, n := range to {
		if from[name] != n && (x.Workflow == "" || x.Workflow == name) {
			x.result.Definitions[name] = [2]int{from[name], n}
		}
	}
	return err
}
