package events

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The CloudEvents types of the records that are not facts. A fact's type is TypePrefix and the fact's name.
const (
	TypePrefix     = "sagalog."
	TypeSubmission = "sagalog.submission"
	TypeWork       = "sagalog.work"
	TypeReport     = "sagalog.report"
	TypeCancel     = "sagalog.request.cancel"
	TypeRetry      = "sagalog.request.retry"
	TypeDefinition = "sagalog.definition"
	TypePresence   = "sagalog.presence"
	TypeAlert      = "sagalog.alert"
)

// The headers of the Kafka binding of CloudEvents 1.0 and of our documented extensions.
const (
	HeaderSpecVersion = "ce_specversion"
	HeaderID          = "ce_id"
	HeaderSource      = "ce_source"
	HeaderType        = "ce_type"
	HeaderTime        = "ce_time"
	HeaderSubject     = "ce_subject"
	HeaderCause       = "ce_causationid"
	HeaderCauseID     = "ce_causeid"
	HeaderCauseHash   = "ce_causehash"
	HeaderCorrelation = "ce_correlationid"
	HeaderSequence    = "ce_sequence"
	HeaderEpoch       = "ce_epoch"
	HeaderTraceparent = "ce_traceparent"
	HeaderSettled     = "settled"
	HeaderContentType = "content-type"
	HeaderHome        = "home"
	HeaderTicket      = "ticket"
	// HeaderForwardedFrom marks an input that was sent home: where it was found, as "<partition>/<offset>".
	HeaderForwardedFrom = "forwarded-from"
	// HeaderForwardedAt is the time of the InputForwarded fact.
	HeaderForwardedAt = "forwarded-at"
	// HeaderDefinition is the hash of the definition that the API validated a submission against.
	HeaderDefinition = "definition"

	specVersion       = "1.0"
	contentJSON       = "application/json"
	contentCloudEvent = "application/cloudevents"
	contentStructured = "application/cloudevents+json"
)

// Envelope is the attributes of a CloudEvent. A plain record has none: its Type is empty.
type Envelope struct {
	ID          string
	Source      string
	Type        string
	Time        string
	Subject     string
	Traceparent string
}

// ErrNotCloudEvent is returned when a record says that it is a CloudEvent and is not.
var ErrNotCloudEvent = errors.New("not a CloudEvent")

// Open returns the attributes and the data of a record that came in: CloudEvents binary mode, structured mode, or a
// plain value. The data is a slice of the record's value, or a new one in structured mode.
func Open(r *Record) (Envelope, []byte, error) {
	h := readAttributes(r)
	if len(h.content) > 0 && string(h.content) != contentJSON {
		switch content := strings.ToLower(strings.TrimSpace(string(h.content))); {
		case strings.HasPrefix(content, contentStructured):
			return openStructured(r.Value)
		case strings.HasPrefix(content, contentCloudEvent):
			return Envelope{}, nil, fmt.Errorf("%w: content-type %q, not %s", ErrNotCloudEvent, clip(content), contentStructured)
		}
	}
	if v := h.version; len(v) > 0 && string(v) != specVersion {
		return Envelope{}, nil, fmt.Errorf("%w: specversion %q, not 1.0", ErrNotCloudEvent, clip(string(v)))
	}
	return h.envelope(), r.Value, nil
}

// attributes are the values of the headers of a CloudEvent in binary mode; where one stands twice, the last counts.
type attributes struct{ content, version, id, source, kind, time, subject, traceparent []byte }

func readAttributes(r *Record) (a attributes) {
	for i := range r.Headers {
		h := &r.Headers[i]
		switch h.Key {
		case HeaderContentType:
			a.content = h.Value
		case HeaderSpecVersion:
			a.version = h.Value
		case HeaderID:
			a.id = h.Value
		case HeaderSource:
			a.source = h.Value
		case HeaderType:
			a.kind = h.Value
		case HeaderTime:
			a.time = h.Value
		case HeaderSubject:
			a.subject = h.Value
		case HeaderTraceparent:
			a.traceparent = h.Value
		}
	}
	return a
}

// envelope makes one text of all, and cuts it.
func (a *attributes) envelope() Envelope {
	var room [256]byte
	b := append(append(append(room[:0], a.id...), a.source...), a.time...)
	all := string(append(append(b, a.subject...), a.traceparent...))
	cut := func(like []byte) (s string) {
		s, all = all[:len(like)], all[len(like):]
		return s
	}
	return Envelope{ID: cut(a.id), Source: cut(a.source), Type: wordOf(a.kind), Time: cut(a.time), Subject: cut(a.subject), Traceparent: traceparent(all)}
}

func openStructured(value []byte) (Envelope, []byte, error) {
	var s struct {
		SpecVersion string          `json:"specversion"`
		ID          string          `json:"id"`
		Source      string          `json:"source"`
		Type        string          `json:"type"`
		Time        string          `json:"time"`
		Subject     string          `json:"subject"`
		Traceparent string          `json:"traceparent"`
		Data        json.RawMessage `json:"data"`
		DataBase64  string          `json:"data_base64"`
	}
	if err := json.Unmarshal(value, &s); err != nil {
		return Envelope{}, nil, fmt.Errorf("%w: structured mode: %w", ErrNotCloudEvent, err)
	}
	if s.SpecVersion != specVersion {
		return Envelope{}, nil, fmt.Errorf("%w: specversion %q, not 1.0", ErrNotCloudEvent, clip(s.SpecVersion))
	}
	data := []byte(s.Data)
	if s.DataBase64 != "" {
		if data != nil {
			return Envelope{}, nil, fmt.Errorf("%w: both data and data_base64", ErrNotCloudEvent)
		}
		b, err := base64.StdEncoding.DecodeString(s.DataBase64)
		if err != nil {
			return Envelope{}, nil, fmt.Errorf("%w: data_base64: %w", ErrNotCloudEvent, err)
		}
		data = b
	}
	e := Envelope{ID: s.ID, Source: s.Source, Type: s.Type, Time: s.Time, Subject: s.Subject, Traceparent: traceparent(s.Traceparent)}
	return e, data, nil
}

// maxTraceparent is five times what version 00 of the W3C trace context has.
const maxTraceparent = 256

// traceparent drops what cannot be one. It comes from outside, no limit of the data covers it, and it would stand in
// the task and go out with each of its records.
func traceparent(s string) string {
	if len(s) > maxTraceparent {
		return ""
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return ""
		}
	}
	return s
}
