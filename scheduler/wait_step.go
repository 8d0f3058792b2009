package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// waitStep is over when it takes a signal. It calls nobody, so it has no attempts and no undo.
type waitStep struct {
	step    *Step
	signals []string
	// schema is nil if any payload is valid.
	schema *inputSchema
}

// names is one name, or a list of names.
type names []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *names) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*n = names{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(n))
}

// waiting is the member wait of a step.
type waiting struct {
	Signal names           `json:"signal"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

func compileWaitStep(s *Step) (*waitStep, error) {
	var w waiting
	if err := json.Unmarshal(s.Wait, &w); err != nil {
		return nil, fmt.Errorf("wait: %w", err)
	}
	c := &waitStep{step: s, signals: w.Signal}
	if len(present(w.Schema)) == 0 {
		return c, nil
	}
	schema, err := decodeSchema(w.Schema)
	if err == nil {
		c.schema, err = newInputSchema(schema)
	}
	if err != nil {
		return nil, fmt.Errorf("wait.schema: %w", err)
	}
	return c, nil
}

func (w *waitStep) begin(*Env, string) (opening, error) {
	return opening{fact: &events.WaitStarted{Step: w.step.ID, Signals: w.signals, Within: w.step.CompleteWithin, Condition: condition(w.step), RemindAfter: w.step.RemindAfter}}, nil
}

// undo implements stepKind.
func (w *waitStep) undo() (opening, error) {
	return opening{}, fmt.Errorf("step %q waits for a signal, which has no undo", w.step.ID)
}

// start implements stepKind.
func (w *waitStep) start(*Env, string, events.Operation) (events.Start, error) {
	return events.Start{}, fmt.Errorf("step %q waits for a signal, which has no attempts", w.step.ID)
}

// policy implements stepKind.
func (w *waitStep) policy(op events.Operation) events.Policy {
	if op == events.Undo {
		return events.Policy{Then: events.ActionPark}
	}
	p := policyOf(w.step.CompleteWithin, w.step.Retry, nil)
	p.OnTimeout = events.Action(w.step.OnTimeout)
	return p
}

func (*waitStep) calls() []events.Call { return nil }

// CheckSignal returns the faults of a signal for a task of this definition, nil if a step may take it: one that waits for its name, is not over, and
// whose schema holds. The error is an *events.NoKeyError: nobody can say yet.
func (p *Program) CheckSignal(t *events.Task, signal string, payload json.RawMessage) (faults []InputFault, _ error) {
	var known []string
	taken := false
	for i := range p.steps {
		w, ok := p.steps[i].kind.(*waitStep)
		if !ok {
			continue
		}
		known = append(known, w.signals...)
		switch s := t.Step(w.step.ID); {
		case !slices.Contains(w.signals, signal):
		case s != nil && s.Over():
			taken = true
		default:
			clear, err := unseal(p.keys, payload)
			if why, passes := errors.AsType[*events.NoKeyError](err); passes {
				return nil, why
			}
			if err != nil {
				return []InputFault{{Pointer: "/payload", Message: err.Error()}}, nil
			}
			if faults = validateBy(w.schema, clear); len(faults) == 0 {
				return nil, nil
			}
			if events.HasSealed(payload) {
				faults = masked(faults)
			}
			for i := range faults {
				faults[i].Pointer = "/payload" + faults[i].Pointer
			}
		}
	}
	switch {
	case len(faults) > 0:
		return faults, nil
	case taken:
		return []InputFault{{Pointer: "/signal", Message: fmt.Sprintf("%q was taken already: no other step waits for it", signal)}}, nil
	case len(known) == 0:
		return []InputFault{{Pointer: "/signal", Message: fmt.Sprintf("no step of workflow %q waits for a signal", p.definition.Workflow)}}, nil
	}
	slices.Sort(known)
	return []InputFault{{Pointer: "/signal", Message: fmt.Sprintf("no step waits for a signal %q: %s", abbreviate(signal), events.Suggest(signal, slices.Compact(known)))}}, nil
}

// CheckSignal returns why no step of the task can take a signal, "" if one may. The error is an *events.NoKeyError: nobody can say yet.
func (s *Scheduler) CheckSignal(t *events.Task, signal string, payload []byte) (string, error) {
	p, err := s.prepared(t)
	if err != nil {
		return err.Error(), nil
	}
	faults, err := p.CheckSignal(t, signal, payload)
	return signalText(faults), err
}

func signalText(faults []InputFault) string {
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.Pointer + ": " + f.Message
	}
	return strings.Join(texts, "; ")
}

// keepHeld returns the fact for a signal that came before its task.
func (s *Scheduler) keepHeld(t *events.Task, h *events.Request) (events.Body, error) {
	p, err := s.prepared(t)
	if err != nil {
		return nil, err
	}
	faults, err := p.CheckSignal(t, h.Signal, h.Payload)
	if err != nil {
		return nil, err
	}
	why := signalText(faults)
	switch {
	case t.Undoing():
		why = events.RefusedUndoing
	case len(t.Kept) >= events.MaxKeptSignals || events.KeptBytes(t.Kept)+len(h.Payload) > events.MaxKeptSignalBytes:
		why = events.RefusedKept
	}
	if why != "" {
		return &events.RequestRefused{Request: h.ID, Verb: h.Kind, Reason: why, By: h.By}, nil
	}
	return &events.SignalReceived{Request: h.ID, Signal: h.Signal, Payload: h.Payload, Reason: h.Reason, By: h.By}, nil
}

// takeSignal adds what follows if a step waits for a signal that is kept: of several steps, the one that began to wait first takes the signal that came first.
func (w *planner) takeSignal(p *Program, env *Env) {
	var first *events.Step
	for _, s := range w.task.Live() {
		if s.Waits() && firstFor(w.task, s) != nil && (first == nil || s.StartedAt < first.StartedAt) {
			first = s
		}
	}
	if first == nil {
		return
	}
	c, k := p.compiled(first.Path), firstFor(w.task, first)
	output := events.SignalOutput(k.Signal, k.Payload)
	if c != nil && c.check != nil {
		fault := c.check.judge(env, output)
		if env.unopened() != nil {
			return
		}
		if fault != nil {
			w.plan.Broken = append(w.plan.Broken, events.Broken{Path: first.Path, Operation: events.Do, Error: *fault, Signal: k.Request, Output: output})
			return
		}
	}
	w.plan.Facts = append(w.plan.Facts, &events.StepCompleted{Step: first.Path, Signal: k.Request, Output: output})
}

// firstFor returns the first kept signal for which the step waits.
func firstFor(t *events.Task, s *events.Step) *events.KeptSignal {
	for i := range t.Kept {
		if slices.Contains(s.Wait.Signals, t.Kept[i].Signal) {
			return &t.Kept[i]
		}
	}
	return nil
}
