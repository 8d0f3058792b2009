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
	switch content := strings.ToLower(strings.TrimSpace(r.Header(HeaderContentType))); {
	case strings.HasPrefix(content, contentStructured):
		return openStructured(r.Value)
	case strings.HasPrefix(content, contentCloudEvent):
		return Envelope{}, nil, fmt.Errorf("%w: content-type %q, not %s", ErrNotCloudEvent, clip(content), contentStructured)
	}
	e := Envelope{
		ID: r.Header(HeaderID), Source: r.Header(HeaderSource), Type: r.Header(HeaderType), Time: r.Header(HeaderTime),
		Subject: r.Header(HeaderSubject), Traceparent: traceparent(r.Header(HeaderTraceparent)),
	}
	if v := r.Header(HeaderSpecVersion); v != "" && v != specVersion {
		return Envelope{}, nil, fmt.Errorf("%w: specversion %q, not 1.0", ErrNotCloudEvent, clip(v))
	}
	return e, r.Value, nil
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

// seal returns the headers of a record of ours in binary mode, with room for extra ones. An absent attribute has no
// header: CloudEvents 1.0 forbids empty ones.
func seal(e Envelope, extra ...Header) []Header {
	h := make([]Header, 0, 8+len(extra))
	h = append(h,
		Header{HeaderSpecVersion, []byte(specVersion)},
		Header{HeaderID, []byte(e.ID)},
		Header{HeaderSource, []byte(e.Source)},
		Header{HeaderType, []byte(e.Type)},
		Header{HeaderContentType, []byte(contentJSON)},
	)
	for _, x := range [...]struct{ key, value string }{
		{HeaderTime, e.Time}, {HeaderSubject, e.Subject}, {HeaderTraceparent, e.Traceparent},
	} {
		if x.value != "" {
			h = append(h, Header{x.key, []byte(x.value)})
		}
	}
	return append(h, extra...)
}
