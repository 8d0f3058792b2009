package scheduler_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
	"github.com/sagalog/sagalog/scheduler"
)

// samePlan compares the plan of a live task with one that is made step by step, looking up each state by name.
func samePlan(t testing.TB, p *scheduler.Program, task *events.Task, got events.Plan) {
	t.Helper()
	var want events.Plan
	env := scheduler.NewEnv(task)
	defer env.Close()
	open, failed, running := 0, "", false
	ready := func(s *scheduler.Step, at events.Instant) {
		want.Ready = append(want.Ready, events.Ready{
			Task: task.ID, Path: s.ID, Operation: events.Do, Agent: s.Agent, Priority: task.Priority, Since: task.SubmittedAt, NotBefore: at,
		})
	}
	begin := func(s *scheduler.Step) {
		for _, need := range s.Needs {
			if n := task.Step(need); n == nil || (n.State != events.StepStateCompleted && n.State != events.StepStateSkipped) {
				return
			}
		}
		switch yes, err := p.If(s.ID, env); {
		case err != nil:
			want.Broken = append(want.Broken, events.Broken{Path: s.ID, Operation: events.Do, Error: events.Error{Class: events.ClassExpression, Message: err.Error()}})
		case !yes:
			want.Facts = append(want.Facts, &events.StepSkipped{Step: s.ID, Why: events.SkipCondition, Condition: s.If})
		default:
			ready(s, 0)
		}
	}
	for i := range p.Definition().Steps {
		s := &p.Definition().Steps[i]
		at := task.Step(s.ID)
		if at != nil && (at.State == events.StepStateCompleted || at.State == events.StepStateSkipped) {
			continue
		}
		open++
		switch {
		case at == nil || at.State == events.StepStateWaiting && at.Attempt == 0:
			begin(s)
		case at.State == events.StepStateWaiting:
			ready(s, at.RetryAt)
		case at.State == events.StepStateRunning:
			running = true
		default:
			failed = s.ID
		}
	}
	switch {
	case open == 0:
		out, err := p.Output(env)
		if want.Facts = append(want.Facts, &events.TaskProcessed{Output: out}); err != nil {
			want.Facts[0] = &events.TaskParked{Reason: "the workflow's output failed to evaluate: " + err.Error() + events.OutputHint(task)}
		}
	case failed != "" && !running && want.Quiet() && len(want.Ready) == 0:
		want.Facts = append(want.Facts, &events.TaskParked{Step: failed, Reason: "step " + strconv.Quote(failed) + " failed and was not retried"})
	}
	want.Cost = got.Cost
	require.Equal(t, want, got)
}

// sameInput compares the input of a step with the result of its mapping in a scope of maps that is built for this
// evaluation.
func sameInput(t testing.TB, p *scheduler.Program, task *events.Task, a attempt, got events.Start, gotErr error) {
	t.Helper()
	step, ok := p.Step(a.path)
	require.True(t, ok)
	with, vars := step.With, []string{"task", "input", "steps"}
	if a.op == events.Undo {
		with, vars = step.Undo.With, append(vars, "step")
	}
	if len(with) == 0 {
		return
	}
	template, err := exprlang.Compile(with, vars...)
	require.NoError(t, err)
	steps := object{}
	for i := range p.Definition().Steps {
		steps[p.Definition().Steps[i].ID] = func() *exprlang.Node { return stepNode("not_started", nil, nil) }
	}
	for _, s := range task.Steps {
		steps[s.Path] = func() *exprlang.Node { return stepNode(string(s.State), s.Input, s.Output) }
	}
	own := object{"input": raw(nil), "output": raw(nil)}
	if at := task.Step(a.path); at != nil {
		own = object{"input": raw(at.Input), "output": raw(at.Output)}
	}
	want, wantErr := template.Eval(exprlang.NewNodeScope(map[string]*exprlang.Node{
		"task": exprlang.Object(object{
			"id": value(t, task.ID), "run": value(t, task.Run), "workflow": value(t, task.Workflow), "version": value(t, task.Version),
		}),
		"input": exprlang.Raw(task.Input), "steps": exprlang.Object(steps), "step": exprlang.Object(own),
	}))
	if wantErr != nil {
		require.EqualError(t, gotErr, wantErr.Error())
		return
	}
	require.NoError(t, gotErr)
	require.Equal(t, string(want), string(got.Input))
}

// object is an object whose members are computed by functions.
type object map[string]func() *exprlang.Node

// Member implements exprlang.Members.
func (o object) Member(_ *exprlang.Scope, name string) *exprlang.Node {
	if made := o[name]; made != nil {
		return made()
	}
	return nil
}

// Names implements exprlang.Members.
func (o object) Names() []string {
	var names []string
	for name := range o {
		names = append(names, name)
	}
	return names
}

func raw(b json.RawMessage) func() *exprlang.Node {
	return func() *exprlang.Node { return exprlang.Raw(b) }
}

func value(t testing.TB, v any) func() *exprlang.Node {
	b, err := events.Marshal(v)
	require.NoError(t, err)
	return raw(b)
}

func stepNode(state string, input, output json.RawMessage) *exprlang.Node {
	return exprlang.Object(object{"state": raw(json.RawMessage(strconv.Quote(state))), "input": raw(input), "output": raw(output)})
}
