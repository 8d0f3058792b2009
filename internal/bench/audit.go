package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"golang.org/x/sync/errgroup"
)

// fate is what the log says of a task.
type fate struct{ submitted, ended uint8 }

// audit reads a log from its beginning and compares it with what is known outside of it: which submissions were
// acknowledged, and which calls the agents received. It leaves void records out by the rule of events/FORMAT.md, and shares
// no code with the watcher nor with the fold.
type audit struct {
	names names
	// before are the ends that the log had before the run: what stands before them is judged and not counted.
	before map[int32]int64

	// Each task is in one partition, and each partition is read by one goroutine.
	fates             table[fate]
	starts, completed table[uint32]

	mu sync.Mutex
	// mu guards the fields below.
	facts, void, timeouts int64
	tasks                 int64
}

// claims follows the valid claim of a partition.
type claims struct {
	id      string
	ordinal uint64
	epoch   string
	next    uint64
	broken  bool
}

// accepted tells whether a record is part of history.
func (c *claims) accepted(r *events.Record) (bool, error) {
	if string(header(r, events.HeaderType)) == "sagalog.PartitionClaimed" {
		var claim struct{ ID, Prev string }
		if err := json.Unmarshal(r.Value, &claim); err != nil {
			return false, fmt.Errorf("a claim at offset %d: %w", r.Offset, err)
		}
		if claim.Prev != c.id || claim.ID == "" || claim.ID == c.id {
			return false, nil
		}
		*c = claims{id: claim.ID, ordinal: c.ordinal + 1}
		c.epoch = strconv.FormatUint(c.ordinal, 10) + "-" + c.id
		return true, nil
	}
	if c.ordinal == 0 || string(header(r, events.HeaderEpoch)) != c.epoch {
		return false, nil
	}
	n, err := strconv.ParseUint(string(header(r, events.HeaderSequence)), 10, 64)
	if err != nil {
		return false, fmt.Errorf("the sequence at offset %d: %w", r.Offset, err)
	}
	if n > c.next {
		c.broken = true
	}
	if c.broken || n != c.next {
		return false, nil
	}
	c.next++
	return true, nil
}

// read takes the log of all partitions up to the ends that they have now.
func (a *audit) read(ctx context.Context, c *kafka.Cluster, topic string, partitions int32) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for p := range partitions {
		g.Go(func() error {
			var of claims
			part := audit{names: a.names}
			err := c.ReadRange(ctx, topic, p, 0, -1, func(r events.Record) error {
				ok, err := of.accepted(&r)
				if err == nil && r.Offset >= a.before[p] {
					part.count(ok)
				}
				if err != nil || !ok {
					return err
				}
				return a.take(&r, &part)
			})
			a.mu.Lock()
			defer a.mu.Unlock()
			a.facts += part.facts
			a.void += part.void
			a.timeouts += part.timeouts
			a.tasks += part.tasks
			return err
		})
	}
	return g.Wait()
}

func (a *audit) count(accepted bool) {
	if accepted {
		a.facts++
	} else {
		a.void++
	}
}

// take notes an accepted fact; what is not about one task goes to part.
func (a *audit) take(r *events.Record, part *audit) error {
	kind := string(bytes.TrimPrefix(header(r, events.HeaderType), []byte(events.TypePrefix)))
	switch events.Name(kind) {
	case events.NameSubmitted, events.NameTaskProcessed, events.NameTaskUndone, events.NameTaskParked,
		events.NameStepStarted, events.NameStepCompleted:
	case events.NameTimeout:
		part.timeouts++
		return nil
	default:
		return nil
	}
	task, ours := a.names.number(r.Key)
	if !ours {
		return nil
	}
	switch events.Name(kind) {
	case events.NameSubmitted:
		part.tasks++
		more(&a.fates.at(task).submitted)
	case events.NameStepStarted:
		return a.step(&a.starts, task, r)
	case events.NameStepCompleted:
		return a.step(&a.completed, task, r)
	default:
		more(&a.fates.at(task).ended)
	}
	return nil
}

// more counts to 255 and stays there.
func more(n *uint8) {
	if *n < 255 {
		*n++
	}
}

func (a *audit) step(t *table[uint32], task int, r *events.Record) error {
	step, err := stepIn(r.Value)
	if err != nil {
		return fmt.Errorf("the fact at offset %d: %w", r.Offset, err)
	}
	if p := t.at(task); step >= 0 && callsOf(*p, step) < manyCalls {
		*p += 1 << (bitsOfStep * step)
	}
	return nil
}

var stepMember = []byte(`{"step":"`)

// stepIn returns the step of a fact. The engine writes it first; any other order is read too.
func stepIn(value []byte) (int, error) {
	if rest, ok := bytes.CutPrefix(value, stepMember); ok {
		if name, _, ok := bytes.Cut(rest, []byte(`"`)); ok {
			if step := stepOf(name); step >= 0 {
				return step, nil
			}
		}
	}
	var f struct {
		Step string `json:"step"`
	}
	if err := json.Unmarshal(value, &f); err != nil {
		return -1, err
	}
	return stepOf([]byte(f.Step)), nil
}

// evidence is what is known outside of the log.
type evidence struct {
	// sent is how many tasks were submitted, acked which of them were acknowledged.
	sent  int
	acked *table[uint8]
	// calls are those that the agents received, nil where nobody counted.
	calls *calls
	// ends says that every acknowledged task must have ended.
	ends bool
	// unjudged says that the engine was stopped before it had accepted all of them.
	unjudged bool
	// again allows more calls than attempts: work is delivered again behind a take-over, with the same idempotency key.
	again bool
}

// Verdict is what the check found.
type Verdict struct {
	// Checked are the tasks that were compared, Calls the calls of agents.
	Checked int64 `json:"checked"`
	Calls   int64 `json:"calls_checked"`
	// Lost are acknowledged submissions that the log does not hold, and completions without a call.
	Lost int64 `json:"lost"`
	// Doubled are submissions accepted twice, tasks that ended twice, and calls without an attempt.
	Doubled int64 `json:"doubled"`
	// Unfinished are tasks without an end, or not yet accepted, when --drain was over.
	Unfinished int64 `json:"unfinished"`
	// Repeated are calls of an attempt beyond its first, where they are allowed.
	Repeated int64 `json:"repeated_calls,omitzero"`
	// Findings tell the first of them.
	Findings []string `json:"findings,omitempty"`
	// uncounted says that nobody counted the calls.
	uncounted bool
}

// maxFindings is how many findings are told; one is enough to refute, a few show a pattern.
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
		return fmt.Errorf("%d tasks had no end when --drain was over: raise it or lower the load; if they stand still, that is a defect; the first: %s", v.Unfinished, first)
	}
	return fmt.Errorf("refuted by the log: %d lost, %d doubled, %d without an end; the first: %s", v.Lost, v.Doubled, v.Unfinished, first)
}

// judge compares the log with the evidence.
func (a *audit) judge(e evidence) Verdict {
	v := Verdict{uncounted: e.calls == nil}
	for task := range e.sent {
		id := func() string { return string(a.names.append(nil, task)) }
		f := a.fates.get(task)
		v.Checked++
		switch {
		case e.acked.get(task) != 0 && f.submitted == 0 && e.unjudged:
			v.add(&v.Unfinished, "task %s was acknowledged and not accepted before the engine was stopped", id())
		case e.acked.get(task) != 0 && f.submitted == 0:
			v.add(&v.Lost, "task %s was acknowledged and has no Submitted", id())
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
			a.judgeCalls(task, e, &v)
		}
	}
	for i := range a.fates.blocks {
		if i >= (e.sent+blockSize-1)/blockSize && a.fates.blocks[i].Load() != nil {
			v.add(&v.Doubled, "the log holds tasks that nobody submitted, such as number %d", i*blockSize)
		}
	}
	return v
}

func (a *audit) judgeCalls(task int, e evidence, v *Verdict) {
	called, started, completed := e.calls.get(task), a.starts.get(task), a.completed.get(task)
	for step, name := range steps {
		n := callsOf(called, step)
		v.Calls += int64(n)
		switch most := callsOf(started, step); {
		case n > most && !e.again:
			v.add(&v.Doubled, "step %s of task %s was called %d times for %d attempts", name, a.names.append(nil, task), n, most)
		case n > most:
			v.Repeated += int64(n - most)
		}
		if least := callsOf(completed, step); n < least {
			v.add(&v.Lost, "step %s of task %s completed %d times and was called %d times", name, a.names.append(nil, task), least, n)
		}
	}
}
