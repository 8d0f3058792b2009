package scheduler

import (
	"errors"
	"strconv"

	"github.com/sagalog/sagalog/events"
)

const typeNamespace = events.TypePrefix + string(events.NameNamespaceCreated)

// EncodeDefinition returns the record of a definition for <ns>.definitions; its key is <workflow>/<content hash>. by is who
// applies it, if that is known.
func EncodeDefinition(src *Source, s events.Subject, by string) (events.Record, error) {
	if src == nil || src.Hash != hashOf(src.Body) {
		return events.Record{}, errors.New("the source of a definition did not come from Parse")
	}
	h := headers(s, events.TypeDefinition, src.Workflow)
	if src.Level > events.FirstLevel {
		h = append(h, events.Header{Key: events.HeaderLevel, Value: strconv.AppendInt(nil, int64(src.Level), 10)})
	}
	if by != "" {
		h = append(h, events.Header{Key: events.HeaderBy, Value: []byte(events.Clip(by, maxByBytes))})
	}
	return events.Record{Key: []byte(src.Workflow + "/" + src.Hash), Value: src.Body, Headers: h}, nil
}

// EncodeNamespace returns the first record of <ns>.definitions.
func EncodeNamespace(n Namespace, s events.Subject) (events.Record, error) {
	b, err := events.Marshal(n)
	if err != nil {
		return events.Record{}, err
	}
	return events.Record{Key: []byte("namespace"), Value: b, Headers: headers(s, typeNamespace, n.ID)}, nil
}

func headers(s events.Subject, kind, subject string) []events.Header {
	h := []events.Header{
		{Key: events.HeaderSpecVersion, Value: []byte("1.0")},
		{Key: events.HeaderID, Value: []byte(s.ID)},
		{Key: events.HeaderSource, Value: []byte(s.Source)},
		{Key: events.HeaderType, Value: []byte(kind)},
		{Key: events.HeaderTime, Value: []byte(s.Time.String())},
		{Key: events.HeaderSubject, Value: []byte(subject)},
		{Key: events.HeaderContentType, Value: []byte("application/json")},
	}
	if s.Traceparent != "" {
		h = append(h, events.Header{Key: events.HeaderTraceparent, Value: []byte(s.Traceparent)})
	}
	return h
}

// EncodeDeletion returns the tombstone of a version for <ns>.definitions.
func EncodeDeletion(v *Version, s events.Subject) events.Record {
	return events.Record{Key: []byte(v.Workflow + "/" + v.Hash), Headers: headers(s, events.TypeDefinition, v.Workflow)}
}
