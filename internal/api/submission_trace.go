package api

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Traces makes spans.
type Traces interface {
	// Submission begins the span of a submission whose client sent the given trace context, which may be missing or malformed. It returns
	// the trace context for the record, and a function that ends the span with the status of the answer.
	Submission(sent string, since time.Time) (trace string, end func(task, workflow string, status int))
}

// traced is accept with a span.
func (s *submissions) traced(ctx context.Context, x exchange, d *draft, sent string) (*ReceiptAnswer, error) {
	trace, end := s.traces.Submission(sent, s.now())
	a, err := s.accept(ctx, x, d, trace)
	var p *Problem
	switch {
	case err == nil:
		end(d.id, d.workflow(), a.Status)
	case errors.As(err, &p):
		end(d.id, d.workflow(), p.Status)
	default:
		end(d.id, d.workflow(), http.StatusInternalServerError)
	}
	return a, err
}

// workflow returns the name of the submission's workflow, "" if it could not be read.
func (d *draft) workflow() string {
	if d.submission == nil {
		return ""
	}
	return d.submission.Workflow
}

// tracedLines gives the records of a bulk submission the contexts of their own spans, and returns acknowledge with the ends of these spans.
func (b *bulkRun) tracedLines(h submissionHeader, acknowledge func(int, int32, int64, error)) func(int, int32, int64, error) {
	now := b.s.now()
	ends := make([]func(status int), len(b.drafts))
	for i := range b.drafts {
		d := &b.drafts[i]
		trace, end := b.s.traces.Submission(b.trace, now)
		task, workflow := d.id, d.workflow() // the draft is used again
		ends[i] = func(status int) { end(task, workflow, status) }
		h.trace = []byte(trace)
		b.records = append(b.records, b.s.record(d, h))
	}
	return func(i int, partition int32, offset int64, err error) {
		status := http.StatusAccepted
		if err != nil {
			status = http.StatusServiceUnavailable
		}
		ends[i](status)
		acknowledge(i, partition, offset, err)
	}
}
