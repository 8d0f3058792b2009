package events

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// Subject holds the attributes of our CloudEvents besides their data.
type Subject struct {
	// ID is the ce_id: unique to the meaning of the record, and the same when it is sent again.
	ID          string
	Source      string
	Time        Instant
	Traceparent string
}

// EncodeWork returns the record of a work request. Topic and Partition are left to the caller.
func EncodeWork(work Work, s Subject) (Record, error) {
	if s.Time != 0 && work.CompleteBy != 0 && work.CompleteWithin.Std() == work.CompleteBy.Sub(s.Time) {
		work.CompleteWithin = 0 // as DecodeWork finds it
	}
	w := newRecordWriter(work.size()+attributeBytes(s)+len(work.Task), attributeCount(s))
	if work.write(&w.Writer); w.Odd {
		if err := w.Marshalled(0, work); err != nil {
			return Record{}, err
		}
	}
	value := len(w.B)
	w.Literal(s.ID)
	w.attributes(s, bytesWork)
	return w.record(work.Task, value), nil
}

// DecodeWork reads a work request. It returns an error for a request that no agent can work on: bad JSON, or no task, step or
// attempt. The request shares no bytes with the record, which may be part of a larger fetch.
func DecodeWork(r *Record) (Work, Envelope, error) {
	e, data, err := openAs(r, TypeWork)
	if err != nil {
		return Work{}, e, err
	}
	var w Work
	text := jsontext.NewReader(data)
	if w.read(&text); !text.Done() {
		w = Work{}
		if err := json.Unmarshal(data, &w); err != nil {
			return Work{}, e, fmt.Errorf("read %s: %w", TypeWork, err)
		}
	}
	if at, err := ParseInstant(e.Time); w.CompleteWithin == 0 && w.CompleteBy != 0 && err == nil && at != 0 {
		w.CompleteWithin = Duration(w.CompleteBy.Sub(at))
	}
	if w.Task == "" || w.Step == "" || w.Attempt < 1 || (w.Operation != Do && w.Operation != Undo) {
		return Work{}, e, fmt.Errorf("work request without task, step, operation or attempt")
	}
	return w, e, nil
}

// EncodeReport returns the record of a result, without what its key and its ce_time say. It goes to partition Work.Home of <ns>.reports.
func EncodeReport(p Report, s Subject) (Record, error) {
	key := p.Task
	if p.Task = ""; p.FinishedAt == s.Time {
		p.FinishedAt = 0
	}
	w := newRecordWriter(p.size()+attributeBytes(s)+len(key), attributeCount(s))
	if p.write(&w.Writer); w.Odd {
		if err := w.Marshalled(0, p); err != nil {
			return Record{}, err
		}
	}
	value := len(w.B)
	w.Literal(s.ID)
	w.attributes(s, bytesReport)
	return w.record(key, value), nil
}

// DecodeReport reads the data of a report, as Open returns it; its error comes from encoding/json. What the record says besides the data
// is left to the caller: the task, by its key, and the time at which the attempt finished, by its ce_time. Output and the detail of the
// error are slices of data.
func DecodeReport(data []byte) (Report, error) {
	var p Report
	r := jsontext.NewReader(data)
	r.Raws = jsontext.ShareRaws
	if p.read(&r); r.Done() {
		return p, nil
	}
	p = Report{}
	err := json.Unmarshal(data, &p)
	return p, err
}

// EncodeRequest returns the record of an operator's request, for the home partition of its task in <ns>.reports.
func EncodeRequest(q Request, s Subject) (Record, error) {
	return encode(q, q.Task, q.Kind.Type(), q.Task, s)
}

// EncodePresence returns the record of a heartbeat in <ns>.presence.
func EncodePresence(p Presence, s Subject) (Record, error) {
	return encode(p, p.Kind+"/"+p.Instance, TypePresence, p.Instance, s)
}

// DecodePresence reads a heartbeat.
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

// openAs opens a record with the given ce_type, or without one.
func openAs(r *Record, kind string) (Envelope, []byte, error) {
	e, data, err := Open(r)
	if err == nil && e.Type != "" && e.Type != kind {
		err = fmt.Errorf("ce_type is %q, not %q", e.Type, kind)
	}
	return e, data, err
}

// EncodeAlert returns the record of an alert about a task, or about the partition if task is empty.
func EncodeAlert(alert any, task string, s Subject) (Record, error) {
	return encode(alert, task, TypeAlert, task, s)
}
