package wftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// Failure is one thing in which a case went wrong.
type Failure struct {
	// Line is its line in the test file.
	Line    int    `json:"line"`
	Message string `json:"message"`
	// Expected and Actual are set if the two were compared.
	Expected string `json:"expected,omitempty"`
	Actual   string `json:"actual,omitempty"`
}

// StepResult is a step at the end of a case.
type StepResult struct {
	Step         string           `json:"step"`
	State        events.StepState `json:"state"`
	Attempts     int              `json:"attempts"`
	UndoAttempts int              `json:"undo_attempts,omitempty"`
	Error        string           `json:"error,omitempty"`
	// Counts says what became of the items of a step with for.
	Counts map[string]int `json:"counts,omitempty"`
}

// Result is how a case went.
type Result struct {
	Case     *Case     `json:"-"`
	Failures []Failure `json:"failures,omitempty"`
	// State is the state of the task, or "rejected". Reason is why.
	State  string          `json:"state"`
	Reason string          `json:"reason,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	// Took is the time of the case, from the submission to its end. It is virtual.
	Took   events.Duration `json:"took"`
	Undone []string        `json:"undone"`
	Steps  []StepResult    `json:"steps"`
	Calls  []Call          `json:"calls"`
	// waited are the steps that began to wait, which nobody is called for.
	waited []string
}

// Run runs a case of the file. An error is a defect of the engine.
func (f *File) Run(c *Case) (*Result, error) {
	e, err := newEngine(f.source, f.definition)
	if err != nil {
		return nil, err
	}
	p := &playing{engine: e, c: c, used: map[*mock]int{}, undoInputs: map[string]events.Work{}}
	p.play()
	r := &Result{Case: c, Undone: []string{}, Calls: p.calls}
	t := p.task()
	if p.Err != nil {
		return nil, fmt.Errorf("case %q: %w", c.Name, p.Err)
	}
	r.describe(f, p, t)
	p.compare(r, t)
	p.unused()
	p.judged()
	r.Failures = p.failures
	return r, nil
}

// describe fills in how the task is.
func (r *Result) describe(f *File, p *playing, t *events.Task) {
	r.Took = events.Duration(p.Now.Sub(begin))
	for _, x := range p.Facts {
		switch b := x.Body.(type) {
		case *events.Compensated:
			r.Undone = append(r.Undone, b.Step)
		case *events.WaitStarted:
			r.waited = append(r.waited, b.Step)
		}
	}
	if t == nil {
		r.State, r.Reason = stateRejected, p.rejection()
		return
	}
	r.State, r.Reason, r.Output = string(t.State), t.Reason, t.Output
	if t.Paused != nil {
		r.Reason = fmt.Sprintf("paused, and no request resumes, cancels or terminates it after %s", events.Duration(t.Paused.Since.Sub(begin)))
	}
	for i := range f.definition.Steps {
		r.Steps = append(r.Steps, resultOf(t, f.definition.Steps[i].ID))
	}
}

// resultOf returns how a step is, or an item.
func resultOf(t *events.Task, path string) StepResult {
	row := StepResult{Step: path, State: stepState(t, path)}
	s := t.Step(path)
	if s == nil {
		return row
	}
	row.Attempts = s.Attempt
	if s.Error != nil {
		row.Error = s.Error.Message
	}
	if s.Undo != nil {
		row.UndoAttempts = s.Undo.Attempt
		if s.Undo.Error != nil {
			row.Error = s.Undo.Error.Message
		}
	}
	if f := s.Fan; f != nil {
		row.Counts = map[string]int{"total": f.Count, "completed": f.Completed, "failed": f.Failed, "skipped": f.Skipped}
	}
	return row
}

// rejection returns why the submission was rejected.
func (p *playing) rejection() string {
	for _, x := range p.Facts {
		in, _, _, _ := x.Cause.Input()
		if b, ok := x.Body.(*events.InputRejected); ok && in == events.Submissions {
			return b.Reason + ": " + b.Detail
		}
	}
	return ""
}

// compare adds a failure for each member in which the task is not as expected.
func (p *playing) compare(r *Result, t *events.Task) {
	x := &p.c.expect
	differ := func(line int, what, expected, actual string) {
		p.fail(line, expected, actual, "%s", what)
	}
	if r.State != x.state {
		differ(x.lines["state"], "state", x.state, withReason(r.State, r.Reason))
	}
	if !strings.Contains(r.Reason, x.reason) {
		differ(x.lines["reason"], "reason", "a text with "+quoted(x.reason), quoted(r.Reason))
	}
	if t != nil && x.labels != nil && !maps.Equal(x.labels, t.Labels) {
		differ(x.lines["labels"], "labels", labelText(x.labels), labelText(t.Labels))
	}
	if t != nil && x.priority != nil && *x.priority != t.Priority {
		differ(x.lines["priority"], "priority", fmt.Sprint(*x.priority), fmt.Sprint(t.Priority))
	}
	if x.output != nil && !same(x.output, r.Output) {
		differ(x.lines["output"], "output", string(x.output), text(r.Output))
	}
	if x.undone != nil && !slices.Equal(x.undone, r.Undone) {
		differ(x.lines["undone"], "undone", list(x.undone), list(r.Undone))
	}
	for _, s := range x.neverCalled {
		n := 0
		for _, c := range p.calls {
			if c.Step == s || events.DefinedStep(c.Step) == s {
				n++
			}
		}
		if n > 0 {
			differ(x.lines["never_called"], "calls of "+s, "none", counted(n, "call"))
		}
	}
	for _, step := range slices.Sorted(maps.Keys(x.steps)) {
		if t != nil {
			p.compareStep(x.steps[step], resultOf(t, step), t)
		}
	}
	if t == nil && len(x.steps) > 0 {
		differ(x.lines["steps"], "steps", "a task with steps", "the submission was rejected")
	}
}

func (p *playing) compareStep(x *stepExpectation, row StepResult, t *events.Task) {
	s := t.Step(row.Step)
	differ := func(what, expected, actual string) {
		p.fail(x.line, expected, actual, "steps.%s.%s", row.Step, what)
	}
	if x.state != "" && x.state != row.State {
		differ("state", string(x.state), withReason(string(row.State), row.Error))
	}
	if x.attempts != nil && *x.attempts != row.Attempts {
		differ("attempts", fmt.Sprint(*x.attempts), fmt.Sprint(row.Attempts))
	}
	if x.undoAttempts != nil && *x.undoAttempts != row.UndoAttempts {
		differ("undo_attempts", fmt.Sprint(*x.undoAttempts), fmt.Sprint(row.UndoAttempts))
	}
	if !strings.Contains(row.Error, x.fault) {
		differ("error", "a text with "+quoted(x.fault), quoted(row.Error))
	}
	var input, output json.RawMessage
	if s != nil {
		if input, output = s.Input, s.Output; s.Fan != nil && s.Over() {
			var err error
			if output, err = scheduler.Collected(t, s); err != nil {
				differ("output", "what the items give", err.Error())
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.counts)) {
		if want, got := x.counts[name], row.Counts[name]; want != got {
			differ("counts."+name, fmt.Sprint(want), fmt.Sprint(got))
		}
	}
	if x.input != nil && !same(x.input, input) {
		differ("input", string(x.input), text(input))
	}
	if x.output != nil && !same(x.output, output) {
		differ("output", string(x.output), text(output))
	}
	if undo := p.undoInputs[row.Step].Input; x.undoInput != nil && !same(x.undoInput, undo) {
		differ("undo_input", string(x.undoInput), text(undo))
	}
}

// unused adds a failure for each mock of the case that has answers left. The case does not do what its author meant.
func (p *playing) unused() {
	if p.starved {
		return
	}
	for _, o := range []struct {
		key   string
		mocks map[string]*mock
	}{{"mocks", p.c.mocks}, {"undo_mocks", p.c.undoMocks}} {
		for step, m := range o.mocks {
			if !m.shared && p.used[m] < len(m.answers) {
				p.fail(m.line, fmt.Sprint(len(m.answers), " used"), fmt.Sprint(p.used[m], " used"), "%s.%s: answers that no call used; remove them", o.key, step)
			}
		}
	}
	slices.SortStableFunc(p.failures, func(a, b Failure) int { return a.Line - b.Line })
}

// judged adds a failure for each request that was not sent, or whose judgement is not the expected one.
func (p *playing) judged() {
	for i, q := range p.c.requests {
		name := fmt.Sprintf("request %d (%s)", i+1, q.request.Kind)
		if i >= p.asked {
			if !p.starved {
				p.fail(q.line, "sent", "not sent", "%s: its point was never reached", name)
			}
			continue
		}
		why := p.refusal(i)
		switch {
		case q.refused && why == "":
			p.fail(q.line, "refused", "granted", "%s", name)
		case !q.refused && why != "":
			p.fail(q.line, "granted", "refused: "+why, "%s", name)
		}
	}
}

// refusal returns why a request was refused, "" if it was not. The requests are found by their offset among the reports.
func (p *playing) refusal(number int) string {
	offset, nth := int64(-1), 0
	for i := range p.Inputs[events.Reports] {
		if events.VerbOf(p.Inputs[events.Reports][i].Header(events.HeaderType)) == "" {
			continue
		}
		if nth == number {
			offset = int64(i)
		}
		nth++
	}
	for _, f := range p.Facts {
		in, _, at, ok := f.Cause.Input()
		if b, refused := f.Body.(*events.RequestRefused); refused && ok && in == events.Reports && at == offset {
			return b.Reason
		}
		if b, rejected := f.Body.(*events.InputRejected); rejected && ok && in == events.Reports && at == offset {
			return b.Reason + ": " + b.Detail
		}
	}
	return ""
}

func withReason(state, reason string) string {
	if reason == "" {
		return state
	}
	return state + " (" + reason + ")"
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+": "+labels[k])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }

func list(steps []string) string { return "[" + strings.Join(steps, ", ") + "]" }

// text shows an absent value as null, which it is to an expression.
func text(raw json.RawMessage) string {
	if raw == nil {
		return "null"
	}
	return string(raw)
}

// same compares JSON values; the numbers as they are written.
func same(a, b json.RawMessage) bool {
	canonical := func(raw json.RawMessage) []byte {
		d := json.NewDecoder(strings.NewReader(text(raw)))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return raw
		}
		out, err := json.Marshal(v)
		if err != nil {
			return raw
		}
		return out
	}
	return bytes.Equal(canonical(a), canonical(b))
}
