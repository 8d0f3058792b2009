package execagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// traceVariable is the W3C trace context, under the name that other tools give it in an environment.
const traceVariable = "TRACEPARENT"

// try returns a function that runs a command once.
func (b *Binding) try(c *command) agent.RawFunc {
	return func(ctx context.Context, w *events.Work, outputLimit int) (json.RawMessage, error) {
		out, f := b.run(ctx, c, w, outputLimit)
		if f == nil {
			return b.secrets.JSON(out), nil
		}
		f.Err = errors.New(b.secrets.Text(f.Err.Error()))
		f.Detail = b.secrets.JSON(f.Detail)
		return nil, f
	}
}

func (b *Binding) run(ctx context.Context, c *command, w *events.Work, outputLimit int) (json.RawMessage, *agent.Failure) {
	i, f := b.invocation(ctx, c, w)
	if f != nil {
		return nil, f
	}
	r := result{
		command: c, undo: w.Operation == events.Undo, stdout: newCapture(outputLimit), stderr: newTail(stderrLimit + b.secrets.Longest()), secrets: b.secrets,
	}
	i.stdout, i.stderr = r.stdout, r.stderr
	began := time.Now()
	p, err := start(i)
	if err != nil {
		return nil, r.notStarted(err)
	}
	end := supervision{process: p, grace: c.grace, schedule: scheduleOf(ctx, w, c.grace, began)}
	end.watch(ctx, r.stdout.full)
	r.reason, r.killed, r.took, r.ending = end.reason, end.killed, time.Since(began), p.ending
	return r.outcome()
}

// invocation evaluates the arguments. A failure here is permanent, because it would repeat in every attempt, and without effect,
// because nothing was started.
func (b *Binding) invocation(ctx context.Context, c *command, w *events.Work) (invocation, *agent.Failure) {
	program, err := c.find()
	if err != nil {
		return invocation{}, agentfile.Refusal("not_found", err)
	}
	scope := exprlang.Borrow()
	defer scope.Return()
	agentfile.SetVariables(scope, w, b.env)
	i := invocation{program: program, args: []string{c.program}, dir: c.dir}
	for n, a := range c.args {
		v, err := a.text.Eval(scope)
		null := a.text.Find(scope, func(v json.RawMessage) bool { return string(v) == "null" })
		switch {
		case err != nil:
			return invocation{}, agentfile.Refusal("expression", fmt.Errorf("argument %d of %s: %w", n+1, c.program, err))
		case null != "":
			return invocation{}, agentfile.Refusal("argument", fmt.Errorf(
				"argument %d of %s: %s is null: if that may be, write what to pass instead, such as ${ %[3]s ?? '' }; if not, let the schema of the workflow's input require it",
				n+1, c.program, null))
		case strings.ContainsRune(v, 0):
			return invocation{}, agentfile.Refusal("argument", fmt.Errorf("argument %d of %s contains a NUL character", n+1, c.program))
		case !a.option && strings.HasPrefix(v, "-"):
			return invocation{}, agentfile.Refusal("argument", fmt.Errorf(
				`argument %d of %s would be an option, since its value begins with a dash: put "--" before it in command, if the program knows that`, n+1, c.program))
		}
		i.args = append(i.args, v)
	}
	if i.env, err = environment(ctx, c, w); err != nil {
		return invocation{}, agentfile.Refusal("argument", err)
	}
	if !c.silent {
		i.stdin = stdin(w)
	}
	return i, nil
}

// environment returns the variables of the binding and those of the attempt.
func environment(ctx context.Context, c *command, w *events.Work) ([]string, error) {
	a, _ := agent.FromContext(ctx)
	env := append([]string{}, c.env...)
	for _, v := range [...][2]string{
		{attemptPrefix + "TASK", w.Task}, {attemptPrefix + "RUN", strconv.Itoa(w.Run)},
		{attemptPrefix + "WORKFLOW", w.Workflow}, {attemptPrefix + "VERSION", strconv.Itoa(w.Version)},
		{attemptPrefix + "STEP", w.Step}, {attemptPrefix + "OPERATION", string(w.Operation)}, {attemptPrefix + "FUNCTION", w.Function}, {attemptPrefix + "ATTEMPT", strconv.Itoa(w.Attempt)},
		{attemptPrefix + "KEY", w.IdempotencyKey}, {attemptPrefix + "UNDOES", w.Undoes}, {attemptPrefix + "COMPLETE_BY", w.CompleteBy.String()},
		{traceVariable, a.Traceparent},
	} {
		if strings.ContainsRune(v[1], 0) {
			return nil, fmt.Errorf("the value of %s contains a NUL character", v[0])
		}
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env, nil
}

// stdin returns the input of a do, or what an undo has to know.
func stdin(w *events.Work) []byte {
	input, output := w.Input, w.Output
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	if w.Operation != events.Undo {
		return input
	}
	if len(output) == 0 {
		output = json.RawMessage("null")
	}
	return mustMarshal(struct {
		Input  json.RawMessage `json:"input"`
		Output json.RawMessage `json:"output"`
	}{input, output})
}

// mustMarshal encodes JSON values, which always encode.
func mustMarshal(v any) json.RawMessage {
	b, err := events.Marshal(v)
	if err != nil {
		panic("execagent: text does not encode: " + err.Error())
	}
	return b
}
