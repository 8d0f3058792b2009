package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// produceTimeout is how long an acknowledgement may take. A burst waits in line for a few seconds at most; what took
// longer has an outcome that nobody knows, and the client sends it again with the same ID.
const produceTimeout = 30 * time.Second

// ack is what the log says of a record.
type ack struct {
	offset int64
	err    error
}

// waiter waits for one record at a time.
type waiter struct {
	// acks takes one: Produce calls done once.
	acks chan ack
	late *time.Timer
	done func(partition int32, offset int64, err error)
}

func newWaiter() any {
	w := &waiter{acks: make(chan ack, 1), late: time.NewTimer(produceTimeout)}
	w.done = func(_ int32, offset int64, err error) { w.acks <- ack{offset, err} }
	return w
}

// append returns the offset of a record once it is durable.
func (s *Server) append(client context.Context, r events.Record) (int64, error) {
	w := s.waiters.Get().(*waiter)
	w.late.Reset(produceTimeout)
	s.cfg.Appender.Produce(s.patience.context(), r, w.done)
	select {
	case a := <-w.acks:
		w.late.Stop()    // before another one takes it and sets it
		s.waiters.Put(w) // and only here: one that was left may yet be answered
		if a.err == nil {
			return a.offset, nil
		}
		if client.Err() != nil { // it hung up: nothing of ours failed
			return 0, unavailableProblem()
		}
		return 0, s.unavailable(a.err)
	case <-client.Done():
		w.late.Stop()
		return 0, unavailableProblem()
	case <-w.late.C:
		return 0, s.unavailable(context.DeadlineExceeded)
	}
}

func (s *Server) unavailable(err error) *Problem {
	s.cfg.Logger.Warn("the log did not acknowledge an input", "error", err)
	return unavailableProblem()
}

func unavailableProblem() *Problem {
	return problem(http.StatusServiceUnavailable, codeUnavailable,
		"The log did not acknowledge it in time. It may hold it all the same: send it again with the same ID, which has the effect of once.").
		retryAfter(time.Second)
}

// patience makes the contexts of records on their way. They only end the waiting for room behind which nobody waits for
// an answer any more, so what is sent within patienceStep shares one: a context and its timer for each record cost as
// much as to read a submission.
type patience struct {
	mu sync.Mutex
	// mu guards the fields below.
	shared context.Context
	until  time.Time
}

// patienceStep is how much later than produceTimeout such a context may end.
const patienceStep = time.Second

// context returns a context that ends after produceTimeout or a little later.
func (p *patience) context() context.Context {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil || now.After(p.until) {
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(produceTimeout+patienceStep, func() { cancel(context.DeadlineExceeded) })
		p.shared, p.until = ctx, now.Add(patienceStep)
	}
	return p.shared
}
