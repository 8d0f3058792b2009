package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

// reporter sends the reports of one lane.
type reporter struct {
	sink     Sink
	topic    string
	instance string
}

// report is what is known when an attempt has ended.
type report struct {
	request *request
	try     try
	began   time.Time
	ended   time.Time
}

func (t try) result() string {
	if t.failure != nil {
		return string(t.failure.Class)
	}
	return resultCompleted
}

// send produces a report; done is called once, perhaps before send returns. Past the complete-by time the record is
// given up where the client still can.
func (r *reporter) send(p report, done func(error)) {
	q := p.request
	record, err := r.record(p)
	if err != nil {
		done(err)
		return
	}
	ctx, cancel := context.WithDeadlineCause(context.Background(), q.by, ErrCompleteBy)
	r.sink.Produce(ctx, record, func(err error) {
		cancel()
		done(err)
	})
}

func (r *reporter) record(p report) (events.Record, error) {
	q := p.request
	w := q.work
	e := events.Report{
		Task: w.Task, Run: w.Run, Step: w.Step, Operation: w.Operation, Attempt: w.Attempt, Ticket: w.Ticket,
		Result: events.ResultCompleted, Output: p.try.output, Instance: r.instance,
		StartedAt: events.At(p.began), FinishedAt: events.At(p.ended),
	}
	if f := p.try.failure; f != nil {
		e.Result, e.Output = events.ResultFailed, nil
		e.Error, e.Effect = f.report(), f.Effect
		e.RetryAfter = events.Duration(min(f.RetryAfter, retryAfterMax).Truncate(time.Millisecond))
	}
	record, err := events.EncodeReport(e, r.subject(q, p.ended))
	if err != nil {
		return events.Record{}, fmt.Errorf("encode report: %w", err)
	}
	record.Topic, record.Partition = r.topic, w.Home
	return record, nil
}

// subject names the report. The ID is that of the attempt's outcome from this instance: the same when it is sent again.
func (r *reporter) subject(q *request, at time.Time) events.Subject {
	id, err := events.Marshal([]any{q.work.Run, q.work.Step, q.work.Operation, q.work.Attempt, r.instance})
	if err != nil {
		panic("agent: strings and numbers do not encode: " + err.Error())
	}
	return events.Subject{
		ID: q.work.Task + string(id), Source: "sagalog/agent/" + q.work.Agent + "/" + r.instance,
		Time: events.At(at), Traceparent: q.traceparent,
	}
}

// retryAfterMax bounds what a remote service may ask of the engine; a day is beyond every deadline that makes sense,
// and a garbled header must not park a task for years.
const retryAfterMax = 24 * time.Hour
