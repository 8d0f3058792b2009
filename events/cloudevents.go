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
	TypePrefix               = "sagalog."
	TypeSubmission           = "sagalog.submission"
	TypeWork                 = "sagalog.work"
	TypeStop                 = "sagalog.work.stop"
	TypeReport               = "sagalog.report"
	TypeDefinition           = "sagalog.definition"
	TypeSettings             = "sagalog.settings"
	TypeLoss                 = "sagalog.loss"
	TypeAgentPause           = "sagalog.agent.pause"
	TypeAlertAcknowledgement = "sagalog.alert.acknowledgement"
	TypeDeadLetterMark       = "sagalog.deadletter.mark"
	TypeJob                  = "sagalog.job"
	TypeJobProgress          = "sagalog.job.progress"
	TypeJobStop              = "sagalog.job.stop"
	TypeSchedule             = "sagalog.schedule"
	TypeLimit                = "sagalog.limit"
	TypeTaskEnd              = "sagalog.task.end"
	TypeCopying              = "sagalog.copying"
	TypeOmitted              = "sagalog.omitted"
	TypeKeysMade             = "sagalog.keys.made"
	TypePresence             = "sagalog.presence"
	TypeAlert                = "sagalog.alert"
)

// The headers of the Kafka binding of CloudEvents 1.0 and of our documented extensions.
const (
	HeaderSpecVersion = "ce_specversion"
	HeaderID          = "ce_id"
	HeaderSource      = "ce_source"
	HeaderType        = "ce_type"
	HeaderTime        = "ce_time"
	HeaderSubject     = "ce_subject"
	HeaderCause       = "ce_cause"
	HeaderCauseID     = "ce_causeid"
	HeaderCauseHash   = "ce_causehash"
	HeaderSequence    = "ce_sequence"
	HeaderTraceparent = "ce_traceparent"
	HeaderWatermark   = "sagalog-watermark"
	HeaderContentType = "content-type"
	// HeaderForwardedFrom marks an input that was forwarded to its home partition. Its value says where the input was found, as
	// "<partition>/<offset>".
	HeaderForwardedFrom = "sagalog-forwarded-from"
	// HeaderForwardedAt is the time of the InputForwarded fact.
	HeaderForwardedAt = "sagalog-forwarded-at"
	// HeaderCut marks a dead letter that holds only a part of its input. Its value is the number of bytes of the input's value.
	HeaderCut = "sagalog-cut"
	// HeaderLast marks a dead letter for several inputs. Its value is the offset of the last of them.
	HeaderLast = "sagalog-last-offset"
	// HeaderLevel is the level that the keys of a definition need; absent for FirstLevel.
	HeaderLevel = "sagalog-level"
	// HeaderBy is who applied a definition; absent if that is not known.
	HeaderBy = "sagalog-by"
	// HeaderDefinition is the hash of the definition that the API validated a submission against.
	HeaderDefinition = "sagalog-definition"

	specVersion       = "1.0"
	contentJSON       = "application/json"
	contentCloudEvent = "application/cloudevents"
	contentStructured = "application/cloudevents+json"
)

// Envelope holds the attributes of a CloudEvent. A plain record has none: its Type is empty.
type Envelope struct {
	ID          string
	Source      string
	Type        string
	Time        string
	Subject     string
	Traceparent string
}

// ErrNotCloudEvent is returned for a record that claims to be a CloudEvent but is not one.
var ErrNotCloudEvent = errors.New("not a CloudEvent")

// Open returns the attributes and the data of an incoming record: a CloudEvent in binary or structured mode, or a plain value.
// The data is a slice of the record's value, or a new one in structured mode.
func Open(r *Record) (Envelope, []byte, error) {
	h := readAttributes(r)
	if len(h.content) > 0 && string(h.content) != contentJSON {
		switch content := strings.ToLower(strings.TrimSpace(string(h.content))); {
		case strings.HasPrefix(content, contentStructured):
			return openStructured(r.Value)
		case strings.HasPrefix(content, contentCloudEvent):
			return Envelope{}, nil, fmt.Errorf("%w: content-type %q, not %s", ErrNotCloudEvent, Clip(content, maxQuotedBytes), contentStructured)
		}
	}
	if v := h.version; len(v) > 0 && string(v) != specVersion {
		return Envelope{}, nil, fmt.Errorf("%w: specversion %q, not 1.0", ErrNotCloudEvent, Clip(string(v), maxQuotedBytes))
	}
	return h.envelope(), r.Value, nil
}

// attributes are the values of the headers of a CloudEvent in binary mode; the last four are those of a fact. If a header
// occurs twice, the last one counts.
type attributes struct {
	content, version, id, source, kind, time, subject, traceparent []byte

	watermark, cause, causeID, causeHash []byte
}

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
		case HeaderWatermark:
			a.watermark = h.Value
		case HeaderCause:
			a.cause = h.Value
		case HeaderCauseID:
			a.causeID = h.Value
		case HeaderCauseHash:
			a.causeHash = h.Value
		}
	}
	return a
}

// envelope returns the attributes, as slices of one text.
func (a *attributes) envelope() Envelope {
	var room [256]byte
	b := append(append(append(room[:0], a.id...), a.source...), a.time...)
	all := string(append(append(b, a.subject...), a.traceparent...))
	cut := func(like []byte) (s string) {
		s, all = all[:len(like)], all[len(like):]
		return s
	}
	return Envelope{ID: cut(a.id), Source: cut(a.source), Type: typeOf(a.kind), Time: cut(a.time), Subject: cut(a.subject), Traceparent: traceparent(all)}
}

// typeOf converts the type to a string, without allocating for the usual types.
func typeOf(b []byte) string {
	switch string(b) {
	case TypeWork:
		return TypeWork
	case TypeReport:
		return TypeReport
	}
	return string(b)
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
		return Envelope{}, nil, fmt.Errorf("%w: specversion %q, not 1.0", ErrNotCloudEvent, Clip(s.SpecVersion, maxQuotedBytes))
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

// maxTraceparent is five times the length in version 00 of the W3C trace context.
const maxTraceparent = 256

// traceparent drops a value that cannot be a traceparent. The value comes from outside, and no limit on the data covers it. It
// would be kept in the task and sent with each of the task's records.
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
