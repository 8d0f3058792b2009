package agent

import "github.com/sagalog/sagalog/events"

// stopAttempt ends an attempt whose outcome nobody needs any more: its context is cancelled. An attempt that has not begun does not
// begin, and is reported without effect. A stop of an attempt that is not held here is ignored.
func (c *consumer) stopAttempt(s *events.Stop) {
	c.pool.mu.Lock()
	q := c.pool.inFlight[attemptID{s.Task, s.Ticket, s.Run, s.Step, s.Operation, s.Attempt}]
	c.pool.mu.Unlock()
	if q == nil {
		return
	}
	c.log.Info("an attempt is stopped", "task", s.Task, "step", s.Step, "operation", s.Operation, "attempt", s.Attempt, "reason", s.Reason)
	q.unwanted.Store(true)
	if q.begun.Load() {
		q.attempt.end()
	}
}

// begin gives the request the context of its attempt, which has ended already if nobody needs the outcome. Of begin and stopAttempt,
// one sees what the other has stored, however they interleave.
func (q *request) begin() {
	q.begun.Store(true)
	if q.unwanted.Load() {
		q.attempt.end()
	}
}
