package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// DecodeTask reads a task from the encoding of its head and from all of its other rows, in any order. It refuses a task with a
// missing row. The task shares no bytes with the rows: a store's value is valid only for a moment.
func DecodeTask(head []byte, rows []PartRow) (*Task, error) {
	t := new(Task)
	r := jsontext.NewReader(head)
	if t.read(&r); !r.Done() {
		t = new(Task)
		if err := json.Unmarshal(head, t); err != nil {
			return nil, fmt.Errorf("read a task of the store: %w", err)
		}
		if slices.Contains(t.Steps, nil) {
			return nil, fmt.Errorf("the task %q has a step that is null", t.ID)
		}
	}
	if len(t.Held)+len(t.Kept)+len(t.Requests) > 0 {
		return nil, fmt.Errorf("the head of the task %q holds requests, which are rows", t.ID)
	}
	t.hash = hashEntity(KindTask, t.ID, head)
	var want TaskRows
	if t.Rows != nil {
		want, t.Rows = *t.Rows, nil
	}
	if want == (TaskRows{}) && len(rows) == 0 {
		return t, nil
	}
	j := joiner{task: t, rows: new(valueRows)}
	if want.Steps > 0 && want.Steps <= len(rows) {
		j.steps = make([]*Step, len(t.Steps)+want.Steps)
	}
	for i := range rows {
		if err := j.take(&rows[i]); err != nil {
			return nil, fmt.Errorf("read the %s row %q of the store: %w", rows[i].Kind, rows[i].ID, err)
		}
	}
	if j.found != want {
		return nil, fmt.Errorf("the task %q has the rows %+v, and its head says %+v", t.ID, j.found, want)
	}
	j.end()
	return t, nil
}

// joiner puts a task together from its rows.
type joiner struct {
	task  *Task
	rows  *valueRows
	found TaskRows
	// steps holds the steps that are rows, at their places among all steps.
	steps []*Step
}

func (j *joiner) take(row *PartRow) error {
	t := j.task
	part, ok := strings.CutPrefix(row.ID, t.ID)
	if ok && part != "" {
		part, ok = strings.CutPrefix(part, "\x00")
	}
	if !ok {
		return fmt.Errorf("it does not belong to task %q", t.ID)
	}
	known := &rowState{hashEntity(row.Kind, row.ID, row.Encoding), len(row.Encoding)}
	t.hash = t.hash.Add(known.hash)
	switch row.Kind {
	case KindInput:
		t.Input, j.rows.input, j.found.Input = bytes.Clone(row.Encoding), known, true
		return valid(row.Encoding)
	case KindOutput:
		t.Output, j.rows.output, j.found.Output = bytes.Clone(row.Encoding), known, true
		return valid(row.Encoding)
	case KindStep:
		return j.step(part, known, row.Encoding)
	case KindRequest:
		return j.request(part, known, row.Encoding)
	}
	return fmt.Errorf("%w: entity kind %q", ErrUnknownFact, row.Kind)
}

func valid(raw json.RawMessage) error {
	if !json.Valid(raw) {
		return fmt.Errorf("it is not JSON")
	}
	return nil
}

func (j *joiner) step(path string, known *rowState, encoding []byte) error {
	row := new(stepRow)
	r := jsontext.NewReader(encoding)
	if row.read(&r); !r.Done() {
		row = new(stepRow)
		if err := json.Unmarshal(encoding, row); err != nil {
			return err
		}
	}
	if row.Step.Path != path {
		return fmt.Errorf("it holds another step")
	}
	if row.Ordinal < 1 || row.Ordinal > len(j.steps) || j.steps[row.Ordinal-1] != nil {
		return fmt.Errorf("the task has no place for a step of the ordinal %d", row.Ordinal)
	}
	row.Step.row = known
	j.steps[row.Ordinal-1] = &row.Step
	j.found.Steps++
	return nil
}

func (j *joiner) request(id string, known *rowState, encoding []byte) error {
	var row requestRow
	r := jsontext.NewReader(encoding)
	if row.read(&r); !r.Done() {
		row = requestRow{}
		if err := json.Unmarshal(encoding, &row); err != nil {
			return err
		}
	}
	if j.rows.requests == nil {
		j.rows.requests = map[string]*rowState{}
	}
	j.rows.requests[id] = known
	j.found.Requests++
	if row.Held == nil {
		j.task.Requests = append(j.task.Requests, JudgedRequest{id, row.Verb, row.Fact, row.Refused})
		if row.Kept != nil {
			j.task.Kept = append(j.task.Kept, *row.Kept)
		}
		return nil
	}
	if row.Held.ID != id {
		return fmt.Errorf("it holds another request")
	}
	j.task.Held = append(j.task.Held, *row.Held)
	return nil
}

// end sorts the contents of the rows, and inserts the steps of the head between the others.
func (j *joiner) end() {
	t := j.task
	t.rows = j.rows
	slices.SortFunc(t.Requests, func(a, b JudgedRequest) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(t.Kept, func(a, b KeptSignal) int {
		if a.Fact.Before(b.Fact) {
			return -1
		}
		return 1
	})
	slices.SortFunc(t.Held, func(a, b Request) int { return strings.Compare(a.ID, b.ID) })
	if j.steps == nil {
		return
	}
	inHead := t.Steps
	for i := range j.steps {
		if j.steps[i] == nil {
			j.steps[i], inHead = inHead[0], inHead[1:]
		}
	}
	t.Steps = j.steps
}
