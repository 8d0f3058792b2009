package agent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
)

// reporter sends the reports of one lane.
type reporter struct {
	sink            Sink
	topic, instance string
	// agent is the lane's agent, source what reports of it name as their source, and suffix ends their IDs.
	agent, source string
	suffix        []byte
}

func newReporter(c *Config, agent string) *reporter {
	return &reporter{
		sink: c.Sink, topic: c.Namespace + ".reports", instance: c.Instance,
		agent: agent, source: sourceOf(agent, c.Instance), suffix: append(appendText([]byte{','}, c.Instance), ']'),
	}
}

func sourceOf(agent, instance string) string { return "sagalog/agent/" + agent + "/" + instance }

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
	r.sink.Produce(&q.report, record, done)
}

func (r *reporter) record(p report) (events.Record, error) {
	q := p.request
	w := &q.work
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
	source := r.source
	if q.work.Agent != r.agent {
		source = sourceOf(q.work.Agent, r.instance)
	}
	return events.Subject{ID: r.id(&q.work), Source: source, Time: events.At(at), Traceparent: q.traceparent}
}

// id is the task, and what else makes an attempt, with the instance, as JSON.
func (r *reporter) id(w *events.Work) string {
	var room [256]byte
	b := append(room[:0], w.Task...)
	b = strconv.AppendInt(append(b, '['), int64(w.Run), 10)
	b = appendText(append(b, ','), w.Step)
	b = appendText(append(b, ','), string(w.Operation))
	b = strconv.AppendInt(append(b, ','), int64(w.Attempt), 10)
	return string(append(b, r.suffix...))
}

// appendText appends a string as events.Marshal encodes it: most are names of letters, digits and some signs, which stand
// for themselves.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, mustMarshal(s)...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// retryAfterMax bounds what a remote service may ask of the engine; a day is beyond every deadline that makes sense,
// and a garbled header must not park a task for years.
const retryAfterMax = 24 * time.Hour
