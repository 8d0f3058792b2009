package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
	"golang.org/x/sync/errgroup"
)

// Config says what to export, and where to.
type Config struct {
	Log       verify.Log
	Topics    verify.Topics
	Namespace string
	// Dir gets one directory for each table.
	Dir    string
	Format Format
	// Since (inclusive) and Until (exclusive) bound the times of the facts; zero does not. Asked is how the caller said it: an export that is repeated with
	// the same words goes on with the times of the first attempt.
	Since, Until events.Instant
	Asked        string
	// Workflow, unless empty, is the workflow of the tasks whose facts are exported.
	Workflow string
	// NoPayloads leaves the bodies of facts out.
	NoPayloads bool
	// fileRows is how many rows a file has at most; zero is the default.
	fileRows int
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
	// Begins is zero if the log is whole. Otherwise earlier facts are gone, and from this time on it has those of all partitions.
	Begins events.Instant `json:"begins,omitzero"`
}

// progressEvery is how many records are read between two calls of Config.Progress.
const progressEvery = 5000

// Facts exports the table of facts into the directory facts of cfg.Dir: files of one partition and one day each, in folders date=2006-01-02. It goes on
// with an export that was broken off there. ctx breaks it off.
func Facts(ctx context.Context, cfg Config) (Result, error) {
	dir := filepath.Join(cfg.Dir, "facts")
	res := Result{Dir: dir}
	bounds, err := cfg.Log.Bounds(ctx, cfg.Topics.Events)
	if err != nil {
		return res, fmt.Errorf("ask for the ends of %s: %w", cfg.Topics.Events, err)
	}
	if len(bounds) == 0 {
		return res, fmt.Errorf("there is no topic %s", cfg.Topics.Events)
	}
	p, err := openPlan(dir, &plan{
		Namespace: cfg.Namespace, Format: cfg.Format, Since: cfg.Since, Until: cfg.Until, Asked: cfg.Asked, Workflow: cfg.Workflow, Payloads: !cfg.NoPayloads,
	}, bounds)
	if err != nil {
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
			f := factsOf{cfg: &cfg, plan: p, partition: int32(i), start: bounds[i].Start, rows: &written, files: &files, begins: &begins, progress: func(n int64) {
				if done := read.Add(n); cfg.Progress != nil {
					cfg.Progress(done, total)
				}
			}}
			if err := f.run(ctx, dir); err != nil {
				return fmt.Errorf("partition %d: %w", i, err)
			}
			return nil
		})
	}
	err = g.Wait()
	res.Rows, res.Files, res.Begins = written.Load(), files.Load(), events.Instant(begins.Load())
	if err != nil {
		return res, err
	}
	p.Complete = true
	return res, p.write()
}

// factsOf exports the facts of one partition.
type factsOf struct {
	cfg       *Config
	plan      *plan
	partition int32
	// start is where the log begins now.
	start               int64
	rows, files, begins *atomic.Int64
	progress            func(more int64)
}

func (f *factsOf) run(ctx context.Context, dir string) (err error) {
	at := f.plan.Parts[f.partition]
	if at.Next >= at.To {
		return nil
	}
	out := &part[Fact]{dir: dir, format: f.cfg.Format, most: cmp.Or(f.cfg.fileRows, fileRows), about: f.about(at), complete: func(next int64) error {
		return f.plan.passed(f.partition, next)
	}}
	defer out.abandon()
	rule, known, first := verify.NewRule(f.start > 0), newLives(), true
	topics := topicNames{f.cfg.Topics.Submissions, f.cfg.Topics.Reports}
	// What came before the place to go on from is read again, because it says which records are void and what a task is.
	err = f.cfg.Log.Read(ctx, verify.Span{Topic: f.cfg.Topics.Events, Partition: f.partition, From: f.start, To: at.To}, func(r events.Record) error {
		if r.Offset%progressEvery == 0 {
			f.progress(progressEvery)
		}
		if r.Control {
			return nil
		}
		void, err := rule.JudgeRecord(&r)
		if err != nil || void != "" {
			return err
		}
		row, err := known.row(&r, rule.Epoch(), topics)
		if err != nil {
			return fmt.Errorf("the fact at offset %d: %w", r.Offset, err)
		}
		if first && f.start > 0 {
			latest(f.begins, row.Time)
		}
		first = false
		if row.Type == string(events.NameTasksSwept) {
			if err := known.forget(r.Value); err != nil {
				return fmt.Errorf("the fact at offset %d: %w", r.Offset, err)
			}
		}
		if r.Offset < at.Next || !f.wanted(&row) {
			return nil
		}
		if f.cfg.NoPayloads {
			row.Data = ""
		}
		f.rows.Add(1)
		return out.add(row, f.partition, r.Offset, row.Time, len(row.Data)+len(row.Task)+len(row.Cause))
	})
	if err == nil {
		err = out.end(at.To)
	}
	f.files.Add(out.files)
	return errors.Join(err, ctx.Err())
}

func (f *factsOf) wanted(row *Fact) bool {
	at := events.Instant(row.Time)
	return (f.cfg.Since == 0 || at >= f.cfg.Since) && (f.cfg.Until == 0 || at < f.cfg.Until) && (f.cfg.Workflow == "" || row.Workflow == f.cfg.Workflow)
}

// about is the metadata of a file. It depends on what is exported alone.
func (f *factsOf) about(at planPart) map[string]string {
	return map[string]string{
		"sagalog.namespace": f.cfg.Namespace, "sagalog.partition": fmt.Sprint(f.partition), "sagalog.offsets": fmt.Sprintf("%d-%d", at.From, at.To), "sagalog.table": "facts",
	}
}

// latest raises a time.
func latest(to *atomic.Int64, at int64) {
	for old := to.Load(); at > old; old = to.Load() {
		if to.CompareAndSwap(old, at) {
			return
		}
	}
}
