package whatif

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// before is how long before Config.Since attempts are samples: some that are drawn may start then.
const before = time.Hour

// known are the definitions of the workflow, by hash. All partitions share them.
type known struct {
	mu   sync.Mutex
	all  map[string]*policy
	want *policy
	// newest is that with the highest version, and other the place where it differs.
	newest *policy
}

func (k *known) adopt(b *events.DefinitionAdopted) error {
	if b.Workflow != k.want.version.Workflow {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all[b.Hash] != nil {
		return nil
	}
	p, err := policyOfLog(b)
	if err != nil {
		return fmt.Errorf("version %d of workflow %q: %w", b.Version, b.Workflow, err)
	}
	k.all[b.Hash] = p
	if k.newest == nil || p.version.Version > k.newest.version.Version {
		k.newest = p
	}
	return nil
}

func (k *known) of(hash string) *policy {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[hash]
}

// reading makes traces and samples of the facts of one partition, in their order.
type reading struct {
	cfg       *Config
	partition int32
	known     *known
	samples   *samples
	settings  *events.Settings
	// piece is the beginning of a definition that is carried in several records.
	piece string
	// open are the tasks that have not ended. Those of other workflows are here for their attempts.
	open map[string]*open
	emit func(*Trace) error
}

// open is a task that has not ended.
type open struct {
	// trace is nil if the task is not asked for. Then only its attempts matter.
	trace   *Trace
	running map[key]*Attempt
	// last is when its latest fact was decided.
	last events.Instant
}

// read reads the facts of a partition.
func (r *reading) read(ctx context.Context, at verify.Bounds, progress func(n int64)) error {
	rule := verify.NewRule(at.Start > 0)
	err := r.cfg.Log.Read(ctx, verify.Span{Topic: r.cfg.Topic, Partition: r.partition, From: at.Start, To: at.End}, func(rec events.Record) error {
		progress(1)
		if rec.Control {
			return nil
		}
		if void, err := rule.JudgeRecord(&rec); err != nil || void != "" {
			return err
		}
		f, err := events.DecodeFact(&rec)
		if err == nil {
			err = r.take(f, &rec)
		}
		if err != nil {
			return fmt.Errorf("the fact at offset %d of partition %d: %w", rec.Offset, r.partition, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, o := range slices.SortedFunc(maps.Values(r.open), func(a, b *open) int {
		return cmp.Compare(a.name(), b.name())
	}) {
		if err := r.close(o, skipOpen); err != nil {
			return err
		}
	}
	return nil
}

func (o *open) name() string {
	if o.trace == nil {
		return ""
	}
	return o.trace.Task
}

// close emits a task about which the log says no more, or nothing that is replayed. A parked task has ended; any other has not, for that reason.
func (r *reading) close(o *open, why Reason) error {
	t := o.trace
	if t == nil {
		return nil
	}
	if t.End == "" {
		t.Skipped = cmp.Or(t.Skipped, why)
	}
	for _, a := range o.running { // its end does not matter any more
		a.Answer.Result = Silent
	}
	o.trace = nil
	return r.emit(t)
}

// take takes a fact.
func (r *reading) take(f *events.Fact, rec *events.Record) error {
	switch b := f.Body.(type) {
	case *events.DefinitionAdopted:
		return r.known.adopt(b)
	case *events.SettingsAdopted:
		r.settings = &b.Settings
		return nil
	case *events.TimeCorrected:
		for _, o := range r.open {
			o.skip(skipClock)
		}
		return nil
	case *events.Submitted:
		r.submitted(f, b, rec)
		return nil
	case *events.CarryBegun:
		return r.carried(b)
	case *events.EntityCarried:
		if f.Task == "" && b.Kind == events.KindDefinition {
			return r.definition(b)
		}
		return nil
	case *events.ChildRefused:
		return nil
	}
	o := r.open[f.Task]
	if o == nil {
		return nil
	}
	if o.trace != nil && events.HasSealed(rec.Value) {
		o.skip(skipSealed)
	}
	if err := r.attempt(o, f, rec); err != nil {
		return err
	}
	err := r.course(o, f)
	o.last = f.Time
	return err
}

// carried takes the settings from the state of the partition. A log that was cut begins with it.
func (r *reading) carried(b *events.CarryBegun) error {
	var p events.PartitionState
	if r.settings != nil {
		return nil
	}
	if err := json.Unmarshal(b.State, &p); err != nil {
		return fmt.Errorf("read the state of the partition: %w", err)
	}
	r.settings = &p.Settings
	return nil
}

// definition takes a definition that was adopted before the beginning of a log that was cut.
func (r *reading) definition(b *events.EntityCarried) error {
	encoding := []byte(b.Encoding)
	if b.Piece != "" {
		if r.piece += b.Piece; b.More {
			return nil
		}
		encoding, r.piece = []byte(r.piece), ""
	}
	var d events.Definition
	if err := json.Unmarshal(encoding, &d); err != nil {
		return fmt.Errorf("read the definition %s: %w", b.ID, err)
	}
	return r.known.adopt(&events.DefinitionAdopted{Workflow: d.Workflow, Hash: d.Hash, Version: d.Version, Body: d.Body})
}

func (o *open) skip(why Reason) {
	if o.trace != nil && o.trace.Skipped == "" {
		o.trace.Skipped = why
	}
}

// submitted begins a task.
func (r *reading) submitted(f *events.Fact, b *events.Submitted, rec *events.Record) {
	o := &open{running: map[key]*Attempt{}, last: f.Time}
	r.open[f.Task] = o
	if b.Workflow != r.known.want.version.Workflow || f.Time < r.cfg.Since || r.cfg.Until != 0 && f.Time >= r.cfg.Until {
		return
	}
	o.trace = &Trace{Task: f.Task, Incarnation: f.Position().String(), Version: b.Version, Definition: b.Hash, Accepted: f.Time, Submitted: b, Settings: r.settings}
	p := r.known.of(b.Hash)
	switch {
	case b.Parent != nil:
		o.skip(skipParent)
	case p == nil:
		o.skip(skipDefinition)
	case p.children:
		o.skip(skipChild)
	case events.HasSealed(rec.Value):
		o.skip(skipSealed)
	case p.differs(r.known.want) != nil:
		o.skip(skipOther)
	}
	if p != nil && b.Deadline != 0 {
		own, err := (&events.Submission{}).TimesFrom(max(f.Time, b.NotBefore), p.definition.Deadline)
		o.trace.OwnDeadline = err == nil && own.Deadline == b.Deadline
	}
}

// attempt takes what a fact says about an attempt.
func (r *reading) attempt(o *open, f *events.Fact, rec *events.Record) error {
	switch b := f.Body.(type) {
	case *events.StepStarted:
		if b.Child == nil {
			o.started(&Attempt{Path: b.Step, Operation: events.Do, N: b.Attempt, Agent: b.Agent, Function: b.Function, Ready: cmp.Or(b.ReadyAt, o.last), Started: f.Time})
		}
	case *events.CompensationStarted:
		if b.Child == nil {
			o.started(&Attempt{Path: b.Step, Operation: events.Undo, N: b.Attempt, Agent: b.Agent, Function: b.Function, Ready: cmp.Or(b.ReadyAt, o.last), Started: f.Time})
		}
	case *events.StepCompleted:
		r.ended(o, f, rec, key{b.Step, events.Do, b.Attempt}, b.Request, Answer{Result: Completed, Output: b.Output})
	case *events.StepFailed:
		a := Answer{Result: Failed, Error: &b.Error, Effect: b.Effect, RetryAfter: b.RetryAfter}
		if b.Error.Class == events.ClassCheck { // the agent completed it; the engine's check will fail again
			a = Answer{Result: Completed, Output: b.Output}
		}
		r.ended(o, f, rec, key{b.Step, events.Do, b.Attempt}, b.Request, a)
	case *events.Compensated:
		r.ended(o, f, rec, key{b.Step, events.Undo, b.Attempt}, b.Request, Answer{Result: Completed})
	case *events.CompensationFailed:
		r.ended(o, f, rec, key{b.Step, events.Undo, b.Attempt}, b.Request, Answer{Result: Failed, Error: &b.Error, RetryAfter: b.RetryAfter})
	case *events.Timeout:
		r.ended(o, f, rec, key{b.Step, b.Operation, b.Attempt}, "", Answer{Result: Silent, Gone: b.Verdict.Uncounted})
	case *events.EffectFailed:
		if b.Failed != nil || b.CompensationFailed != nil {
			o.skip(skipUnsent)
		}
	}
	return nil
}

func (o *open) started(a *Attempt) {
	o.running[a.key()] = a
	if o.trace != nil {
		o.trace.Attempts = append(o.trace.Attempts, a)
	}
}

// ended takes the end of an attempt. What an operator decided is no sample.
func (r *reading) ended(o *open, f *events.Fact, rec *events.Record, k key, request string, answer Answer) {
	a := o.running[k]
	if a == nil || request != "" {
		return
	}
	delete(o.running, k)
	a.Ended, a.Answer = f.Time, answer
	if a.Started < r.cfg.Since.Add(-before) {
		return
	}
	r.samples.add(a.call(), a.N, sample{
		at: a.Started, rank: digest(r.cfg.Seed, int(r.partition), int(rec.Offset)), queue: max(0, a.Started.Sub(a.Ready)), lasted: a.lasted(), answer: answer,
	})
}

// course takes what a fact says about the course of the task: its end, and what came from outside.
func (r *reading) course(o *open, f *events.Fact) error {
	t := o.trace
	switch b := f.Body.(type) {
	case *events.TaskProcessed, *events.TaskUndone:
		delete(r.open, f.Task)
		if t == nil {
			return nil
		}
		if t.EndedAt, t.End = f.Time, events.TaskStateProcessed; f.Body.Name() == events.NameTaskUndone {
			t.End = events.TaskStateUndone
		}
		return r.close(o, "")
	case *events.TaskTerminated:
		delete(r.open, f.Task)
		return r.close(o, skipOperator)
	case *events.TasksSwept:
		for _, id := range b.Tasks {
			delete(r.open, id)
		}
		return nil
	case *events.TaskParked:
		if t != nil {
			t.End, t.EndedAt = events.TaskStateError, f.Time
		}
		return nil
	}
	if t == nil {
		return nil
	}
	q, asked := requested(f.Body)
	switch {
	case !asked:
		return nil
	case t.End == "" && q.Kind != "":
		t.Acts = append(t.Acts, Act{f.Time, q})
		return nil
	}
	return r.close(o, skipOperator) // the task goes on for its attempts
}

// requested returns what a fact says that somebody asked for; false if nobody did. The request has no kind if a replay does not repeat it: a replay
// repeats those that do not depend on how far the task got.
func requested(body events.Body) (q events.Request, asked bool) {
	switch b := body.(type) {
	case *events.SignalReceived:
		return events.Request{ID: b.Request, Kind: events.RequestSignal, Signal: b.Signal, Payload: b.Payload, By: b.By}, true
	case *events.CancelRequested:
		return events.Request{ID: b.Request, Kind: events.RequestCancel, Reason: b.Reason, By: b.By}, true
	case *events.TaskPaused:
		return events.Request{ID: b.Request, Kind: events.RequestPause, Reason: b.Reason, By: b.By}, true
	case *events.TaskResumed:
		return events.Request{ID: b.Request, Kind: events.RequestResume, Reason: b.Reason, By: b.By}, true
	case *events.TaskReopened, *events.TaskRerun, *events.RunBegun, *events.ChildUndoRequested:
		return q, true
	case *events.StepCompleted:
		return q, b.Request != ""
	case *events.StepFailed:
		return q, b.Request != ""
	case *events.StepSkipped:
		return q, b.Request != ""
	case *events.Compensated:
		return q, b.Request != ""
	case *events.CompensationFailed:
		return q, b.Request != ""
	}
	return q, false
}
