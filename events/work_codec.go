package events

import (
	"encoding/json"
	"fmt"
)

// Subject is what a CloudEvent of ours carries beside its data.
type Subject struct {
	// ID is the ce_id: unique for the record's meaning, the same when it is sent again.
	ID          string
	Source      string
	Time        Instant
	Traceparent string
}

// EncodeRequest returns the record of an operator's request, for the home partition of its task in <ns>.reports.
func EncodeRequest(q Request, s Subject) (Record, error) {
	t := TypeCancel
	if q.Kind == RequestRetry {
		t = TypeRetry
	}
	return encode(q, q.Task, t, q.Task, s)
}

// EncodePresence returns the record of a beat in <ns>.presence.
func EncodePresence(p Presence, s Subject) (Record, error) {
	return encode(p, p.Kind+"/"+p.Instance, TypePresence, p.Instance, s)
}

// DecodePresence reads a beat.
func DecodePresence(r *Record) (Presence, error) {
	var p Presence
	if _, err := decode(r, TypePresence, &p); err != nil {
		return Presence{}, err
	}
	return p, nil
}

func decode(r *Record, kind string, v any) (Envelope, error) {
	e, data, err := openAs(r, kind)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return e, fmt.Errorf("read %s: %w", kind, err)
	}
	return e, nil
}

// openAs opens a record of that ce_type, or of none.
func openAs(r *Record, kind string) (Envelope, []byte, error) {
	e, data, err := Open(r)
	if err == nil && e.Type != "" && e.Type != kind {
		err = fmt.Errorf("ce_type is %q, not %q", e.Type, kind)
	}
	return e, data, err
}

// EncodeAlert returns the record of an alert about a task, or about the partition where task is empty.
func EncodeAlert(alert any, task string, s Subject) (Record, error) {
	return encode(alert, task, TypeAlert, task, s)
}
