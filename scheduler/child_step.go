package scheduler

import (
	"encoding/json"
	"fmt"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// childStep is a step that another task does, its child. Each try starts a child, and the end of the child ends the try. The step is undone by the child
// itself or, if its undo names an agent, by that.
type childStep struct {
	agentStep
	child child
	// given are the members of child that may have expressions; nil if there are none.
	given *exprlang.Template
}

// child is the member child of a step.
type child struct {
	Workflow string `json:"workflow"`
	Version  int    `json:"version,omitempty"`
	Detach   bool   `json:"detach,omitempty"`
	childGiven
}

// childGiven are the members of child that may have expressions, as they are written or, in childValues, as they are evaluated.
type childGiven struct {
	ID       json.RawMessage `json:"id,omitempty"`
	Labels   json.RawMessage `json:"labels,omitempty"`
	Priority json.RawMessage `json:"priority,omitempty"`
	Deadline json.RawMessage `json:"deadline,omitempty"`
}

type childValues struct {
	ID       string                     `json:"id"`
	Labels   map[string]json.RawMessage `json:"labels"`
	Priority int                        `json:"priority"`
	Deadline string                     `json:"deadline"`
}

func compileChildStep(s *Step) (*childStep, error) {
	a, err := compileAgentStep(s)
	if err != nil {
		return nil, err
	}
	c := &childStep{agentStep: *a}
	if err := json.Unmarshal(s.Child, &c.child); err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	raw, err := events.Marshal(&c.child.childGiven)
	if err == nil && string(raw) != "{}" {
		c.given, err = compileTemplate(raw, s.vars(doVars))
	}
	if err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	return c, nil
}

func (*childStep) begin(*Env, string) (opening, error) {
	return opening{call: events.Call{Operation: events.Do}}, nil
}

func (c *childStep) undo() (opening, error) {
	if c.step.Undo != nil && c.step.Undo.Agent == "" {
		return opening{call: events.Call{Operation: events.Undo}}, nil
	}
	return c.agentStep.undo()
}

func (c *childStep) start(env *Env, path string, op events.Operation) (start events.Start, err error) {
	if op == events.Do {
		if start, err = c.startDo(env, path); err == nil {
			start.Child, err = c.call(env, path)
		}
		start.Cost = env.Close()
		return start, err
	}
	if c.step.Undo == nil || c.step.Undo.Agent != "" {
		return c.agentStep.start(env, path, op)
	}
	at := env.step(path)
	if at.Settled() {
		return start, fmt.Errorf("an operator completed step %q, and none of its children has anything to undo: undo by hand what the operator did and complete the undo of the step, or skip the undo to leave it", path)
	}
	start.Child = &events.ChildCall{Task: at.ChildToUndo()}
	return start, nil
}

// call returns the child of the next try.
func (c *childStep) call(env *Env, path string) (*events.ChildCall, error) {
	t := env.task
	if events.Depth(t) >= events.MaxDepth {
		return nil, fmt.Errorf("the task has %d ancestors, and no more are allowed: look for a workflow that starts itself", events.Depth(t))
	}
	var given childValues
	if c.given != nil {
		raw, err := c.given.Eval(env.open())
		if err != nil {
			return nil, fmt.Errorf("child: %w", err)
		}
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, fmt.Errorf("child: its id or deadline is not text, its labels are not an object, or its priority is not a whole number: %w", err)
		}
	}
	labels, err := labelsOf(given.Labels)
	if err != nil {
		return nil, err
	}
	call := &events.ChildCall{
		Task: events.ChildID(t.ID, path, given.ID, env.step(path).Attempt+1), Workflow: c.child.Workflow, Version: c.child.Version,
		Priority: given.Priority, Labels: labels, Deadline: given.Deadline, Depth: events.Depth(t) + 1, Detach: c.child.Detach,
	}
	if err := call.Check(); err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	if call.Task == t.ID {
		return nil, fmt.Errorf("child: its id is %q, that of the task itself", t.ID)
	}
	return call, nil
}

// labelsOf returns the labels of a child as texts. A label that is null is left out.
func labelsOf(given map[string]json.RawMessage) (map[string]string, error) {
	var labels map[string]string
	for name, raw := range given {
		text := string(raw)
		switch raw[0] {
		case 'n':
			continue
		case '{', '[':
			return nil, fmt.Errorf("child: the label %q is an object or a list; a label is a text, a number, true or false", name)
		case '"':
			if err := json.Unmarshal(raw, &text); err != nil {
				return nil, fmt.Errorf("child: the label %q: %w", name, err)
			}
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = text
	}
	return labels, nil
}

func (c *childStep) policy(op events.Operation) events.Policy {
	if op == events.Undo && c.step.Undo != nil && c.step.Undo.Agent == "" {
		return events.Policy{Then: events.ActionPark}
	}
	return c.agentStep.policy(op)
}

// calls returns the operation of the agent that undoes the step, if one does.
func (c *childStep) calls() []events.Call {
	if c.step.Undo == nil || c.step.Undo.Agent == "" {
		return nil
	}
	return []events.Call{c.undoCall()}
}

// attempts says whether a step is done in attempts: by an agent, or by a child.
func (s *Step) attempts() bool { return s.Agent != "" || len(s.Child) > 0 }

var childKeys = []string{"workflow", "version", "id", "labels", "priority", "deadline", "detach"}

// shapeChild checks the member child of a step.
func (s *outlineStep) shapeChild(m member) {
	keys, ok := m.doc.members(m.value, m.path, childKeys, " with workflow")
	if v, has := keys["workflow"]; has {
		v.name()
	} else if ok {
		m.doc.fault(m.key, m.path, "workflow is missing: the workflow of the task that does the step")
	}
	if v, has := keys["version"]; has {
		v.count(bounds{1, 1 << 30})
	}
	if v, has := keys["detach"]; has && v.boolean() {
		s.detach = &v
	}
	for _, name := range []string{"id", "deadline"} {
		if v, has := keys[name]; has {
			text, ok := v.text()
			if s.given = append(s.given, v); ok && name == "deadline" && !strings.Contains(text, "${") {
				if err := (&events.ChildCall{Task: "x", Workflow: "x", Deadline: text}).Check(); err != nil {
					v.fault("%s", err)
				}
			}
		}
	}
	if v, has := keys["priority"]; has {
		shapePriority(v)
		s.given = append(s.given, v)
	}
	if v, has := keys["labels"]; has {
		var o outline
		o.shapeLabels(v)
		s.given = append(s.given, o.labels...)
	}
}

// warnOfRetries warns of what a child step does not use.
func warnOfRetries(keys map[string]member) {
	retry, has := keys["retry"]
	if !has || retry.value.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(retry.value.Content); i += 2 {
		if key := retry.value.Content[i]; key.Value != "then" {
			retry.doc.warn(key, retry.path+"."+key.Value, "has no effect when the child fails: such a step is not retried automatically, because the steps of the child were. Of retry, only then applies: leave this out")
		}
	}
}

// shapeChildUndo checks the undo of a step that a child does.
func (s *outlineStep) shapeChildUndo(m member) {
	keys, _ := m.doc.members(m.value, m.path, undoKeys, ", {} if the child is to undo itself")
	_, byAgent := keys["agent"]
	if s.detach != nil && !byAgent {
		m.fault("a detached child is not undone by its parent: name the agent that undoes the step, or leave undo out")
	}
	for _, name := range undoKeys {
		if v, has := keys[name]; has && !byAgent {
			m.doc.fault(v.key, v.path, "the child undoes itself, so there is no %s: name the agent that undoes the step instead, or write undo: {}", name)
		}
	}
}

// ChildWorkflow returns the workflow of the child that does the step, "" if none does.
func (s *Step) ChildWorkflow() string {
	workflow, _ := s.ChildVersion()
	return workflow
}

// ChildVersion returns the workflow of the child that does the step, and its version; zero if the child has the current one, "" and zero if no child does it.
func (s *Step) ChildVersion() (workflow string, version int) {
	var c child
	if len(s.Child) == 0 || json.Unmarshal(s.Child, &c) != nil {
		return "", 0
	}
	return c.Workflow, c.Version
}
