package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// Handle registers fn as the work of the named agent. The input is decoded with encoding/json into In; an input that does not
// decode is a permanent failure without effect. The context ends at the complete-by time, and a result that fn returns later is
// never reported. A panic is a failure of class internal.
//
// Mistakes in the registration are collected in the registry (Registry.Err).
func Handle[In, Out any](r *Registry, name string, fn func(context.Context, In) (Out, error), options ...Option) {
	r.add(name, "", rawFunc(fn), options)
}

// HandleOperation is Handle for one of several operations of an agent: a step with `agent: bank, operation: capture` calls the function that
// is registered for "bank" and "capture". An agent may have an operation without a name too, by Handle. WithUndo belongs to the
// operation that it is given with. The other options are those of the agent, and the last one given counts.
func HandleOperation[In, Out any](r *Registry, name, operation string, fn func(context.Context, In) (Out, error), options ...Option) {
	r.addOperation(name, operation, rawFunc(fn), options)
}

// rawFunc returns nil for nil, which is a mistake of the registration.
func rawFunc[In, Out any](fn func(context.Context, In) (Out, error)) RawFunc {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, w *events.Work, _ int) (json.RawMessage, error) {
		var in In
		if err := decodeInput(w.Input, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		b, err := events.Marshal(out)
		if err != nil {
			return nil, notEncoded(err)
		}
		return b, nil
	}
}

// checked refuses an output that is not JSON: no report could carry it.
func checked(fn RawFunc) RawFunc {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, w *events.Work, outputLimit int) (json.RawMessage, error) {
		out, err := fn(ctx, w, outputLimit)
		if err == nil && len(out) > 0 && len(out) <= outputLimit && !json.Valid(out) { // a longer one is refused in any case
			return nil, notEncoded(errors.New("the output is not JSON"))
		}
		return out, err
	}
}

func notEncoded(err error) *Failure {
	return &Failure{Class: events.ClassPermanent, Effect: events.EffectInDoubt, Code: "output_encoding", Err: err}
}

// Undo is the argument of an undo function. It holds the step's input (or the input that the undo mapping produced) and the
// output of the do.
type Undo[In, Out any] struct {
	Input In
	// Output is nil if the outcome of the do is unknown: the do may have happened, may not have, or may still happen.
	Output *Out
}

// WithUndo registers the function that reverses the effects of the do. It must succeed even if there is nothing to reverse,
// since the outcome of the do may be unknown.
//
// In and Out are those of the do that it is given with. Nothing checks that before an undo runs: an input or output that does not decode is then a
// permanent failure, and parks the task. In may differ if the definitions map the input of the undo (undo: {with: ...}), and either may be
// another type that decodes the same JSON, such as a struct with fewer members or json.RawMessage.
func WithUndo[In, Out any](fn func(context.Context, Undo[In, Out]) error) Option {
	if fn == nil {
		return WithRawUndo(nil)
	}
	return WithRawUndo(func(ctx context.Context, w *events.Work, _ int) (json.RawMessage, error) {
		var u Undo[In, Out]
		if err := decodeInput(w.Input, &u.Input); err != nil {
			return nil, err
		}
		if len(w.Output) > 0 && string(w.Output) != "null" {
			u.Output = new(Out)
			if err := json.Unmarshal(w.Output, u.Output); err != nil {
				return nil, refusal("output_mismatch", fmt.Errorf("read the output of the do: %w", err))
			}
		}
		return nil, fn(ctx, u)
	})
}

// RawFunc makes one try of an attempt with the unmodified work request, and returns the output as JSON. It need not read more
// than outputLimit bytes of output, because a longer output is refused. It must not change or keep the work request.
type RawFunc func(ctx context.Context, w *events.Work, outputLimit int) (json.RawMessage, error)

// HandleRaw is Handle for code that works on JSON, such as httpagent.
//
// The output must be JSON, or empty for null. Anything else is a permanent failure with the code output_encoding, as an output of Handle that cannot be
// encoded is.
func HandleRaw(r *Registry, name string, fn RawFunc, options ...Option) {
	r.add(name, "", checked(fn), options)
}

// HandleRawOperation is HandleOperation for code that works on JSON.
func HandleRawOperation(r *Registry, name, operation string, fn RawFunc, options ...Option) {
	r.addOperation(name, operation, checked(fn), options)
}

// WithRawUndo is WithUndo for code that works on JSON.
func WithRawUndo(fn RawFunc) Option {
	return func(a *agent) error {
		call := events.Call{Function: a.operation, Operation: events.Undo}
		switch {
		case fn == nil:
			return errors.New("the undo function is nil")
		case a.functions[call] != nil:
			return errors.New("the undo is given twice: an operation has one")
		}
		a.functions[call] = checked(fn)
		return nil
	}
}

func decodeInput(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return refusal("input_mismatch", fmt.Errorf("read input: %w", err))
	}
	return nil
}
