package scheduler_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// FuzzPlan runs a task of any accepted definition to its end through outcomes that the fuzzer chooses. Plan never
// panics, has nothing to add once its facts are folded (INV5), leaves no live task without something that will move it
// (INV10), and ends when everything that it starts has ended. Plans and inputs equal those of the oracles, which look
// up each state by name and evaluate on maps.
func FuzzPlan(f *testing.F) {
	example, err := openTestdata("drone-delivery.yaml")
	require.NoError(f, err)
	input := []byte(`{"ownerId":"o","packageInfo":{"weight":1.10},"pickup":{"region":"CH"},"dropoff":{"region":"AT"}}`)
	f.Add(example, input, []byte("sd sd sd"))
	f.Add(example, input, []byte("sdsfsfsfsfsfsdspspp"))
	f.Add(example, input, []byte("sdsdsdsdsdc"))
	f.Add(example, input, []byte("sdstsdorsdl"))
	for _, steps := range []string{
		"  a: {agent: a, undo: {}}\n  b: {agent: a, needs: [a], if: \"${ input.x > 1 }\", undo: {with: {k: \"${ step.output.y }\"}}}\n  c: {agent: a, needs: [b]}\noutput: \"${ steps.b.output?.z }\"",
		"  a: {agent: a, with: \"${ input.x.y }\", retry: {attempts: 2, then: undo}}\n  b: {agent: a, undo: {}}",
		"  a: {agent: a, undo: {}}\n  p: {agent: a, needs: [a], pivot: true}\n  z: {agent: a, needs: [p], if: \"${ steps.a.state == 'completed' }\"}",
	} {
		f.Add([]byte(head+steps), []byte(`{"x":2}`), []byte("sdsfspscsdr"))
		f.Add([]byte(head+steps), []byte(`{"x":{"y":1}}`), []byte("ssddffuulrr"))
	}
	f.Fuzz(func(t *testing.T, definition, input, outcomes []byte) {
		if len(outcomes) > 200 {
			return
		}
		src, _ := scheduler.Parse("f", definition, openTestdata)
		if src == nil {
			return
		}
		w := newRun(t, src, input)
		if w == nil {
			return
		}
		for _, o := range outcomes {
			if !w.settle() {
				return
			}
			w.choose(o)
		}
		// From here on everything succeeds. This number of moves lets each step start, end, be undone and be parked once.
		for range 20*(w.steps+2) + 20*len(outcomes) {
			if !w.settle() {
				return
			}
			if w.task().State == events.TaskStateError {
				return
			}
			w.choose('d')
		}
		t.Fatalf("the task does not end: %s", asText(t, w.task()))
	})
}

// run is one task between Plan and the fold.
type run struct {
	t     *testing.T
	sched *scheduler.Scheduler
	state *events.State
	ready []events.Ready
	steps int
	now   events.Instant
	n     int
}

func newRun(t *testing.T, src *scheduler.Source, input []byte) *run {
	t.Helper()
	d, err := scheduler.Complete(src.Body)
	require.NoError(t, err)
	body, err := events.Marshal(d)
	require.NoError(t, err)
	w := &run{t: t, sched: scheduler.New(), state: events.NewState(0, nil), steps: len(d.Steps), now: 1_800_000_000_000}
	require.NoError(t, w.sched.Prepare(src.Hash, body), "an accepted definition compiles again")
	in, err := events.Compact(input)
	if err != nil {
		return nil
	}
	accepted, wrong := w.sched.Accept(src.Hash, &events.Submission{ID: "t", Input: in}, 1)
	if wrong != "" {
		return nil
	}
	_, err = w.state.Apply(&events.Fact{Time: w.now, Body: &events.PartitionClaimed{ID: "a"}}, 0)
	require.NoError(t, err)
	w.emit("", &events.DefinitionAdopted{Workflow: src.Workflow, Hash: src.Hash, Version: 1, Body: body})
	w.emit("t", &events.Submitted{Workflow: src.Workflow, Version: 1, Hash: src.Hash, Input: in, Labels: accepted.Labels, Priority: accepted.Priority})
	return w
}

func (w *run) task() *events.Task {
	t, err := w.state.Task("t")
	require.NoError(w.t, err)
	return t
}

// emit writes a fact as an owner does, and folds it as a reader would read it.
func (w *run) emit(task string, b events.Body) {
	w.t.Helper()
	w.now += 1000
	p := w.state.Partition
	r, err := events.EncodeFact(&events.Fact{Epoch: p.Epoch, Sequence: p.NextSequence, Time: w.now, Task: task, Body: b}, 0, "/x")
	require.NoError(w.t, err)
	f, err := events.DecodeFact(&r)
	require.NoError(w.t, err)
	fate, err := w.state.Apply(f, w.state.Next)
	require.NoError(w.t, err, "%s %s", b.Name(), r.Value)
	require.Equal(w.t, events.FateAccepted, fate)
}

// settle folds planned facts until Plan is quiet. It returns false when the task has ended.
func (w *run) settle() bool {
	w.t.Helper()
	for range 4*w.steps + 8 {
		plan, err := w.sched.Plan(w.task())
		require.NoError(w.t, err)
		w.compare(plan)
		if plan.Quiet() {
			w.offers(plan)
			w.ready = plan.Ready
			return w.moves()
		}
		for _, b := range plan.Facts {
			w.emit("t", b)
		}
		for _, x := range plan.Broken {
			if t := w.task(); !t.State.Ended() && t.State != events.TaskStateUndoing {
				w.broken(x.Path, x.Operation, x.Error)
			}
		}
	}
	w.t.Fatalf("Plan always has something to add (INV5): %s", asText(w.t, w.task()))
	return false
}

// offers checks that Offers says of each attempt what a quiet plan says.
func (w *run) offers(plan events.Plan) {
	t := w.task()
	for _, s := range w.sched.Program(t.Definition).Definition().Steps {
		for _, op := range []events.Operation{events.Do, events.Undo} {
			i := slices.IndexFunc(plan.Ready, func(r events.Ready) bool { return r.Path == s.ID && r.Operation == op })
			at, yes, err := w.sched.Offers(t, s.ID, op)
			require.NoError(w.t, err)
			require.Equal(w.t, i >= 0, yes, "%s of %s", op, s.ID)
			if yes {
				require.Equal(w.t, plan.Ready[i].NotBefore, at)
			}
		}
	}
}

// compare checks a plan of steps against its oracle.
func (w *run) compare(plan events.Plan) {
	t := w.task()
	if len(t.Held) == 0 && t.ParkDue == "" && (t.State == events.TaskStatePending || t.State == events.TaskStateProcessing) {
		samePlan(w.t, w.sched.Program(t.Definition), t, plan)
	}
}

// moves says whether the task is live, and checks that something will move it (INV10).
func (w *run) moves() bool {
	t := w.task()
	if t.State.Ended() {
		require.Empty(w.t, w.ready)
		return false
	}
	if t.State != events.TaskStateError && len(w.ready) == 0 && t.CompleteBy() == 0 && len(w.running()) == 0 {
		w.t.Fatalf("nothing moves the task (INV10): %s", asText(w.t, t))
	}
	return true
}

func (w *run) broken(path string, op events.Operation, e events.Error) {
	v := w.verdict(path, op, e, events.EffectNone)
	if op == events.Undo {
		w.emit("t", &events.CompensationFailed{Step: path, Error: e, Verdict: v})
		return
	}
	w.emit("t", &events.StepFailed{Step: path, Effect: events.EffectNone, Error: e, Verdict: v})
}

func (w *run) verdict(path string, op events.Operation, e events.Error, effect events.Effect) events.Verdict {
	t := w.task()
	return supervisor.JudgeFailure(supervisor.Failure{Task: t, Path: path, Operation: op, Error: e, Effect: effect, Policy: w.sched.Policy(t, path, op), Now: w.now})
}

type attempt struct {
	path   string
	op     events.Operation
	number int
}

func (w *run) running() (list []attempt) {
	for _, s := range w.task().Steps {
		if s.State == events.StepStateRunning {
			list = append(list, attempt{s.Path, events.Do, s.Attempt})
		}
		if s.Undo != nil && s.Undo.State == events.StepStateRunning {
			list = append(list, attempt{s.Path, events.Undo, s.Undo.Attempt})
		}
	}
	return list
}

// choose picks a move by a byte of the fuzzer: end a running attempt, start a ready one, or act as an operator or the clock.
func (w *run) choose(o byte) {
	w.n++
	t := w.task()
	switch {
	case o == 'c' && t.State != events.TaskStateUndoing && t.State != events.TaskStateError && !t.Irrevocable():
		w.emit("t", &events.CancelRequested{Request: fmt.Sprint("q", w.n)})
		return
	case o == 'l' && !t.DeadlinePassed:
		action := events.DeadlineUndo
		if t.Irrevocable() || t.State == events.TaskStateError {
			action = events.DeadlineAlert
		}
		w.emit("t", &events.DeadlinePassed{Deadline: w.now, Action: action})
		return
	case t.State == events.TaskStateError:
		w.reopen()
		return
	}
	running := w.running()
	if len(w.ready) > 0 && (o == 's' || len(running) == 0) {
		w.start(w.ready[int(o)%len(w.ready)])
		return
	}
	if len(running) > 0 {
		w.end(running[int(o)%len(running)], o)
	}
}

func (w *run) start(r events.Ready) {
	s, err := w.sched.Start(w.task(), r.Path, r.Operation)
	sameInput(w.t, w.sched.Program(w.task().Definition), w.task(), attempt{path: r.Path, op: r.Operation}, s, err)
	switch {
	case err != nil:
		w.broken(r.Path, r.Operation, events.Error{Class: events.ClassExpression, Message: err.Error()})
	case r.Operation == events.Undo:
		number := 1
		if u := w.task().Step(r.Path).Undo; u != nil {
			number = u.Attempt + 1
		}
		w.emit("t", &events.CompensationStarted{Step: r.Path, Agent: r.Agent, Attempt: number, CompleteBy: w.now + 1, Input: s.Input, Output: s.Output})
	default:
		number := 1
		if at := w.task().Step(r.Path); at != nil {
			number = at.Attempt + 1
		}
		w.emit("t", &events.StepStarted{Step: r.Path, Agent: r.Agent, Attempt: number, CompleteBy: w.now + 1, Input: s.Input, Pivot: s.Pivot, Undoable: s.Undoable})
	}
}

func (w *run) end(a attempt, o byte) {
	e := events.Error{Class: events.ClassRetryable, Message: "no"}
	effect := events.EffectInDoubt
	if o == 'p' || o == 'n' {
		e.Class = events.ClassPermanent
	}
	if o == 'n' {
		effect = events.EffectNone
	}
	switch failed := o == 'f' || o == 'p' || o == 'n'; {
	case o == 't':
		e.Class = events.ClassTimeout
		w.emit("t", &events.Timeout{Step: a.path, Operation: a.op, Attempt: a.number, Verdict: w.verdict(a.path, a.op, e, events.EffectInDoubt)})
	case a.op == events.Do && failed:
		w.emit("t", &events.StepFailed{Step: a.path, Attempt: a.number, Effect: effect, Error: e, Verdict: w.verdict(a.path, a.op, e, effect)})
	case a.op == events.Do:
		w.emit("t", &events.StepCompleted{Step: a.path, Attempt: a.number, Output: json.RawMessage(`{"y":{"z":[1.0,null]},"n":` + fmt.Sprint(w.n) + `}`)})
	case failed:
		w.emit("t", &events.CompensationFailed{Step: a.path, Attempt: a.number, Error: e, Verdict: w.verdict(a.path, a.op, e, effect)})
	default:
		w.emit("t", &events.Compensated{Step: a.path, Attempt: a.number})
	}
}

// reopen is an operator's retry of every failed step.
func (w *run) reopen() {
	var steps []string
	t := w.task()
	for _, s := range t.Steps {
		back := t.ParkedFrom == events.TaskStateUndoing
		if (back && s.State == events.StepStateUndoFailed) || (!back && (s.State == events.StepStateFailed || s.State == events.StepStateTimedOut)) {
			steps = append(steps, s.Path)
		}
	}
	w.emit("t", &events.TaskReopened{Request: fmt.Sprint("r", w.n), Steps: steps})
}

func asText(t *testing.T, v any) string {
	b, err := events.Marshal(v)
	require.NoError(t, err)
	return string(b)
}
