package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// produceTimeout is how long an acknowledgement may take. A burst queues for a few seconds at most. After this time the
// outcome is unknown, and the client sends the input again with the same ID.
const produceTimeout = 30 * time.Second

// producer appends inputs to the log and waits for the acknowledgements.
type producer struct {
	appender Appender
	log      logger
	deadline sharedDeadline
}

// produce returns the offset of a record once it is durable.
func (p *producer) produce(client context.Context, r events.Record) (int64, error) {
	type ack struct {
		offset int64
		err    error
	}
	acks := make(chan ack, 1) // Produce calls done once
	late := p.deadline.context()
	p.appender.Produce(late, r, func(_ int32, offset int64, err error) { acks <- ack{offset, err} })
	select {
	case a := <-acks:
		if a.err == nil {
			return a.offset, nil
		}
		if client.Err() != nil { // the client hung up; nothing here failed
			return 0, unavailableProblem()
		}
		return 0, p.unavailable(a.err)
	case <-client.Done():
		return 0, unavailableProblem()
	case <-late.Done():
		return 0, p.unavailable(context.DeadlineExceeded)
	}
}

func (p *producer) unavailable(err error) *Problem {
	p.log.Warn("the log did not acknowledge an input", "error", err)
	return unavailableProblem()
}

func unavailableProblem() *Problem {
	return problem(http.StatusServiceUnavailable, codeUnavailable,
		"The log did not acknowledge it in time, but may hold it. Send it again with the same ID: a repeat is safe.").
		retryAfter(time.Second)
}

// sharedDeadline makes the contexts of records that are being appended. Records sent within a second share one, since a
// context and a timer for each record cost as much as reading a submission.
type sharedDeadline struct {
	mu sync.Mutex
	// mu guards the fields below.
	shared context.Context
	until  time.Time
}

// deadlineStep is how much earlier than produceTimeout such a context may end.
const deadlineStep = time.Second

// context returns a context that ends after produceTimeout or a little earlier.
func (d *sharedDeadline) context() context.Context {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shared == nil || now.After(d.until) {
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(produceTimeout, func() { cancel(context.DeadlineExceeded) })
		d.shared, d.until = ctx, now.Add(deadlineStep)
	}
	return d.shared
}
