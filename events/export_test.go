package events

import (
	"encoding/json"
	"slices"
)

// Murmur2 is the hash behind Home.
var Murmur2 = murmur2

// ReadFast gives data to the reader without reflection of v's type. It returns a new value, nil where encoding/json must
// be asked, and false where that type has no such reader.
func ReadFast(v any, data []byte) (any, bool) {
	r := read(data)
	var to any
	switch v.(type) {
	case *Submitted, *StepStarted, *StepCompleted, *StepSkipped, *TaskProcessed:
		if b := usualBody(v.(Body).Name(), data, nil); b != nil {
			return b, true
		}
		return nil, true
	case *Work:
		w := new(Work)
		r.work(w)
		to = w
	case *Report:
		p := new(Report)
		r.report(p)
		to = p
	case *Task:
		t := new(Task)
		r.task(t)
		if r.done() {
			t.own()
		}
		to = t
	default:
		return nil, false
	}
	if !r.done() {
		return nil, true
	}
	return to, true
}

// WriteFast gives v to the encoder. It returns nil where Marshal must be asked.
func WriteFast(v any) []byte {
	e := new(encoder)
	ok := false
	switch v := v.(type) {
	case Body:
		ok = e.body(v)
	case *Work:
		ok = e.work(v)
	case *Report:
		ok = e.report(v)
	case *Task:
		ok = e.task(v)
	case *PartitionState:
		ok = e.partition(v)
	}
	if !ok {
		return nil
	}
	return slices.Clone(e.b)
}

// ReadSubmissionFast is ParseSubmission where it takes the short way, and nil elsewhere.
var ReadSubmissionFast = readSubmission

// ParseSubmissionSlowly is ParseSubmission on the long way.
func ParseSubmissionSlowly(data []byte) (*Submission, error) { return parseSubmission(data) }

// Contents returns the text that ContentHash hashes, on both ways; fast is nil where there is only the long one.
func Contents(s *Submission) (fast, slow []byte, err error) {
	e := new(encoder)
	if e.content(s) {
		fast = slices.Clone(e.b)
	}
	*e = encoder{}
	if err := e.canonical(s); err != nil {
		return fast, nil, err
	}
	return fast, e.b, nil
}

// ScanValue says whether the scanner takes data for one value.
func ScanValue(data []byte) bool { return (&scanner{b: data}).value(0, MaxNestingLevels) == len(data) }

// AsMarshalled says whether Marshal would write raw with just these bytes.
func AsMarshalled(raw json.RawMessage) bool { return asMarshalled(raw) }

// AppendQuoted appends a text as the encoder does.
var AppendQuoted = appendQuoted

// ParseWritten reads the text that Instant.String writes.
var ParseWritten = parseWritten
