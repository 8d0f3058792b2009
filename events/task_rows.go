package events

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// A value or a step of a task stays in the head only if its encoding has at most headBytes. A step with a few identifiers takes a
// third of that, so the usual task is one row, and a head has at most a few KiB.
const headBytes = 1 << 10

// headSteps is how many of the steps may be in the head: the first ones. Most workflows have fewer, and the head is written with each fact.
const headSteps = 8

// rawGrowth bounds how many bytes of an encoding one byte of a raw value becomes: a byte that is not UTF-8 becomes U+FFFD.
const rawGrowth = 3

// TaskRows says which rows a task has besides its head.
type TaskRows struct {
	Input    bool `json:"input,omitzero"`
	Output   bool `json:"output,omitzero"`
	Steps    int  `json:"steps,omitzero"`
	Requests int  `json:"requests,omitzero"`
}

// total returns the number of the rows.
func (n *TaskRows) total() int {
	all := n.Steps + n.Requests
	for _, is := range []bool{n.Input, n.Output} {
		if is {
			all++
		}
	}
	return all
}

// stepRow is the row of a step. Ordinal is the step's place in Task.Steps, from 1.
type stepRow struct {
	Ordinal int  `json:"ordinal"`
	Step    Step `json:"step"`
}

// requestRow is the row of a request: it holds the request until it is judged, and then what became of it.
type requestRow struct {
	Held    *Request `json:"held,omitempty"`
	Verb    Verb     `json:"verb,omitempty"`
	Fact    Position `json:"fact,omitzero"`
	Refused string   `json:"refused,omitempty"`
	// Kept is the signal of the request, until a step takes it.
	Kept *KeptSignal `json:"kept,omitempty"`
}

// rowState is what is known about a row besides the head, as of the last Flush: its share of the state hash, and the size of its encoding.
type rowState struct {
	hash  Hash
	bytes int
}

// valueRows are the rows of a task that do not belong to its steps.
type valueRows struct {
	input, output *rowState
	requests      map[string]*rowState
	// replaced says that the input or the output may have changed since the last Flush.
	replaced bool
	// changed are the IDs of the requests that changed since the last Flush; an ID may occur twice.
	changed []string
}

// change marks the step for the next Flush. The fold calls it for each step that it changes.
func (s *Step) change() *Step {
	s.changed = true
	return s
}

// changeRequest marks a request for the next Flush.
func (t *Task) changeRequest(id string) {
	if t.rows == nil {
		t.rows = new(valueRows)
	}
	t.rows.changed = append(t.rows.changed, id)
}

// replace gives the task another input or output: only a rerun does.
func (t *Task) replace(old *json.RawMessage, value json.RawMessage) {
	*old = value
	if t.rows != nil {
		t.rows.replaced = true
	}
}

// rowID returns the ID of a row's entity; part is empty for the input and the output.
func rowID(task, part string) string {
	if part == "" {
		return task
	}
	return task + "\x00" + part
}

// removals returns the changes that delete a task's stored rows besides the head.
func removals(t *Task) (rows []PartRow) {
	if r := t.rows; r != nil {
		if r.input != nil {
			rows = append(rows, PartRow{Kind: KindInput, ID: t.ID})
		}
		if r.output != nil {
			rows = append(rows, PartRow{Kind: KindOutput, ID: t.ID})
		}
		for id := range r.requests {
			rows = append(rows, PartRow{Kind: KindRequest, ID: rowID(t.ID, id)})
		}
	}
	for _, s := range t.Steps {
		if s.row != nil {
			rows = append(rows, PartRow{Kind: KindStep, ID: rowID(t.ID, s.Path)})
		}
	}
	return rows
}

// taskWriter writes the rows of tasks, one task after another, into the same memory. Of the rows besides the head it writes only those
// that changed since the last Flush.
type taskWriter struct {
	// head is the task's head, and other the changed rows, one after another.
	head, other entityWriter
	// from is where the encoding of the head begins.
	from    int
	changed []changedRow
	// inHead counts the steps in the head, and rows the rows besides it.
	inHead int
	rows   TaskRows
	// sum is the task's share of the state hash, and bytes the size of all its rows.
	sum   Hash
	bytes int
}

// changedRow is a row in taskWriter.other. An empty encoding means that the task no longer has the row.
type changedRow struct {
	kind Kind
	// part is the path of the step or the ID of the request.
	part     string
	step     *Step
	from, to int
	now      rowState
}

// newTaskWriter returns a writer with room for that many tasks.
func newTaskWriter(tasks int) *taskWriter {
	return &taskWriter{head: entityWriter{jsontext.Writer{B: make([]byte, 0, min(entityBytes, tasks<<10))}}}
}

// write writes the rows. Which parts of a task are rows depends on its state alone, and on nothing that was written before.
func (w *taskWriter) write(t *Task) (err error) {
	w.changed, w.other.B, w.inHead = w.changed[:0], w.other.B[:0], 0
	w.sum, w.bytes, w.rows = Hash{}, 0, TaskRows{}
	if err := w.values(t); err != nil {
		return err
	}
	if err := w.beginHead(t); err != nil {
		return err
	}
	w.head.B = w.head.B[:len(w.head.B)-1]
	if err := w.steps(t); err != nil {
		return err
	}
	if w.inHead > 0 {
		w.head.B = append(w.head.B, ']')
	}
	if w.rows != (TaskRows{}) {
		w.head.Literal(`,"rows":`)
		w.rows.write(&w.head.Writer)
	}
	w.head.B = append(w.head.B, '}')
	w.sum = w.sum.Add(w.head.hash())
	w.bytes += len(w.head.B) - w.from
	return nil
}

// beginHead writes what is in the head apart from the steps and the number of rows.
func (w *taskWriter) beginHead(t *Task) (err error) {
	h := *t // on the stack, because the task is written often
	h.Held, h.Kept, h.Requests, h.Steps = nil, nil, nil, nil
	if w.rows.Input {
		h.Input = nil
	}
	if w.rows.Output {
		h.Output = nil
	}
	e := &w.head
	e.B, e.Odd = e.B[:0], false
	w.from = e.begin(KindTask, t.ID)
	if h.write(&e.Writer); e.Odd {
		odd := h
		err = e.Marshalled(w.from, &odd)
	}
	return err
}

// values writes the rows that belong to no step.
func (w *taskWriter) values(t *Task) (err error) {
	var none valueRows
	known := t.rows
	if known == nil {
		known = &none
	}
	input, output := known.input, known.output
	if known.replaced {
		input, output = nil, nil
	}
	if w.rows.Input, err = w.value(KindInput, t.ID, t.Input, input); err != nil {
		return err
	}
	if w.rows.Output, err = w.value(KindOutput, t.ID, t.Output, output); err != nil {
		return err
	}
	if known.input != nil && !w.rows.Input {
		w.changed = append(w.changed, changedRow{kind: KindInput})
	}
	if known.output != nil && !w.rows.Output {
		w.changed = append(w.changed, changedRow{kind: KindOutput})
	}
	w.rows.Requests = len(t.Held) + len(t.Requests)
	if w.rows.Requests == 0 {
		return nil
	}
	slices.Sort(known.changed)
	known.changed = slices.Compact(known.changed)
	for id, row := range known.requests {
		if _, ok := slices.BinarySearch(known.changed, id); !ok {
			w.know(row)
		}
	}
	for _, id := range known.changed {
		if err := w.request(t, id); err != nil {
			return err
		}
	}
	return nil
}

// value writes the row of an input or an output, unless it is known and was not replaced. is says whether the task has such a row.
func (w *taskWriter) value(kind Kind, task string, raw json.RawMessage, known *rowState) (is bool, err error) {
	if known != nil {
		w.know(known)
		return true, nil
	}
	if len(raw) <= headBytes/rawGrowth {
		return false, nil
	}
	start := len(w.other.B)
	from, err := w.other.add(kind, task, raw)
	if err != nil {
		return false, err
	}
	if len(w.other.B)-from <= headBytes {
		w.other.B = w.other.B[:start]
		return false, nil
	}
	w.change(start, changedRow{kind: kind, from: from})
	return true, nil
}

func (w *taskWriter) request(t *Task, id string) error {
	var row requestRow
	if i := slices.IndexFunc(t.Held, func(r Request) bool { return r.ID == id }); i >= 0 {
		row.Held = &t.Held[i]
	} else if r, ok := t.Request(id); ok {
		row.Verb, row.Fact, row.Refused = r.Verb, r.Fact, r.Refused
		if i := slices.IndexFunc(t.Kept, func(k KeptSignal) bool { return k.Request == id }); i >= 0 {
			row.Kept = &t.Kept[i]
		}
	}
	start := len(w.other.B)
	from, err := w.other.add(KindRequest, rowID(t.ID, id), &row)
	if err == nil {
		w.change(start, changedRow{kind: KindRequest, part: id, from: from})
	}
	return err
}

// steps writes the steps: of a task with an index only those in the head and those that changed.
func (w *taskWriter) steps(t *Task) error {
	x, all := indexOf(t), t.Steps
	if x != nil {
		all = slices.Concat(t.Steps[:headSteps], x.unsaved())
		w.rows.Steps, w.sum, w.bytes = x.rows.count, w.sum.Add(x.rows.sum), w.bytes+x.rows.bytes
	}
	for i, s := range all {
		if x != nil {
			if i = s.place; s.row != nil {
				w.rows.Steps, w.sum, w.bytes = w.rows.Steps-1, w.sum.Sub(s.row.hash), w.bytes-s.row.bytes
			}
		}
		if err := w.step(t, i, s); err != nil {
			return err
		}
	}
	return nil
}

// step writes the step at that index into the head or into a row.
func (w *taskWriter) step(t *Task, i int, s *Step) error {
	if s.row != nil && !s.changed {
		w.rows.Steps++
		w.know(s.row)
		return nil
	}
	if s.row == nil && i < headSteps {
		if done, err := w.stepInHead(s); done || err != nil {
			return err
		}
	}
	o := &w.other
	start := len(o.B)
	from := o.begin(KindStep, rowID(t.ID, s.Path))
	o.Int(`{"ordinal":`, int64(i+1))
	o.Literal(`,"step":`)
	inner := len(o.B)
	if err := o.value(s); err != nil {
		return err
	}
	if n := len(o.B) - inner; n <= headBytes && i < headSteps { // it has become short
		w.beginStep()
		w.head.B = append(w.head.B, o.B[inner:]...)
		o.B = o.B[:start]
		w.changed = append(w.changed, changedRow{kind: KindStep, part: s.Path, step: s})
		return nil
	}
	o.B = append(o.B, '}')
	w.rows.Steps++
	w.change(start, changedRow{kind: KindStep, part: s.Path, step: s, from: from})
	return nil
}

// stepInHead writes the step into the head, unless it is too long.
func (w *taskWriter) stepInHead(s *Step) (done bool, err error) {
	before := len(w.head.B)
	w.beginStep()
	from := len(w.head.B)
	if err := w.head.value(s); err != nil {
		return false, err
	}
	if len(w.head.B)-from > headBytes {
		w.head.B = w.head.B[:before]
		w.inHead--
		return false, nil
	}
	return true, nil
}

func (w *taskWriter) beginStep() {
	if w.inHead++; w.inHead == 1 {
		w.head.Literal(`,"steps":[`)
	} else {
		w.head.B = append(w.head.B, ',')
	}
}

// know counts an unchanged row.
func (w *taskWriter) know(r *rowState) {
	w.sum, w.bytes = w.sum.Add(r.hash), w.bytes+r.bytes
}

// change counts the row that was written last, from start on.
func (w *taskWriter) change(start int, c changedRow) {
	c.to = len(w.other.B)
	digest := sha256.Sum256(w.other.B[start:])
	c.now = rowState{hashOf(&digest), c.to - c.from}
	w.know(&c.now)
	w.changed = append(w.changed, c)
}

// flushed appends the changed rows to those of a Delta, and notes in the task what a store will hold.
func (w *taskWriter) flushed(t *Task, rows []PartRow, kept *keeper) []PartRow {
	for i := range w.changed {
		c := &w.changed[i]
		row := PartRow{Kind: c.kind, ID: rowID(t.ID, c.part)}
		var now *rowState
		if c.to > 0 {
			row.Encoding = kept.keep(w.other.B[c.from:c.to], 1)
			state := c.now
			now = &state
		}
		rows = append(rows, row)
		if c.kind == KindStep {
			t.index.saved(c.step.row, now)
			c.step.row, c.step.changed = now, false
			continue
		}
		if t.rows == nil {
			t.rows = new(valueRows)
		}
		t.rows.flushed(c, now)
	}
	if t.rows != nil {
		t.rows.changed, t.rows.replaced = nil, false
	}
	return rows
}

func (r *valueRows) flushed(c *changedRow, now *rowState) {
	switch c.kind {
	case KindInput:
		r.input = now
	case KindOutput:
		r.output = now
	case KindRequest:
		if r.requests == nil {
			r.requests = map[string]*rowState{}
		}
		r.requests[c.part] = now
	}
}
