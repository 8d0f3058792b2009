package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
)

// reporter sends the reports of one agent.
type reporter struct {
	sink                    transport.Sink
	topic, instance, source string
}

func newReporter(agent string, c *Config) *reporter {
	return &reporter{sink: c.Sink, topic: c.Namespace + ".reports", instance: c.Instance, source: "agent/" + agent + "/" + c.Instance}
}

// report is the result of an attempt that has ended.
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

// send produces a report; done is called once, perhaps before send returns. After the complete-by time a record that has not
// been sent yet may be dropped.
func (r *reporter) send(p report, done func(error)) {
	q := p.request
	record, err := r.record(p)
	if err != nil {
		done(err)
		return
	}
	r.sink.Produce(&q.report, record, done)
}

// progress produces progress; done is called once, perhaps before progress returns.
func (r *reporter) progress(ctx context.Context, q *request, value json.RawMessage, done func(error)) {
	w := &q.work
	at := events.At(time.Now())
	e := events.Report{
		Task: w.Task, Run: w.Run, Step: w.Step, Operation: w.Operation, Attempt: w.Attempt, Ticket: w.Ticket,
		Result: events.ResultProgress, Progress: value, Instance: r.instance,
	}
	record, err := events.EncodeReport(e, events.Subject{ID: e.ID() + "/" + at.String(), Source: r.source, Time: at, Traceparent: q.given})
	if err != nil {
		done(fmt.Errorf("encode progress: %w", err))
		return
	}
	record.Topic, record.Partition = r.topic, w.Home
	r.sink.Produce(ctx, record, done)
}

func (r *reporter) record(p report) (events.Record, error) {
	q := p.request
	w := &q.work
	e := events.Report{
		Task: w.Task, Run: w.Run, Step: w.Step, Operation: w.Operation, Attempt: w.Attempt, Ticket: w.Ticket,
		Result: events.ResultCompleted, Output: p.try.output, Instance: r.instance,
		StartedAt: events.At(p.began), FinishedAt: events.At(p.ended),
	}
	if p.try.doubt {
		e.Effect = events.EffectInDoubt
	}
	if f := p.try.failure; f != nil {
		e.Result, e.Output = events.ResultFailed, nil
		e.Error, e.Effect = f.report(), f.Effect
		e.RetryAfter = events.Duration(f.RetryAfter.Truncate(time.Millisecond))
	}
	record, err := events.EncodeReport(e, events.Subject{ID: e.ID(), Source: r.source, Time: events.At(p.ended), Traceparent: q.given})
	if err != nil {
		return events.Record{}, fmt.Errorf("encode report: %w", err)
	}
	record.Topic, record.Partition = r.topic, w.Home
	return record, nil
}
