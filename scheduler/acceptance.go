package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// label is the template of a label that the definition gives to its tasks.
type label struct {
	name     string
	template *exprlang.Template
}

func (o *outline) shapeLabels(m member) {
	if m.value.Kind != yaml.MappingNode {
		m.fault("expected a mapping of labels by name, got %s", kindOf(m.value))
		return
	}
	if n := len(m.value.Content) / 2; n > events.MaxLabels {
		m.fault("%d labels are more than %d", n, events.MaxLabels)
		return
	}
	for i := 0; i+1 < len(m.value.Content); i += 2 {
		key, n := m.value.Content[i], m.value.Content[i+1]
		l := member{doc: m.doc, key: key, value: n, path: join(m.path, key.Value)}
		constant := !isText(n) || !strings.Contains(n.Value, "${")
		switch {
		case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
			l.fault("expected text, a number, true or false, or an expression, got %s", kindOf(n))
		case !events.LabelAllowed(key.Value, ""):
			m.doc.fault(key, l.path, "not a label: %s", events.LabelRule)
		case constant && !events.LabelAllowed(key.Value, n.Value):
			l.fault("not a label: %s", events.LabelRule)
		default:
			o.labels = append(o.labels, l)
		}
	}
}

func shapePriority(m member) {
	if isText(m.value) && strings.Contains(m.value.Value, "${") {
		return
	}
	m.count(bounds{-events.MaxPriority, events.MaxPriority})
}

// checkAcceptance checks the expressions that are evaluated when a task is accepted.
func (o *outline) checkAcceptance(at setting) {
	at.vars, at.taskMembers = acceptVars, labelMembers
	for _, l := range o.labels {
		at.template(l.value, l.path)
	}
	at.taskMembers = priorityMembers
	if o.fairBy != nil {
		at.template(o.fairBy.value, o.fairBy.path)
	}
	if o.concurrency != nil {
		at.template(o.concurrency.value, o.concurrency.path)
	}
	if o.priority != nil {
		at.template(o.priority.value, o.priority.path)
	}
}

// accepting says whether the expressions are evaluated when a task is accepted.
func (a setting) accepting() bool { return len(a.taskMembers) < len(taskMembers) }

// compileAcceptance compiles the labels and the priority of a definition.
func compileAcceptance(d *Definition) (labels []label, priority *exprlang.Template, err error) {
	for _, name := range slices.Sorted(maps.Keys(d.Labels)) {
		t, err := compileTemplate(d.Labels[name], acceptVars)
		if err != nil {
			return nil, nil, fmt.Errorf("label %q: %w", name, err)
		}
		if t != nil {
			labels = append(labels, label{name, t})
		}
	}
	if priority, err = compileTemplate(d.Priority, acceptVars); err != nil {
		return nil, nil, fmt.Errorf("priority: %w", err)
	}
	return labels, priority, nil
}

// Accept returns what a task gets when its submission is accepted: its own labels and priority, those of the definition that it
// does not have, and the keys that it shares with other tasks. It returns every fault of the input and of these expressions, with pointers into the submission. version is that of
// the definition.
func (p *Program) Accept(sub *events.Submission, version int) (events.Acceptance, []InputFault) {
	if !events.HasSealed(sub.Input) {
		return p.accept(sub, version)
	}
	input, err := unseal(p.keys, sub.Input)
	if why, passes := errors.AsType[*events.NoKeyError](err); passes {
		return events.Acceptance{Unopened: why}, []InputFault{{"/input", why.Error()}}
	}
	if err != nil {
		return events.Acceptance{Closed: true}, []InputFault{{"/input", err.Error()}}
	}
	clear := *sub
	clear.Input = input
	out, faults := p.accept(&clear, version)
	return out, masked(faults)
}

func (p *Program) accept(sub *events.Submission, version int) (events.Acceptance, []InputFault) {
	out := events.Acceptance{Labels: sub.Labels, Priority: sub.Priority, RemindAfter: p.Definition().RemindAfter, RememberFor: p.Definition().RememberFor}
	var faults []InputFault
	for _, f := range p.ValidateInput(sub.Input) {
		faults = append(faults, InputFault{"/input" + f.Pointer, f.Message})
	}
	if len(faults) > 0 || len(p.labels) == 0 && p.fairBy == nil && p.concurrency == nil && (p.priority == nil || sub.Priority != 0) {
		return out, faults
	}
	t := &events.Task{ID: sub.ID, Workflow: p.definition.Workflow, Version: version, Labels: maps.Clone(sub.Labels), Input: sub.Input}
	env := Env{task: t}
	for _, l := range p.labels {
		if _, own := sub.Labels[l.name]; own {
			continue
		}
		switch text, given, err := l.eval(&env); {
		case err != nil:
			faults = append(faults, InputFault{"/labels/" + l.name, err.Error()})
		case given:
			if t.Labels == nil {
				t.Labels = map[string]string{}
			}
			t.Labels[l.name] = text
		}
	}
	if n := len(t.Labels); n > events.MaxLabels {
		faults = append(faults, InputFault{"/labels", fmt.Sprintf("has %d members with those of the workflow; %d are allowed", n, events.MaxLabels)})
	}
	out.Labels = t.Labels
	out.Cost = env.Close() // the priority sees the labels
	if p.priority != nil && sub.Priority == 0 && len(faults) == 0 {
		env = Env{task: t}
		var err error
		if out.Priority, err = evalPriority(p.priority, &env); err != nil {
			faults = append(faults, InputFault{"/priority", err.Error()})
		}
		out.Cost += env.Close()
	}
	if len(faults) == 0 {
		faults = p.acceptKeys(t, &out)
	}
	return out, faults
}

// acceptKeys evaluates the keys that the task shares with others.
func (p *Program) acceptKeys(t *events.Task, out *events.Acceptance) (faults []InputFault) {
	if p.fairBy == nil && p.concurrency == nil {
		return nil
	}
	env := Env{task: t}
	var err error
	if p.fairBy != nil {
		if out.FairBy, err = evalKey(p.fairBy, &env, "fair_by of the workflow"); err != nil {
			faults = append(faults, InputFault{"/fair_by", err.Error()})
		}
	}
	if p.concurrency != nil {
		if out.Concurrency, err = p.evalConcurrency(&env); err != nil {
			faults = append(faults, InputFault{"/input", err.Error()})
		}
	}
	out.Cost += env.Close()
	return faults
}

// eval returns the text of a label, and false if it is left out.
func (l label) eval(env *Env) (text string, given bool, err error) {
	raw, err := l.template.Eval(env.open())
	if err != nil {
		return "", false, fmt.Errorf("the label of the workflow: %w", err)
	}
	switch raw[0] {
	case 'n':
		return "", false, nil
	case '{', '[':
		return "", false, fmt.Errorf("the label of the workflow is an object or a list; a label is a text, a number, true or false")
	case '"':
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", false, fmt.Errorf("the label of the workflow: %w", err)
		}
	default:
		text = string(raw)
	}
	if !events.LabelAllowed(l.name, text) {
		return "", false, fmt.Errorf("the label of the workflow has %d bytes; %d are allowed", len(text), events.MaxLabelValue)
	}
	return text, true, nil
}

// evalPriority returns 0 for null.
func evalPriority(t *exprlang.Template, env *Env) (int, error) {
	raw, err := t.Eval(env.open())
	if err != nil {
		return 0, fmt.Errorf("the priority of the workflow: %w", err)
	}
	if raw[0] == 'n' {
		return 0, nil
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < -events.MaxPriority || n > events.MaxPriority {
		return 0, fmt.Errorf("the priority of the workflow is %s; it must be a whole number from %d to %d",
			events.Clip(string(raw), maxQuotedBytes), -events.MaxPriority, events.MaxPriority)
	}
	return n, nil
}

// Accept returns what a task gets when its submission is accepted. faults says what is wrong with the submission, or is "".
func (s *Scheduler) Accept(hash string, sub *events.Submission, version int) (_ events.Acceptance, faults string) {
	p := s.Program(hash)
	if p == nil {
		return events.Acceptance{}, "the definition is not prepared"
	}
	accepted, list := p.Accept(sub, version)
	var texts []string
	for _, f := range list {
		texts = append(texts, f.Pointer+": "+f.Message)
	}
	return accepted, strings.Join(texts, "; ")
}
