package export

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/projector"
)

// Task is a row of the table of tasks: a run of a task, as it was when the next run began, when the task was forgotten, or at the end of the range.
type Task struct {
	Partition      int32             `parquet:"partition"`
	Task           string            `parquet:"task"`
	Run            int32             `parquet:"run"`
	Incarnation    string            `parquet:"incarnation,optional"`
	Workflow       string            `parquet:"workflow,dict"`
	Version        int32             `parquet:"version"`
	DefinitionHash string            `parquet:"definition_hash,optional,dict"`
	State          string            `parquet:"state,dict"`
	Paused         bool              `parquet:"paused"`
	Priority       int32             `parquet:"priority"`
	Labels         map[string]string `parquet:"labels,optional"`
	// Parent and ParentStep are the task that started this one, and its step.
	Parent     string `parquet:"parent,optional"`
	ParentStep string `parquet:"parent_step,optional,dict"`
	// Schedule is the one that the task belongs to, and Due its due time.
	Schedule string `parquet:"schedule,optional,dict"`
	Due      *int64 `parquet:"due,timestamp(millisecond)"`
	// SourceTopic, SourcePartition and SourceOffset are the record that submitted it.
	SourceTopic     string `parquet:"source_topic,optional,dict"`
	SourcePartition *int32 `parquet:"source_partition"`
	SourceOffset    *int64 `parquet:"source_offset"`
	// SubmittedAt is when the task was accepted.
	SubmittedAt int64 `parquet:"submitted_at,timestamp(millisecond)"`
	// FirstStartedAt is when the first attempt of the run started.
	FirstStartedAt *int64 `parquet:"first_started_at,timestamp(millisecond)"`
	EndedAt        *int64 `parquet:"ended_at,timestamp(millisecond)"`
	Deadline       *int64 `parquet:"deadline,timestamp(millisecond)"`
	DeadlinePassed bool   `parquet:"deadline_passed"`
	PivotPassed    bool   `parquet:"pivot_passed"`
	// EndedBy is policy, operator, deadline or parent: what decided that the run ended as it did.
	EndedBy      string `parquet:"ended_by,optional,dict"`
	Reason       string `parquet:"reason,optional"`
	FailureCount int32  `parquet:"failure_count"`
	// Attempts are those of the run, to do and to undo its steps. Steps are those that have begun, with their items, and Facts the facts of all runs.
	Attempts int32 `parquet:"attempts"`
	Steps    int32 `parquet:"steps"`
	Facts    int32 `parquet:"facts"`
	// Duration is from the submission to the end, and Queue from there to the first attempt of the run, in seconds.
	Duration *float64 `parquet:"duration_s"`
	Queue    *float64 `parquet:"queue_s"`
	Input    string   `parquet:"input,optional" is:"json"`
	Output   string   `parquet:"output,optional" is:"json"`
}

// Tasks exports the table of tasks into the directory tasks of cfg.Dir, like Facts. A task belongs to the day of its submission, and so do the bounds of
// cfg. A partition that was not completed is exported from its beginning again.
func Tasks(ctx context.Context, cfg Config) (Result, error) {
	return export(ctx, cfg, "tasks", func(p int32) (maker[Task], error) {
		ends := endings{turned: newShelf[decider](cfg.room("tasks"), "turned")}
		s, err := newStates(&cfg, "tasks", p, func(t *events.Task, l life) ([]Task, error) {
			row := taskRow(t, l, p, !cfg.NoPayloads)
			var err error
			row.EndedBy, err = ends.of(t)
			return []Task{row}, err
		})
		if err != nil {
			return nil, err
		}
		ends.task = s.folder.State().Task
		s.note, s.last = ends.note, ends.turned.close
		return s, nil
	}, nil)
}

func taskRow(t *events.Task, l life, partition int32, payloads bool) Task {
	row := Task{
		Partition: partition, Task: t.ID, Run: int32(t.Run), Incarnation: t.Incarnation, Workflow: t.Workflow, Version: int32(t.Version), DefinitionHash: t.Definition,
		State: string(t.State), Paused: t.Paused != nil, Priority: int32(t.Priority), Schedule: t.Schedule, SourceTopic: l.topic, SubmittedAt: int64(t.SubmittedAt),
		EndedAt: at(t.EndedAt), Deadline: at(t.Deadline), DeadlinePassed: t.DeadlinePassed, PivotPassed: t.PivotPassed, Reason: t.Reason, FailureCount: int32(t.FailureCount),
		Steps: int32(len(t.Steps)), Facts: int32(t.Facts), FirstStartedAt: at(l.started),
	}
	if l.topic != "" {
		row.SourcePartition, row.SourceOffset = &l.partition, &l.offset
	}
	if len(t.Labels) > 0 {
		row.Labels = t.Labels
	}
	row.Due = dueOf(t)
	if t.Parent != nil {
		row.Parent, row.ParentStep = t.Parent.Link.Task, t.Parent.Link.Path
	}
	for _, s := range t.Steps {
		row.Attempts += int32(s.Attempt - s.EarlierAttempts)
		if s.Undo != nil {
			row.Attempts += int32(s.Undo.Attempt - s.EarlierUndos)
		}
	}
	row.Duration, row.Queue = between(&row.SubmittedAt, row.EndedAt), between(&row.SubmittedAt, row.FirstStartedAt)
	if payloads {
		row.Input, row.Output = string(t.Input), string(t.Output)
	}
	return row
}

// dueOf returns the due time of a task that a schedule started: it is in the ID.
func dueOf(t *events.Task) *int64 {
	text, ok := strings.CutPrefix(t.ID, t.Schedule+"/")
	if !ok || t.Schedule == "" {
		return nil
	}
	due, err := events.ParseInstant(text)
	if err != nil {
		return nil
	}
	return at(due)
}

// states makes a table of what the fold says of tasks: when a run of one is over for good, or at the end. The state is on the disk, so that a long log fits.
type states[R any] struct {
	rows   func(*events.Task, life) ([]R, error)
	known  *lives
	dir    string
	store  *projector.Store
	folder *projector.Folder
	// note, unless it is nil, takes each fact before it is folded, and behind the rows that are written because of it.
	note func(r *events.Record, f *Fact) error
	// last, unless it is nil, is called when the maker is closed.
	last func() error
	// made counts the rows.
	made int64
	// partition is that of the log.
	partition int32
}

// foldDir begins the name of the directory with the state of a partition.
const foldDir = ".fold-"

func newStates[R any](cfg *Config, table string, partition int32, rows func(*events.Task, life) ([]R, error)) (*states[R], error) {
	dir := filepath.Join(cfg.Dir, table, fmt.Sprintf(foldDir+"%05d", partition))
	store, err := projector.Open(dir, projector.Options{Namespace: cfg.NamespaceID.String(), CacheBytes: 16 << 20, MemTableBytes: 4 << 20})
	if err != nil {
		return nil, err
	}
	state := events.NewState(partition, store.Partition(partition).Loader())
	if cfg.level > 0 {
		state.SetLevel(cfg.level)
	}
	return &states[R]{
		rows: rows, dir: dir, store: store, partition: partition,
		folder: projector.NewFolder(projector.Folding{State: state, Evict: true, Commit: func(d *events.Delta, a projector.Anchor) error {
			return store.Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{partition: a}})
		}}),
	}, nil
}

func (t *states[R]) close() error {
	err := t.store.Close()
	if t.last != nil {
		err = errors.Join(err, t.last())
	}
	return cmp.Or(err, os.RemoveAll(t.dir))
}

// pass takes a record that is no fact: the fold says so, too.
func (t *states[R]) pass(r *events.Record) error { return t.fold(r) }

func (t *states[R]) fold(r *events.Record) error {
	if err := t.folder.Take(r); err != nil || !t.folder.Full() {
		return err
	}
	return t.folder.Flush()
}

func (t *states[R]) take(r *events.Record, f *Fact, known *lives, emit func(entry[R]) error) error {
	t.known = known
	switch events.Name(f.Type) {
	case events.NameRunBegun:
		l, err := known.of(f.Task)
		if err != nil {
			return err
		}
		l.started = l.before
		if err := t.write(f.Task, l, emit); err != nil {
			return err
		}
	case events.NameTasksSwept:
		var b events.TasksSwept
		if err := json.Unmarshal(r.Value, &b); err != nil {
			return err
		}
		for _, task := range b.Tasks {
			l, err := known.of(task)
			if err != nil {
				return err
			}
			if err := t.write(task, l, emit); err != nil {
				return err
			}
		}
	}
	if t.note != nil {
		if err := t.note(r, f); err != nil {
			return err
		}
	}
	return t.fold(r)
}

// write writes the rows of a task as it is.
func (t *states[R]) write(task string, l life, emit func(entry[R]) error) error {
	x, err := t.folder.State().Task(task)
	if err != nil || x == nil {
		return err
	}
	return t.entries(x, l, emit)
}

func (t *states[R]) entries(x *events.Task, l life, emit func(entry[R]) error) error {
	list, err := t.rows(x, l)
	if err != nil {
		return err
	}
	for i := range list {
		e := entry[R]{row: &list[i], offset: t.made, time: int64(x.SubmittedAt), workflow: x.Workflow, bytes: len(x.Input) + len(x.Output) + 200}
		t.made++
		if err := emit(e); err != nil {
			return err
		}
	}
	return nil
}

// left writes the tasks that the state has at the end, the newest first.
func (t *states[R]) left(emit func(entry[R]) error) error {
	if t.known == nil {
		return nil
	}
	if err := t.folder.Flush(); err != nil {
		return err
	}
	for cursor := ""; ; {
		list, next, err := t.store.List(projector.Filter{Partitions: []int32{t.partition}, Limit: projector.MaxList, Cursor: cursor})
		if err != nil {
			return fmt.Errorf("list what the log leads to: %w", err)
		}
		for _, x := range list {
			l, err := t.known.of(x.ID)
			if err != nil {
				return err
			}
			if err := t.entries(x, l, emit); err != nil {
				return err
			}
		}
		if cursor = next; next == "" {
			return nil
		}
	}
}
