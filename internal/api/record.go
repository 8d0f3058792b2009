package api

import (
	"github.com/sagalog/sagalog/events"
)

// recordHeaders are the headers of a submission's record.
const recordHeaders = 9

// writer writes the records of submissions into memory that they share: a few large pieces instead of a dozen small
// ones for each. It is for one goroutine.
type writer struct {
	s *Server
	// time is that of all of its records.
	time []byte
	// trace is the client's trace context, nil where each submission gets one of its own.
	trace []byte
	// definition is the hash that the last submission was validated against.
	definition []byte
	// text and headers have room for what is written next. What was written never changes.
	text    []byte
	headers []events.Header
}

// newWriter makes a writer with room for n records; ids is how many bytes their IDs have together.
func (s *Server) newWriter(trace string, n, ids int) writer {
	w := writer{s: s, headers: make([]events.Header, 0, n*recordHeaders)}
	each := uuidBytes
	if !isTrace(trace) {
		each += traceBytes
	}
	now := events.At(s.cfg.Now()).String()
	w.text = make([]byte, 0, len(now)+traceBytes+definitionBytes+ids+n*each)
	w.time = w.take(append(w.text, now...))
	if isTrace(trace) {
		w.trace = w.take(append(w.text, trace...))
	}
	return w
}

// definitionBytes is how long the hash of a definition is; most bulks have one.
const definitionBytes = 64

// record returns what goes into <ns>.submissions for a checked draft: the object as the client wrote it, its ID as the
// key. A client's own trace context is kept.
func (s *Server) record(d *draft, trace string) events.Record {
	w := s.newWriter(trace, 1, len(d.id))
	return w.record(d)
}

func (w *writer) record(d *draft) events.Record {
	key := w.take(append(w.text, d.id...))
	trace := w.trace
	if trace == nil {
		trace = w.take(appendTrace(w.text))
	}
	if string(w.definition) != d.definition {
		w.definition = w.take(append(w.text, d.definition...))
	}
	from := len(w.headers)
	w.headers = append(w.headers,
		events.Header{Key: events.HeaderSpecVersion, Value: valueSpecVersion},
		events.Header{Key: events.HeaderID, Value: w.take(appendUUID(w.text, newUUID()))},
		events.Header{Key: events.HeaderSource, Value: w.s.sourceValue},
		events.Header{Key: events.HeaderType, Value: valueSubmission},
		events.Header{Key: events.HeaderTime, Value: w.time},
		events.Header{Key: events.HeaderSubject, Value: key},
		events.Header{Key: events.HeaderContentType, Value: valueJSON},
		events.Header{Key: events.HeaderTraceparent, Value: trace},
		events.Header{Key: events.HeaderDefinition, Value: w.definition},
	)
	return events.Record{
		Topic: w.s.submissionsTopic, Partition: d.partition, Key: key, Value: d.data,
		Headers: w.headers[from:len(w.headers):len(w.headers)],
	}
}

// take returns what text has more than before, and keeps the rest of its room.
func (w *writer) take(text []byte) []byte {
	from := len(w.text)
	if cap(text) != cap(w.text) { // it has moved: what was written before stays where it is
		w.text = nil
		return text[from:]
	}
	w.text = text
	return text[from:len(text):len(text)]
}

// The values of headers that are the same in all records.
var (
	valueSpecVersion = []byte("1.0")
	valueSubmission  = []byte(events.TypeSubmission)
	valueJSON        = []byte(contentJSON)
)

func (s *Server) source() string { return "/" + s.cfg.Namespace + "/api/" + s.cfg.Node }
