package api

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/traceparent"
)

// submissionHeader is the part of a submission's headers that all records written together share.
type submissionHeader struct {
	time []byte
	// trace is the client's trace context; nil if each submission gets a new one.
	trace []byte
}

func (s *submissions) header(trace string) submissionHeader {
	h := submissionHeader{time: []byte(events.At(s.now()).String())}
	if traceparent.Valid(trace) {
		h.trace = []byte(trace)
	}
	return h
}

// record returns the record for a checked draft: the object as the client wrote it, with its ID as the key.
func (s *submissions) record(d *draft, h submissionHeader) events.Record {
	key := []byte(d.id)
	if h.trace == nil {
		h.trace = traceparent.New()
	}
	r := events.Record{
		Topic: s.topic, Partition: d.partition, Key: key, Value: d.data,
		Headers: []events.Header{
			{Key: events.HeaderSpecVersion, Value: valueSpecVersion},
			{Key: events.HeaderID, Value: []byte(newID())},
			{Key: events.HeaderSource, Value: s.source},
			{Key: events.HeaderType, Value: valueSubmission},
			{Key: events.HeaderTime, Value: h.time},
			{Key: events.HeaderSubject, Value: key},
			{Key: events.HeaderContentType, Value: valueJSON},
			{Key: events.HeaderTraceparent, Value: h.trace},
			{Key: events.HeaderDefinition, Value: []byte(d.definition)},
		},
	}
	if d.definition == "" {
		r.Headers = r.Headers[:len(r.Headers)-1]
	}
	return r
}

// The values of headers that are the same in all records.
var (
	valueSpecVersion = []byte("1.0")
	valueSubmission  = []byte(events.TypeSubmission)
	valueJSON        = []byte(contentJSON)
)
