package scheduler

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// Env holds the variables of a task's expressions: task.id, input.x, steps.package.output.id, and in an undo mapping step.input,
// step.output, step.error and step.progress. A value is decoded when the first expression asks for it, and kept for the others. One goroutine uses an Env,
// and the task must not change meanwhile.
type Env struct {
	task  *events.Task
	keys  Keys
	scope *exprlang.Scope
	// sealed is why a value could not be opened; nil if each could.
	sealed error
	// item is what the expressions of an item have besides the others; nil for those of other steps.
	item *itemVariables
	// opened says that a value was opened.
	opened bool
	// spent is what the list of entries cost, in units of the budget of expressions.
	spent int
	// lists are known lists of entries; nil if none is.
	lists *lists
}

// Keys opens sealed values. It is safe for concurrent use.
type Keys interface {
	// Open returns a value with all sealed values in it opened, or why it cannot.
	Open(value []byte) ([]byte, error)
}

// errNoKeys is why nothing is opened in a process without a key file.
var errNoKeys = errors.New("its content is sealed, and this node has no key: start it with --seal-key-file")

// unseal opens a value.
func unseal(keys Keys, value json.RawMessage) (json.RawMessage, error) {
	switch {
	case !events.HasSealed(value):
		return value, nil
	case keys == nil:
		return nil, errNoKeys
	}
	return keys.Open(value)
}

func (e *Env) unseal(raw json.RawMessage) (json.RawMessage, error) {
	e.opened = e.opened || events.HasSealed(raw)
	raw, err := unseal(e.keys, raw)
	if err != nil && e.unopened() == nil {
		e.sealed = err
	}
	return raw, err
}

// unopened returns why a value could not be opened, if the reason may pass. Then the results of expressions mean nothing, and nothing is decided by them.
func (e *Env) unopened() *events.NoKeyError {
	why, _ := errors.AsType[*events.NoKeyError](e.sealed)
	return why
}

// fault returns an error as a fact records it. The message may repeat a value. If the task is sealed, it is in the detail, which the owner
// seals: messages are not.
func (e *Env) fault(class events.Class, message string) events.Error {
	switch {
	case e.sealed != nil:
		return events.Error{Class: class, Message: e.sealed.Error()}
	case !events.IsSealed(e.task.Input):
		return events.Error{Class: class, Message: message}
	}
	detail, _ := events.Marshal(map[string]string{"message": message}) // a text
	return events.Error{Class: class, Message: "an expression over sealed content says why: error.detail has its message", Detail: detail}
}

// masked hides what the faults of a sealed value say, since they may repeat it, and what becomes of them is not sealed.
func masked(faults []InputFault) []InputFault {
	for i := range faults {
		faults[i].Message = "does not fit; the content is sealed, so it is not repeated here"
	}
	return faults
}

// Close gives back the memory of the environment. It returns what the evaluations cost.
func (e *Env) Close() (cost int) {
	if e.scope != nil {
		cost = e.scope.Spent()
		e.scope.Return()
		e.scope = nil
	}
	cost, e.spent = cost+e.spent, 0
	return cost
}

// open returns the scope of the expressions, which is created for the first of them.
func (e *Env) open() *exprlang.Scope {
	if e.scope == nil {
		s := exprlang.Borrow()
		if e.keys != nil || events.IsSealed(e.task.Input) {
			s.Unseal(e.unseal)
		}
		s.Set("task", s.Object((*taskVariable)(e.task)))
		s.Set("input", s.Raw(e.task.Input))
		s.Set("steps", s.Object((*stepsVariable)(e)))
		if e.item != nil {
			e.item.set(e, s)
		}
		e.scope = s
	}
	return e.scope
}

// openUndo is open with the variable step.
func (e *Env) openUndo(step string) *exprlang.Scope {
	s := e.open()
	s.Set("step", s.Object((*ownStep)(e.step(step))))
	return s
}

// openCheck is open with the variable output.
func (e *Env) openCheck(output json.RawMessage) *exprlang.Scope {
	s := e.open()
	s.Set("output", s.Raw(output))
	return s
}

// step returns the state of a step, notStarted if it has none.
func (e *Env) step(id string) *events.Step {
	if s := e.task.Step(id); s != nil {
		return s
	}
	return &notStarted
}

// notStarted stands for steps that have not started: their input and output are null. It is only read.
var notStarted = events.Step{State: events.StepStateNotStarted}

// taskVariable is the variable task.
type taskVariable events.Task

// Member implements exprlang.Members.
func (t *taskVariable) Member(s *exprlang.Scope, name string) *exprlang.Node {
	switch name {
	case "id":
		return s.Text(t.ID)
	case "run":
		return s.Int(t.Run)
	case "workflow":
		return s.Text(t.Workflow)
	case "version":
		return s.Int(t.Version)
	case "labels":
		return s.Object(labelsVariable(t.Labels))
	case "priority":
		return s.Int(t.Priority)
	case "submitted_at":
		return instant(s, t.SubmittedAt)
	case "deadline":
		return instant(s, t.Deadline)
	case "reason":
		if t.Reason == "" {
			return s.Raw(nil)
		}
		return s.Text(t.Reason)
	}
	return nil
}

// instant returns the node of an instant: a text in RFC 3339, or null without one.
func instant(s *exprlang.Scope, at events.Instant) *exprlang.Node {
	if at == 0 {
		return s.Raw(nil)
	}
	return s.Text(at.String())
}

// labelsVariable is the member labels of the variable task.
type labelsVariable map[string]string

// Member implements exprlang.Members. A label that the task does not have is null.
func (l labelsVariable) Member(s *exprlang.Scope, name string) *exprlang.Node {
	if text, ok := l[name]; ok {
		return s.Text(text)
	}
	return s.Raw(nil)
}

// Names implements exprlang.Members.
func (l labelsVariable) Names() []string { return slices.Collect(maps.Keys(l)) }

// Names implements exprlang.Members.
func (t *taskVariable) Names() []string { return taskMembers }

// stepsVariable is the variable steps of a task.
type stepsVariable Env

// Member implements exprlang.Members. The validator refuses unknown names, so a step that is not here has not started.
func (v *stepsVariable) Member(s *exprlang.Scope, name string) *exprlang.Node {
	at := (*Env)(v).step(name)
	if at.Fan == nil {
		return s.Object((*stepMember)(at))
	}
	return s.Object(fanMember{v.task, at, v.lists})
}

// Names implements exprlang.Members. Steps that have not started are not listed, although Member knows them.
func (v *stepsVariable) Names() []string {
	live := v.task.Live()
	names := make([]string, 0, len(live))
	for _, s := range live {
		if !events.IsItem(s.Path) {
			names = append(names, s.Path)
		}
	}
	return names
}

// stepMember is a member of the variable steps.
type stepMember events.Step

// Member implements exprlang.Members.
func (m *stepMember) Member(s *exprlang.Scope, name string) *exprlang.Node {
	switch name {
	case "state":
		return s.Text(string(m.State))
	case "input":
		return s.Raw(m.Input)
	case "output":
		return s.Raw(m.Output)
	case "error":
		if m.Error == nil {
			return s.Raw(nil)
		}
		text, err := events.Marshal(m.Error)
		if err != nil {
			return nil // an error of a fact can be encoded
		}
		return s.Raw(text)
	case "counts": // of a step with items that was skipped; the validator refuses it for other steps
		return s.Raw(nil)
	}
	return nil
}

// Names implements exprlang.Members.
func (m *stepMember) Names() []string { return stepMembers }

// ownStep is the variable step of an undo mapping.
type ownStep events.Step

// Member implements exprlang.Members.
func (o *ownStep) Member(s *exprlang.Scope, name string) *exprlang.Node {
	switch name {
	case "state":
		return nil
	case "progress":
		return s.Raw(o.Progress)
	}
	return (*stepMember)(o).Member(s, name)
}

// Names implements exprlang.Members.
func (o *ownStep) Names() []string { return ownStepMembers }
