package events

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Subject is what a CloudEvent of ours carries beside its data.
type Subject struct {
	// ID is the ce_id: unique for the record's meaning, the same when it is sent again.
	ID          string
	Source      string
	Time        Instant
	Traceparent string
}

// EncodeWork returns the record of a work request. Topic and Partition are left to the caller.
func EncodeWork(w Work, s Subject) (Record, error) {
	return encode(w, w.Task, envelope(s, TypeWork, w.Task),
		Header{HeaderHome, []byte(strconv.Itoa(int(w.Home)))}, Header{HeaderTicket, []byte(w.Ticket)})
}

// DecodeWork reads a work request. It errors on what no agent can work on: bad JSON, or no task, step or attempt.
func DecodeWork(r *Record) (Work, Envelope, error) {
	var w Work
	e, err := decode(r, TypeWork, &w)
	if err != nil {
		return Work{}, e, err
	}
	if w.Task == "" || w.Step == "" || w.Attempt < 1 || (w.Operation != Do && w.Operation != Undo) {
		return Work{}, e, fmt.Errorf("work request without task, step, operation or attempt")
	}
	return w, e, nil
}

// EncodeReport returns the record of a result. It goes to partition Work.Home of <ns>.reports.
func EncodeReport(p Report, s Subject) (Record, error) {
	return encode(p, p.Task, envelope(s, TypeReport, p.Task), Header{HeaderTicket, []byte(p.Ticket)})
}

// EncodeRequest returns the record of an operator's request, for the home partition of its task in <ns>.reports.
func EncodeRequest(q Request, s Subject) (Record, error) {
	t := TypeCancel
	if q.Kind == RequestRetry {
		t = TypeRetry
	}
	return encode(q, q.Task, envelope(s, t, q.Task))
}

// EncodePresence returns the record of a beat in <ns>.presence.
func EncodePresence(p Presence, s Subject) (Record, error) {
	r, err := encode(p, p.Kind+"/"+p.Instance, envelope(s, TypePresence, p.Instance))
	return r, err
}

// DecodePresence reads a beat.
func DecodePresence(r *Record) (Presence, error) {
	var p Presence
	if _, err := decode(r, TypePresence, &p); err != nil {
		return Presence{}, err
	}
	return p, nil
}

func envelope(s Subject, kind, subject string) Envelope {
	return Envelope{ID: s.ID, Source: s.Source, Type: kind, Time: s.Time.String(), Subject: subject, Traceparent: s.Traceparent}
}

func encode(v any, key string, e Envelope, extra ...Header) (Record, error) {
	b, err := Marshal(v)
	if err != nil {
		return Record{}, err
	}
	return Record{Key: []byte(key), Value: b, Headers: seal(e, extra...)}, nil
}

func decode(r *Record, kind string, v any) (Envelope, error) {
	e, data, err := Open(r)
	if err != nil {
		return e, err
	}
	if e.Type != "" && e.Type != kind {
		return e, fmt.Errorf("ce_type is %q, not %q", e.Type, kind)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return e, fmt.Errorf("read %s: %w", kind, err)
	}
	return e, nil
}

// EncodeAlert returns the record of an alert about a task, or about the partition where task is empty.
func EncodeAlert(alert any, task string, s Subject) (Record, error) {
	return encode(alert, task, envelope(s, TypeAlert, task))
}
