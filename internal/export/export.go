package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
	"golang.org/x/sync/errgroup"
)

// HeapLimit is the memory limit of a process that exports, in bytes. Its heap comes close to the limit, also if little of it is alive. The program itself takes 40 to 50 MiB
// more, and a program that links C has the caches and memtables of state stores outside the limit.
const HeapLimit = 192 << 20

// Config says what to export, and where to.
type Config struct {
	Log       verify.Log
	Topics    verify.Topics
	Namespace string
	// NamespaceID goes into the idempotency keys.
	NamespaceID uuid.UUID
	// Dir gets one directory for each table.
	Dir    string
	Format Format
	// Since (inclusive) and Until (exclusive) bound the times of the facts; zero does not. Asked is how the caller said it: an export that is repeated with
	// the same words goes on with the times of the first attempt.
	Since, Until events.Instant
	Asked        string
	// Ends, unless it is nil, are the offsets at which the partitions end, for a table that is begun: see Result.Beside. By default they end where the log ends now.
	Ends []int64
	// Workflow, unless empty, is the workflow of the tasks whose facts are exported.
	Workflow string
	// NoPayloads leaves the bodies of facts out.
	NoPayloads bool
	// Objects are the labels whose values are objects in OCEL.
	Objects []string
	// level is the highest level of the log that is understood, if it is not that of this version; only tests set it.
	level int
	// fileRows is how many rows a file has at most; zero is the default.
	fileRows int
	// shelfTasks is how many tasks a generation of a shelf has; zero is the default.
	shelfTasks int
	// Progress is called with how many records were read, of how many; nil if nobody asks. It is called from several goroutines.
	Progress func(done, of int64)
}

// Result says what was exported.
type Result struct {
	// Rows and Files are those that this call wrote.
	Rows  int64 `json:"rows"`
	Files int64 `json:"files"`
	// Dir is the directory of the table, and Already says that it was complete before.
	Dir     string `json:"dir"`
	Already bool   `json:"already,omitzero"`
	// File is the one file that there is, of a format that is not a table, and Of what its rows are: trace or event.
	File string `json:"file,omitempty"`
	Of   string `json:"of,omitempty"`
	// ends, since and until are what was exported.
	ends         []int64
	since, until events.Instant
	// Begins is zero if the log is whole. Otherwise earlier facts are gone, and from this time on it has those of all partitions.
	Begins events.Instant `json:"begins,omitzero"`
}

// Beside returns cfg for another table about the same records: those before the same offsets and between the same times, although the log may have become longer since this table
// was begun.
func (r *Result) Beside(cfg Config) Config {
	cfg.Ends, cfg.Since, cfg.Until = r.ends, r.since, r.until
	return cfg
}

// progressEvery is how many records are read between two calls of Config.Progress.
const progressEvery = 5000

// Facts exports the table of facts into the directory facts of cfg.Dir: files of one partition and one day each, in folders date=2006-01-02. It goes on
// with an export that was broken off there. ctx breaks it off.
func Facts(ctx context.Context, cfg Config) (Result, error) {
	return export(ctx, cfg, "facts", func(int32) (maker[Fact], error) { return facts{payloads: !cfg.NoPayloads}, nil }, nil)
}

// entry is a row with its place: the offset and the time of the fact that it is about. The row belongs to who emits it; its texts stay as they are.
type entry[R any] struct {
	row      *R
	offset   int64
	time     int64
	workflow string
	// bytes is the size of its texts.
	bytes int
}

// maker makes the rows of a table from the records of one partition, in their order.
type maker[R any] interface {
	// take emits the rows that an accepted fact completes. known is as before a fact that forgets tasks, and otherwise as after the fact. r and f are valid
	// during the call, and what is kept of their key, cause and body keeps the memory of many records.
	take(r *events.Record, f *Fact, known *lives, emit func(entry[R]) error) error
	// pass takes a record that is no fact.
	pass(r *events.Record) error
	// left emits the rows that are not complete at the end of the range, in an order that the log decides.
	left(emit func(entry[R]) error) error
	close() error
}

// voider is a maker that makes rows of void records, too.
type voider[R any] interface {
	void(r *events.Record, why string, emit func(entry[R]) error) error
}

// facts makes the table of facts.
type facts struct{ payloads bool }

func (t facts) take(_ *events.Record, f *Fact, _ *lives, emit func(entry[Fact]) error) error {
	if !t.payloads {
		f.Data = ""
	}
	return emit(entry[Fact]{f, f.Offset, f.Time, f.Workflow, len(f.Data) + len(f.Task) + len(f.Cause)})
}

func (facts) pass(*events.Record) error          { return nil }
func (facts) left(func(entry[Fact]) error) error { return nil }
func (facts) close() error                       { return nil }

// export exports a table, which nothing else may do at the same time. finish, unless it is nil, is called when the rows of all partitions are written, and before the export counts as complete.
func export[R any](ctx context.Context, cfg Config, table string, begin func(partition int32) (maker[R], error), finish func(*plan) error) (res Result, err error) {
	res.Dir = filepath.Join(cfg.Dir, table)
	unlock, err := lock(res.Dir)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return exportLocked(ctx, cfg, table, begin, finish)
}

func exportLocked[R any](ctx context.Context, cfg Config, table string, begin func(partition int32) (maker[R], error), finish func(*plan) error) (Result, error) {
	res := Result{Dir: filepath.Join(cfg.Dir, table)}
	bounds, err := cfg.bounds(ctx)
	if err != nil {
		return res, err
	}
	p, err := openPlan(res.Dir, &plan{
		Table: table, Namespace: cfg.Namespace, Format: cfg.Format, Since: cfg.Since, Until: cfg.Until, Asked: cfg.Asked, Workflow: cfg.Workflow, Payloads: !cfg.NoPayloads, Objects: cfg.Objects, ends: cfg.Ends,
	}, bounds)
	if err != nil {
		return res, err
	}
	res.since, res.until = p.Since, p.Until
	for _, at := range p.Parts {
		res.ends = append(res.ends, at.To)
	}
	if err := clearTemporary(res.Dir); err != nil {
		return res, err
	}
	if p.Complete {
		res.Already = true
		return res, nil
	}
	cfg.Since, cfg.Until = p.Since, p.Until
	var written, files, begins, read atomic.Int64
	total := int64(0)
	for i, at := range p.Parts {
		total += max(0, at.To-bounds[i].Start)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range p.Parts {
		g.Go(func() error {
			now, err := cfg.bounds(ctx) // a log in use is cut now and then, and other partitions were read since the first question
			if err != nil {
				return err
			}
			at, err := p.begins(i, now[i].Start)
			if err != nil {
				return err
			}
			f := reading[R]{cfg: &cfg, plan: p, partition: int32(i), at: at, start: now[i].Start, rows: &written, files: &files, begins: &begins, progress: func(n int64) {
				if done := read.Add(n); cfg.Progress != nil {
					cfg.Progress(done, total)
				}
			}}
			if err := f.run(ctx, res.Dir, begin); err != nil {
				return fmt.Errorf("partition %d: %w", i, err)
			}
			return nil
		})
	}
	err = g.Wait()
	res.Rows, res.Files, res.Begins = written.Load(), files.Load(), events.Instant(begins.Load())
	if err == nil && finish != nil {
		err = finish(p)
	}
	if err != nil {
		return res, err
	}
	p.Complete = true
	return res, p.write()
}

// temporary begin the names of what the directory of a table has only while it is written.
var temporary = []string{foldDir, ".aside-", ".begun-", ".events-"}

// clearTemporary removes what an export that was killed left.
func clearTemporary(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if slices.ContainsFunc(temporary, func(begin string) bool { return strings.HasPrefix(e.Name(), begin) }) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

func (cfg *Config) bounds(ctx context.Context) ([]verify.Bounds, error) {
	bounds, err := cfg.Log.Bounds(ctx, cfg.Topics.Events)
	if err != nil {
		return nil, fmt.Errorf("ask for the ends of %s: %w", cfg.Topics.Events, err)
	}
	if len(bounds) == 0 {
		return nil, fmt.Errorf("there is no topic %s", cfg.Topics.Events)
	}
	return bounds, nil
}

// reading exports a table of one partition.
type reading[R any] struct {
	cfg       *Config
	plan      *plan
	partition int32
	at        planPart
	// start is where the log begins now.
	start               int64
	rows, files, begins *atomic.Int64
	progress            func(more int64)
}

func (f *reading[R]) run(ctx context.Context, dir string, begin func(partition int32) (maker[R], error)) (err error) {
	if f.at.Done {
		return nil
	}
	table, err := begin(f.partition)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.close()) }()
	one := part[R]{dir: dir, format: f.cfg.Format, partition: f.partition, most: cmp.Or(f.cfg.fileRows, fileRows), about: f.about(), files: f.files}
	var out sink[R] = &one
	switch any(table).(type) {
	case *states[R], *steps:
		out = &days[R]{of: one, open: map[string]*part[R]{}}
	case *traces:
		out = &section[R]{name: sectionFile(dir, f.partition)}
	default:
		one.complete = func(next int64) error { return f.plan.passed(f.partition, next) }
	}
	defer out.abandon()
	in := f.cfg.room(f.plan.Table)
	known := newLives(topicNames{f.cfg.Topics.Submissions, f.cfg.Topics.Reports}, in)
	if _, ok := any(table).(*states[Task]); ok { // no other table has columns of the origin
		known.origins = newShelf[origin](in, "origins")
	}
	defer func() { err = errors.Join(err, known.close()) }()
	if err := cmp.Or(f.read(ctx, out, table, known), ctx.Err()); err != nil {
		return err
	}
	return f.rest(out, table)
}

// read writes the rows that are complete. What came before the place to go on from is read again, because it says which records are void and what a task is.
func (f *reading[R]) read(ctx context.Context, out sink[R], table maker[R], known *lives) error {
	var (
		rule, first = verify.NewRule(f.start > 0), true
		// The same memory for all records: there are millions.
		r    events.Record
		fact Fact
	)
	emit := func(e entry[R]) error {
		if r.Offset < f.at.Next || !wanted(f.cfg, &e) {
			return nil
		}
		f.rows.Add(1)
		return out.add(e, r.Offset)
	}
	take := func() error {
		if r.Control {
			return table.pass(&r)
		}
		void, err := rule.JudgeRecord(&r)
		if err != nil {
			return err
		}
		if void != "" {
			if v, ok := table.(voider[R]); ok {
				return v.void(&r, void, emit)
			}
			return table.pass(&r)
		}
		if err := known.row(&fact, &r, rule.Position()); err != nil {
			return fmt.Errorf("the fact at offset %d: %w", r.Offset, err)
		}
		if first && f.start > 0 {
			latest(f.begins, fact.Time)
		}
		first = false
		err = table.take(&r, &fact, known, emit)
		if err == nil && fact.Type == string(events.NameTasksSwept) {
			err = known.forget(r.Value)
		}
		if err != nil {
			return fmt.Errorf("the fact at offset %d: %w", r.Offset, err)
		}
		return nil
	}
	return f.cfg.Log.Read(ctx, verify.Span{Topic: f.cfg.Topics.Events, Partition: f.partition, From: f.start, To: f.at.To, Lend: true}, func(next events.Record) error {
		if r = next; r.Offset%progressEvery == 0 {
			f.progress(progressEvery)
		}
		return take()
	})
}

// rest writes the rows that are not complete, and marks the partition as done: if this is broken off, they are all written again.
func (f *reading[R]) rest(out sink[R], table maker[R]) error {
	if err := out.end(f.at.To); err != nil {
		return err
	}
	if err := table.left(func(e entry[R]) error {
		if !wanted(f.cfg, &e) {
			return nil
		}
		f.rows.Add(1)
		return out.add(e, f.at.To)
	}); err != nil {
		return err
	}
	if err := out.end(f.at.To); err != nil {
		return err
	}
	return f.plan.done(f.partition, filepath.Join(f.cfg.Dir, f.plan.Table))
}

func wanted[R any](cfg *Config, e *entry[R]) bool {
	at := events.Instant(e.time)
	return (cfg.Since == 0 || at >= cfg.Since) && (cfg.Until == 0 || at < cfg.Until) && (cfg.Workflow == "" || e.workflow == cfg.Workflow)
}

// about is the metadata of a file. It depends on its rows alone.
func (f *reading[R]) about() map[string]string {
	return map[string]string{"sagalog.namespace": f.cfg.Namespace, "sagalog.partition": fmt.Sprint(f.partition), "sagalog.table": f.plan.Table}
}

// latest raises a time.
func latest(to *atomic.Int64, at int64) {
	for old := to.Load(); at > old; old = to.Load() {
		if to.CompareAndSwap(old, at) {
			return
		}
	}
}
