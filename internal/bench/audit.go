package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/verify"
	"golang.org/x/sync/errgroup"
)

// outcome counts what the log says about a task.
type outcome struct{ submitted, ended uint8 }

// audit reads a log from its beginning and compares it with the acknowledged submissions and the calls that agents received.
// verify.Rule says which records are void. It shares no code with the watcher or the fold.
type audit struct {
	names names
	// before holds the ends of the log before the run. Records before them are judged but not counted.
	before map[int32]int64
	// items is how many items each task has, zero for tasks of five steps.
	items int

	// Starts and completions are counted by task, or by item. Each task is in one partition, and each partition is read by one goroutine.
	outcomes          table[outcome]
	starts, completed table[uint32]

	mu sync.Mutex
	// mu guards the fields below.
	facts, void, timeouts int64
	tasks                 int64
	// takeovers counts the claims of partitions in which a task of the run was accepted before: the owner changed during the run.
	takeovers int64
}

// read reads all partitions up to their current ends.
func (a *audit) read(ctx context.Context, c *kafka.Cluster, topic string, partitions int32) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for p := range partitions {
		g.Go(func() error {
			var rule verify.Rule
			part := audit{names: a.names}
			err := c.ReadRange(ctx, topic, p, 0, -1, func(r events.Record) error {
				void, err := rule.JudgeRecord(&r)
				if err != nil {
					return err
				}
				ours := r.Offset >= a.before[p]
				if void != "" {
					if ours {
						part.void++
					}
					return nil
				}
				if ours {
					part.facts++
				}
				return a.note(&r, &part)
			})
			a.mu.Lock()
			defer a.mu.Unlock()
			a.facts += part.facts
			a.void += part.void
			a.timeouts += part.timeouts
			a.tasks += part.tasks
			a.takeovers += part.takeovers
			return err
		})
	}
	return g.Wait()
}

// note counts an accepted fact. Counts that belong to no task go to part.
func (a *audit) note(r *events.Record, part *audit) error {
	kind := events.Name(bytes.TrimPrefix(r.HeaderBytes(events.HeaderType), []byte(events.TypePrefix)))
	if kind == events.NameTimeout {
		part.timeouts++
	}
	if kind == events.NamePartitionClaimed && part.tasks > 0 {
		part.takeovers++
	}
	task, ours := a.names.number(r.Key)
	if !ours {
		return nil
	}
	switch kind {
	case events.NameSubmitted:
		part.tasks++
		more(&a.outcomes.at(task).submitted)
	case events.NameStepStarted:
		return a.step(&a.starts, task, r)
	case events.NameStepCompleted:
		return a.step(&a.completed, task, r)
	case events.NameTaskProcessed, events.NameTaskUndone, events.NameTaskTerminated, events.NameTaskParked:
		more(&a.outcomes.at(task).ended)
	}
	return nil
}

// more increments a counter, up to 255.
func more(n *uint8) {
	if *n < 255 {
		*n++
	}
}

func (a *audit) step(t *table[uint32], task int, r *events.Record) error {
	var f struct {
		Step string `json:"step"`
	}
	if err := json.Unmarshal(r.Value, &f); err != nil {
		return fmt.Errorf("decode the step of the fact at offset %d: %w", r.Offset, err)
	}
	name, _, item := events.SplitItem(f.Step)
	if a.items > 0 && !item { // the step with the items calls nobody
		return nil
	}
	step := stepOf(name)
	if p := t.at(place(task, f.Step, a.items)); step >= 0 && callsOf(*p, step) < manyCalls {
		*p += 1 << (bitsOfStep * step)
	}
	return nil
}

// evidence is the knowledge from outside the log.
type evidence struct {
	// sent is the number of submitted tasks, and acked marks the acknowledged ones.
	sent  int
	acked *table[uint8]
	// calls are the calls that the agents received, nil if nobody counted them.
	calls *calls
	// ends says that every acknowledged task must have ended.
	ends bool
	// unjudged says that the engine was stopped before it had accepted all submissions.
	unjudged bool
	// again allows more calls than attempts, as a take-over in the log does: after it, work is sent again with the same idempotency key.
	again bool
}

// Verdict is the result of the check.
type Verdict struct {
	// Checked is the number of compared tasks, and Calls the number of calls to agents.
	Checked int64 `json:"checked"`
	Calls   int64 `json:"calls_checked"`
	// Lost counts acknowledged submissions that are not in the log, and completions without a call.
	Lost int64 `json:"lost"`
	// Doubled counts submissions accepted twice, tasks that ended twice, and calls without an attempt.
	Doubled int64 `json:"doubled"`
	// Unfinished counts tasks that had not ended or were not accepted when --drain was over.
	Unfinished int64 `json:"unfinished"`
	// Repeated counts calls beyond the first of an attempt, if they are allowed.
	Repeated int64 `json:"repeated_calls,omitzero"`
	// Findings describe the first few of these faults.
	Findings []string `json:"findings,omitempty"`
	// uncounted says that nobody counted the calls.
	uncounted bool
}

// maxFindings is how many findings are printed. One is enough to refute, and a few show a pattern.
const maxFindings = 5

func (v *Verdict) add(n *int64, format string, args ...any) {
	*n++
	if len(v.Findings) < maxFindings {
		v.Findings = append(v.Findings, fmt.Sprintf(format, args...))
	}
}

func (v *Verdict) print(out io.Writer) {
	what := fmt.Sprintf("%d tasks and %d calls", v.Checked, v.Calls)
	if v.uncounted {
		what = fmt.Sprintf("%d tasks (calls were not counted)", v.Checked)
	}
	fmt.Fprintf(out, "\n  check: %s against the log: %d lost, %d doubled, %d without an end\n", what, v.Lost, v.Doubled, v.Unfinished)
	for _, f := range v.Findings {
		fmt.Fprintf(out, "    %s\n", f)
	}
}

// Err returns nil if nothing was refuted.
func (v *Verdict) Err() error {
	if v == nil || v.Lost == 0 && v.Doubled == 0 && v.Unfinished == 0 {
		return nil
	}
	first := strings.Join(v.Findings, "; ")
	if v.Lost == 0 && v.Doubled == 0 {
		return fmt.Errorf("%d tasks had not ended when --drain was over: raise it or lower the load; if the tasks make no progress, that is a defect; the first: %s", v.Unfinished, first)
	}
	return fmt.Errorf("refuted by the log: %d lost, %d doubled, %d without an end; the first: %s", v.Lost, v.Doubled, v.Unfinished, first)
}

// judge compares the log with the evidence.
func (a *audit) judge(e evidence) Verdict {
	v := Verdict{uncounted: e.calls == nil}
	for task := range e.sent {
		id := func() string { return string(a.names.append(nil, task)) }
		f := a.outcomes.get(task)
		v.Checked++
		switch {
		case e.acked.get(task) != 0 && f.submitted == 0 && e.unjudged:
			v.add(&v.Unfinished, "task %s was acknowledged, but the engine was stopped before it accepted it", id())
		case e.acked.get(task) != 0 && f.submitted == 0:
			v.add(&v.Lost, "task %s was acknowledged but has no Submitted", id())
		case e.acked.get(task) != 0 && e.ends && f.ended == 0:
			v.add(&v.Unfinished, "task %s has no end", id())
		}
		if f.submitted > 1 {
			v.add(&v.Doubled, "task %s has %d Submitted", id(), f.submitted)
		}
		if f.ended > 1 {
			v.add(&v.Doubled, "task %s has %d ends", id(), f.ended)
		}
		if e.calls != nil {
			for item := range max(a.items, 1) {
				a.judgeCalls(task, item, e, &v)
			}
		}
	}
	for i := range a.outcomes.blocks {
		if i >= (e.sent+blockSize-1)/blockSize && a.outcomes.blocks[i].Load() != nil {
			v.add(&v.Doubled, "the log holds tasks that nobody submitted, such as number %d", i*blockSize)
		}
	}
	return v
}

// judgeCalls compares the calls of a task, or those of one of its items.
func (a *audit) judgeCalls(task, item int, e evidence, v *Verdict) {
	at := task*max(a.items, 1) + item
	called, started, completed := e.calls.get(at), a.starts.get(at), a.completed.get(at)
	for step, name := range steps {
		if a.items > 0 {
			name = events.ItemPath(name, item)
		}
		n := callsOf(called, step)
		v.Calls += int64(n)
		switch most := callsOf(started, step); {
		case n > most && !e.again && a.takeovers == 0:
			v.add(&v.Doubled, "step %s of task %s was called %d times for %d attempts", name, a.names.append(nil, task), n, most)
		case n > most:
			v.Repeated += int64(n - most)
		}
		if least := callsOf(completed, step); n < least {
			v.add(&v.Lost, "step %s of task %s completed %d times but was called %d times", name, a.names.append(nil, task), least, n)
		}
	}
}
