package events

import (
	"reflect"

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
