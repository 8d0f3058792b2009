package events

import (
	"encoding/json"
	"fmt"
	"math"
)

// DecodeWork reads a work request. It errors on what no agent can work on: bad JSON, or no task, step or attempt.
// The request shares no bytes with the record, which may be a slice of all that was fetched with it.
func DecodeWork(r *Record) (Work, Envelope, error) {
	e, data, err := openAs(r, TypeWork)
	if err != nil {
		return Work{}, e, err
	}
	w, err := readWork(data)
	if err != nil {
		return Work{}, e, fmt.Errorf("read %s: %w", TypeWork, err)
	}
	if w.Task == "" || w.Step == "" || w.Attempt < 1 || (w.Operation != Do && w.Operation != Undo) {
		return Work{}, e, fmt.Errorf("work request without task, step, operation or attempt")
	}
	return w, e, nil
}

func readWork(data []byte) (Work, error) {
	var w Work
	r := read(data)
	if r.work(&w); r.done() {
		return w, nil
	}
	var any Work
	err := json.Unmarshal(data, &any)
	return any, err
}

func (r *reader) work(w *Work) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "task":
			n = 0
			r.text(&w.Task)
		case "run":
			n, w.Run = 1, r.number()
		case "workflow":
			n = 2
			r.text(&w.Workflow)
		case "version":
			n, w.Version = 3, r.number()
		case "step":
			n = 4
			r.text(&w.Step)
		case "agent":
			n = 5
			r.text(&w.Agent)
		case "operation":
			n, w.Operation = 6, Operation(r.word())
		case "attempt":
			n, w.Attempt = 7, r.number()
		case "idempotency_key":
			n = 8
			r.text(&w.IdempotencyKey)
		case "complete_by":
			n, w.CompleteBy = 9, r.instant()
		case "input":
			n, w.Input = 10, r.raw()
		case "output":
			n, w.Output = 11, r.raw()
		case "home":
			home := r.number()
			if home < math.MinInt32 || home > math.MaxInt32 {
				r.doubt()
			}
			n, w.Home = 12, int32(home)
		case "ticket":
			n = 13
			r.text(&w.Ticket)
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}

// DecodeReport reads the data of a report, as Open returns it; its error is that of encoding/json. Output and the detail
// of the error are slices of data.
func DecodeReport(data []byte) (Report, error) {
	var p Report
	r := read(data)
	if r.report(&p); r.done() {
		return p, nil
	}
	var any Report
	err := json.Unmarshal(data, &any)
	return any, err
}

func (r *reader) report(p *Report) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "task":
			n = 0
			r.text(&p.Task)
		case "run":
			n, p.Run = 1, r.number()
		case "step":
			n = 2
			r.text(&p.Step)
		case "operation":
			n, p.Operation = 3, Operation(r.word())
		case "attempt":
			n, p.Attempt = 4, r.number()
		case "ticket":
			n = 5
			r.text(&p.Ticket)
		case "result":
			n, p.Result = 6, Result(r.word())
		case "output":
			n, p.Output = 7, r.span()
		case "error":
			p.Error = new(Error)
			r.failure(p.Error)
			n = 8
		case "effect":
			n, p.Effect = 9, Effect(r.word())
		case "retry_after":
			n, p.RetryAfter = 10, r.duration()
		case "instance":
			n = 11
			r.text(&p.Instance)
		case "started_at":
			n, p.StartedAt = 12, r.instant()
		case "finished_at":
			n, p.FinishedAt = 13, r.instant()
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}

// failure reads an error. Its detail is a slice of what is read.
func (r *reader) failure(f *Error) {
	var seen uint64
	for ok := r.begin('{'); ok; ok = r.more('{') {
		n := 0
		switch string(r.name()) {
		case "class":
			n, f.Class = 0, Class(r.word())
		case "code":
			n = 1
			r.text(&f.Code)
		case "message":
			n = 2
			r.text(&f.Message)
		case "detail":
			n, f.Detail = 3, r.span()
		default:
			r.doubt()
		}
		r.once(&seen, n)
	}
}
