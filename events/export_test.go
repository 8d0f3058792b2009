package events

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// Murmur2 is the hash behind Home.
var Murmur2 = murmur2

// codec has the methods that go generate writes for a type.
type codec interface {
	write(w *jsontext.Writer)
	read(r *jsontext.Reader) uint64
}

// Codecs returns an empty value of each type that has a generated codec.
func Codecs() []any {
	list := []any{new(Work), new(Report), new(Task), new(stepRow), new(requestRow), new(PartitionState), new(HeldRequest), new(Definition), new(Submission)}
	for _, name := range Names() {
		body, err := NewBody(name)
		if err != nil {
			panic(err)
		}
		list = append(list, body)
	}
	return list
}

// NewStepRow returns an empty row of a step.
func NewStepRow() any { return new(stepRow) }

// NewRequestRow returns an empty row of a request.
func NewRequestRow() any { return new(requestRow) }

// ReadFast gives data to the generated reader of v's type. It returns a new value, or nil if encoding/json must be used.
func ReadFast(v any, data []byte) any {
	to := reflect.New(reflect.TypeOf(v).Elem()).Interface().(codec)
	r := jsontext.NewReader(data)
	if to.read(&r); !r.Done() {
		return nil
	}
	return to
}

// WriteFast gives v to its generated writer. It returns nil if Marshal must be used.
func WriteFast(v any) []byte {
	var w jsontext.Writer
	if v.(codec).write(&w); w.Odd {
		return nil
	}
	return w.B
}

// ReadSubmissionFast is the fast path of ParseSubmission. It returns nil if that does not apply.
var ReadSubmissionFast = readSubmission

// ParseSubmissionSlowly is the slow path of ParseSubmission.
func ParseSubmissionSlowly(data []byte) (*Submission, error) { return parseSubmission(data) }

// Content returns the text that ContentHash hashes.
func Content(s *Submission) ([]byte, error) { return s.content() }

// ParseWritten reads the text that Instant.String writes.
var ParseWritten = parseWritten

// CheckIndex says what is wrong with the index of the steps of a task, which facts have changed since it was made.
func CheckIndex(t *Task) error {
	x := t.index
	if x == nil || len(t.Steps) < manySteps {
		return nil
	}
	toUndo, unsaved := slices.Collect(ToUndo(t)), x.unsaved()
	t.index = nil
	again := indexOf(t)
	if t.index = x; !slices.Equal(x.live, again.live) {
		return fmt.Errorf("%d live steps, and %d if the index is made again", len(x.live), len(again.live))
	}
	if !slices.Equal(unsaved, again.unsaved()) {
		return fmt.Errorf("%d steps to be saved, and %d if the index is made again", len(unsaved), len(again.unsaved()))
	}
	if x.rows != again.rows {
		return fmt.Errorf("rows %+v, and %+v if the index is made again", x.rows, again.rows)
	}
	if !maps.Equal(x.byPath, again.byPath) {
		return errors.New("other steps if the index is made again")
	}
	t.index = again
	defer func() { t.index = x }()
	if sorted := slices.Collect(ToUndo(t)); !slices.Equal(sorted, toUndo) {
		return fmt.Errorf("%d steps to be undone, and %d if the index is made again", len(toUndo), len(sorted))
	}
	return nil
}
