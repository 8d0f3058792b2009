package wftest

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/yamltree"
	"github.com/sagalog/sagalog/scheduler"
)

// The keys of a test file.
var (
	fileKeys   = []string{"workflow", "input", "mocks", "undo_mocks", "cases"}
	caseKeys   = []string{"name", "id", "input", "labels", "priority", "deadline", "not_before", "mocks", "undo_mocks", "requests", "advance", "expect"}
	answerKeys = []string{"output", "fail", "error", "effect", "after", "retry_after", "silent"}
	errorKeys  = []string{"message", "code", "detail"}
	expectKeys = []string{"state", "reason", "labels", "priority", "output", "steps", "undone", "never_called"}
	stepKeys   = []string{"state", "attempts", "input", "output", "counts", "error", "undo_attempts", "undo_input"}
	countKeys  = []string{"total", "completed", "failed", "skipped"}
)

// The words that a test file may use.
var (
	classes    = []string{string(events.ClassRetryable), string(events.ClassPermanent), string(events.ClassInternal), string(events.ClassUnavailable)}
	effects    = []string{string(events.EffectNone), string(events.EffectDoneUnknown), string(events.EffectInDoubt)}
	taskStates = []string{string(events.TaskStatePending), string(events.TaskStateProcessing), string(events.TaskStateProcessed), string(events.TaskStateUndoing),
		string(events.TaskStateUndone), string(events.TaskStateError), string(events.TaskStateTerminated)}
	stepStates = []string{string(events.StepStateNotStarted), string(events.StepStateRunning), string(events.StepStateWaiting), string(events.StepStateCompleted),
		string(events.StepStateFailed), string(events.StepStateTimedOut), string(events.StepStateSkipped), string(events.StepStateUndoing),
		string(events.StepStateUndone), string(events.StepStateUndoFailed)}
)

// Load reads and checks the definition in a file. The source is nil if a fault is more than a warning.
type Load func(file string) (*scheduler.Source, []scheduler.Fault, error)

// Parse reads a test file, and the workflow that it names relative to its folder. It returns all faults of both; File is nil if there
// is one that is more than a warning.
func Parse(file string, data []byte, load Load) (*File, []scheduler.Fault) {
	p := &parser{reader: reader{file: file}, load: load, out: &File{Path: file}}
	var doc yaml.Node
	if err := yaml.Load(data, &doc, yaml.WithUniqueKeys(false)); err != nil {
		at, message := yamltree.Syntax(data, err)
		if message == "no documents in stream" {
			message = "the document is empty"
		}
		return nil, []scheduler.Fault{{File: file, Line: at.Line, Column: at.Column, Message: message}}
	}
	p.document(node{doc.Content[0], ""})
	slices.SortStableFunc(p.faults, func(a, b scheduler.Fault) int { return (a.Line-b.Line)*1_000_000 + a.Column - b.Column })
	if slices.ContainsFunc(p.faults, func(f scheduler.Fault) bool { return !f.Warning }) {
		return nil, p.faults
	}
	return p.out, p.faults
}

// parser reads one test file.
type parser struct {
	reader
	load Load
	out  *File
	// steps are the steps of the workflow by name.
	steps map[string]*scheduler.Step
	// input, mocks and undoMocks are those of all cases that have no others.
	input            json.RawMessage
	mocks, undoMocks map[string]*mock
}

func (p *parser) document(n node) {
	members := p.mapping(n, fileKeys)
	at := func(key string) (node, bool) {
		i := slices.IndexFunc(members, func(m member) bool { return m.key.Value == key })
		if i < 0 {
			return node{}, false
		}
		return members[i].value, true
	}
	w, ok := at("workflow")
	if !ok {
		p.fault(n, "workflow is missing: the file of the workflow, relative to this one")
		return
	}
	if !p.workflow(w) {
		return
	}
	if m, ok := at("input"); ok {
		p.input = p.json(m)
	}
	if m, ok := at("mocks"); ok {
		p.mocks = p.mocksOf(m, events.Do)
	}
	if m, ok := at("undo_mocks"); ok {
		p.undoMocks = p.mocksOf(m, events.Undo)
	}
	for _, m := range []map[string]*mock{p.mocks, p.undoMocks} {
		for _, x := range m {
			x.shared = true
		}
	}
	cases, ok := at("cases")
	if !ok {
		p.fault(n, "cases is missing: a list of at least one case")
		return
	}
	list := p.items(cases)
	if cases.Kind == yaml.SequenceNode && len(list) == 0 {
		p.fault(cases, "a test file has at least one case")
	}
	names := map[string]int{}
	for _, c := range list {
		x := p.oneCase(c)
		if first := names[x.Name]; first > 0 && x.Name != "" {
			p.fault(c, "a case is called %q already, on line %d", x.Name, first)
		}
		names[x.Name] = x.Line
		p.out.Cases = append(p.out.Cases, x)
	}
}

// workflow loads the workflow. It returns false if it cannot be tested.
func (p *parser) workflow(n node) bool {
	file := p.text(n)
	if file == "" {
		return false
	}
	src, faults, err := p.load(filepath.Join(filepath.Dir(p.file), filepath.FromSlash(file)))
	if err != nil {
		p.fault(n, "%s", err)
		return false
	}
	p.faults = append(p.faults, faults...)
	if src == nil {
		p.fault(n, "the workflow in %s has faults", file)
		return false
	}
	d, err := scheduler.Complete(src.Body)
	if err != nil {
		p.fault(n, "%s", err)
		return false
	}
	p.out.Workflow, p.out.source, p.out.definition = d.Workflow, src, d
	p.steps = map[string]*scheduler.Step{}
	for i := range d.Steps {
		p.steps[d.Steps[i].ID] = &d.Steps[i]
	}
	return true
}

func (p *parser) mocksOf(n node, op events.Operation) map[string]*mock {
	out := map[string]*mock{}
	for _, m := range p.mapping(n, nil) {
		name := m.key.Value
		if !p.step(m.key, name) {
			continue
		}
		if op == events.Undo && p.stepOf(name).Undo == nil {
			p.fault(m.key, "step %q has no undo, so it needs no mock", name)
		}
		x := &mock{line: m.key.Line, always: m.value.Kind == yaml.MappingNode}
		if x.always {
			x.answers = []answer{p.answer(m.value)}
		} else {
			for _, e := range p.items(m.value) {
				x.answers = append(x.answers, p.answer(e))
			}
		}
		out[name] = x
	}
	return out
}

func (p *parser) answer(n node) (a answer) {
	var class, effect, fault, output *node
	for _, m := range p.mapping(n, answerKeys) {
		switch m.key.Value {
		case "output":
			output, a.output = &m.value, p.json(m.value)
		case "fail":
			class = &m.value
		case "error":
			fault = &m.value
		case "effect":
			effect, a.effect = &m.value, events.Effect(p.one(m.value, effects))
		case "after":
			a.after = p.duration(m.value)
		case "retry_after":
			a.retryAfter = p.duration(m.value)
		case "silent":
			a.silent = p.boolean(m.value)
		}
	}
	switch {
	case a.silent && (output != nil || class != nil):
		p.fault(n, "an answer has one of output, fail and silent")
	case output != nil && class != nil:
		p.fault(n, "an answer has one of output, fail and silent")
	case class != nil:
		a.fault = &events.Error{Class: events.Class(p.one(*class, classes)), Message: "mocked failure"}
		if fault != nil {
			p.errorOf(*fault, a.fault)
		}
	case fault != nil:
		p.fault(*fault, "error needs fail: the class of the failure, such as fail: retryable")
	case effect != nil:
		p.fault(*effect, "effect needs fail: a completed attempt had its effect")
	}
	return a
}

// errorOf reads the text of an error, or its members.
func (p *parser) errorOf(n node, e *events.Error) {
	if n.Kind == yaml.ScalarNode {
		e.Message = p.text(n)
		return
	}
	for _, m := range p.mapping(n, errorKeys) {
		switch m.key.Value {
		case "message":
			e.Message = p.text(m.value)
		case "code":
			e.Code = p.text(m.value)
		case "detail":
			e.Detail = p.json(m.value)
		}
	}
}

func (p *parser) oneCase(n node) *Case {
	c := &Case{Line: n.Line, mocks: maps.Clone(p.mocks), undoMocks: maps.Clone(p.undoMocks)}
	c.submission = events.Submission{ID: "test", Workflow: p.out.Workflow, Version: 1, Input: p.input}
	has := map[string]bool{}
	for _, m := range p.mapping(n, caseKeys) {
		has[m.key.Value] = true
		switch m.key.Value {
		case "name":
			c.Name = p.text(m.value)
		case "mocks":
			c.mocks = merged(c.mocks, p.mocksOf(m.value, events.Do))
		case "undo_mocks":
			c.undoMocks = merged(c.undoMocks, p.mocksOf(m.value, events.Undo))
		case "requests":
			for i, e := range p.items(m.value) {
				c.requests = append(c.requests, p.request(e, i+1))
			}
		case "advance":
			c.advance = p.duration(m.value)
		case "expect":
			c.expect = p.expectation(m.value)
		default:
			p.submitted(m, &c.submission)
		}
	}
	for _, key := range []string{"name", "expect"} {
		if n.Kind == yaml.MappingNode && !has[key] {
			p.fault(n, "the case has no %s", key)
		}
	}
	return c
}

// submitted reads a member of the submission.
func (p *parser) submitted(m member, s *events.Submission) {
	switch m.key.Value {
	case "id":
		if s.ID = p.text(m.value); s.ID != "" {
			if err := events.CheckTaskID(s.ID); err != nil {
				p.fault(m.value, "%s", err)
			}
		}
	case "input":
		s.Input = p.json(m.value)
	case "deadline":
		s.Deadline = p.text(m.value)
	case "not_before":
		s.NotBefore = p.text(m.value)
	case "priority":
		s.Priority = p.priority(m.value)
	case "labels":
		s.Labels = p.labels(m.value)
	}
}

func (p *parser) priority(n node) (priority int) {
	if v := p.json(n); json.Unmarshal(v, &priority) != nil {
		p.fault(n, "expected a whole number")
	}
	return priority
}

func (p *parser) labels(n node) (labels map[string]string) {
	if v := p.json(n); json.Unmarshal(v, &labels) != nil {
		p.fault(n, "expected a mapping of text to text")
	}
	return labels
}

func merged(into, more map[string]*mock) map[string]*mock {
	if into == nil {
		return more
	}
	maps.Copy(into, more)
	return into
}

// request reads a request. Besides the keys of tests it has the members of its verb.
func (p *parser) request(n node, number int) request {
	q := request{line: n.Line}
	verbs, common := verbNames(), []string{"verb", "at", "when", "refused", "reason"}
	members := p.mapping(n, nil)
	var verb events.Verb
	points := 0
	values := map[string]any{}
	for _, m := range members {
		switch key := m.key.Value; key {
		case "verb":
			verb = events.Verb(p.one(m.value, verbs))
		case "at":
			q.at, points = p.duration(m.value), points+1
		case "when":
			q.step, q.state = p.point(m.value)
			points++
		case "refused":
			q.refused = p.boolean(m.value)
		default:
			values[key] = p.value(m.value, 0)
		}
	}
	if verb == "" || !slices.Contains(verbs, string(verb)) {
		if verb == "" {
			p.fault(n, "a request has a verb: %s", strings.Join(verbs, ", "))
		}
		return q
	}
	if points != 1 {
		p.fault(n, "a request has either at, a time since the submission, or when, such as when: error or when: STEP.running")
	}
	known := append(common, verb.Members()...)
	for _, m := range members {
		if !slices.Contains(known, m.key.Value) {
			p.fault(m.key, "unknown key %q of a %s: %s", m.key.Value, verb, events.Suggest(m.key.Value, known))
		}
	}
	body, err := events.Marshal(values)
	if err == nil {
		err = json.Unmarshal(body, &q.request)
	}
	if err != nil {
		p.fault(n, "%s", err)
	}
	q.request.Kind, q.request.ID = verb, requestID(number)
	for _, step := range []string{q.request.Step, q.request.From} {
		if step != "" {
			p.step(n, step)
		}
	}
	return q
}

func verbNames() (list []string) {
	for _, v := range events.Verbs() {
		list = append(list, string(v))
	}
	return list
}

// point reads the state of the task, or of a step: STEP.STATE.
func (p *parser) point(n node) (step, state string) {
	text := p.text(n)
	step, state, ok := strings.Cut(text, ".")
	if !ok {
		return "", p.one(n, taskStates)
	}
	if p.step(n, step) && !slices.Contains(stepStates, state) {
		p.fault(n, "%q is not a state of a step: %s", state, events.Suggest(state, stepStates))
	}
	return step, state
}

func (p *parser) expectation(n node) expectation {
	x := expectation{line: n.Line, lines: map[string]int{}}
	for _, m := range p.mapping(n, expectKeys) {
		x.lines[m.key.Value] = m.key.Line
		switch m.key.Value {
		case "state":
			x.state = p.one(m.value, append(slices.Clone(taskStates), stateRejected))
		case "reason":
			x.reason = p.text(m.value)
		case "labels":
			x.labels = p.labels(m.value)
		case "priority":
			priority := p.priority(m.value)
			x.priority = &priority
		case "output":
			x.output = p.json(m.value)
		case "steps":
			x.steps = map[string]*stepExpectation{}
			for _, s := range p.mapping(m.value, nil) {
				if p.step(s.key, s.key.Value) {
					x.steps[s.key.Value] = p.stepExpectation(s)
				}
			}
		case "undone":
			x.undone = p.stepList(m.value)
			for i, name := range x.undone {
				if s := p.steps[name]; s != nil && s.For != nil {
					p.fault(m.value, "step %q is undone item by item: name the items, such as %q", x.undone[i], events.ItemPath(name, 0))
				}
			}
		case "never_called":
			x.neverCalled = p.stepList(m.value)
		}
	}
	if n.Kind == yaml.MappingNode && x.state == "" {
		p.fault(n, "state is missing: the state in which the task must be at the end, or %s", stateRejected)
	}
	return x
}

// stepList is empty, and not nil, for an empty list.
func (p *parser) stepList(n node) []string {
	list := []string{}
	for _, e := range p.items(n) {
		if s := p.text(e); s != "" && p.step(e, s) {
			list = append(list, s)
		}
	}
	return list
}

func (p *parser) stepExpectation(s member) *stepExpectation {
	x := &stepExpectation{line: s.key.Line}
	if s.value.Kind == yaml.ScalarNode { // charge: completed
		x.state = events.StepState(p.one(s.value, stepStates))
		return x
	}
	for _, m := range p.mapping(s.value, stepKeys) {
		switch m.key.Value {
		case "state":
			x.state = events.StepState(p.one(m.value, stepStates))
		case "attempts":
			x.attempts = p.count(m.value)
		case "input":
			x.input = p.json(m.value)
		case "output":
			x.output = p.json(m.value)
		case "counts":
			x.counts = p.counts(m.value, s.key.Value)
		case "error":
			x.fault = p.text(m.value)
		case "undo_attempts":
			x.undoAttempts = p.count(m.value)
		case "undo_input":
			x.undoInput = p.json(m.value)
		}
	}
	return x
}
