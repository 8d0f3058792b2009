package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/agent/internal/offsets"
	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/internal/traceparent"
)

// pollPause is the wait after a failed poll. The source's client has its own, shorter retries.
const pollPause = time.Second

// expiredEvery is the shortest time between two warnings about late requests.
const expiredEvery = 10 * time.Second

// readLoop polls whenever there is room.
func (c *consumer) readLoop(stop context.Context) error {
	for {
		free := c.pool.waitRoom(stop)
		if free == 0 {
			return nil
		}
		records, err := c.source.Poll(stop, free)
		c.receive(records)
		switch {
		case stop.Err() != nil:
			return nil
		case errors.Is(err, transport.ErrClosed):
			return fmt.Errorf("poll work requests of agent %s: %w", c.agent.name, err)
		case err != nil:
			c.log.Warn("polling work requests failed, trying again", "error", err)
			pause.For(stop, pollPause)
		}
	}
}

// arrival is a record that was read.
type arrival struct {
	at offsets.Place
	// request is nil if the record could not be decoded.
	request *request
	// decided is the owner's timestamp of the request.
	decided string
	// dropped is why the record is dropped, or empty if it is not.
	dropped string
}

// receive passes what a poll returned to the pool, and counts what is dropped.
func (c *consumer) receive(records []events.Record) {
	if len(records) == 0 {
		return
	}
	// This must come first: every later question is then asked after these records were read.
	after, now := c.ownership.lastAsked(), time.Now()
	var from transport.Assigned
	read := make([]arrival, 0, len(records))
	var stops []events.Stop
	for i := range records {
		r := &records[i]
		if r.Control {
			continue
		}
		// A poll returns the records of a partition together, and all of them were read under one assignment.
		if i == 0 || records[i-1].Partition != r.Partition || records[i-1].Control {
			from = c.source.Assigned(r.Partition)
			if c.pool.offsets.Assign(r.Partition, from) && from.Lost {
				c.log.Warn("the broker lost work requests; requests at their offsets are worked on, some perhaps a second time",
					"partition", r.Partition, "offset", from.LostFrom)
			}
		}
		at := offsets.Place{Partition: r.Partition, Assignment: from.Position.Assignment, Offset: r.Offset}
		if stop, ok := events.DecodeStop(r); ok {
			stops = append(stops, stop)
			read = append(read, arrival{at: at})
			continue
		}
		a := c.decode(r, at, after)
		c.applyClock(&a, now)
		read = append(read, a)
	}
	c.pool.add(read, now)
	for i := range stops { // now that the requests among the same records are held
		c.stopAttempt(&stops[i])
	}
	for i := range read {
		c.countDropped(&read[i])
	}
}

func (c *consumer) decode(r *events.Record, at offsets.Place, after int64) arrival {
	w, envelope, err := events.DecodeWork(r)
	if err != nil {
		c.often.Warn("a work request cannot be decoded and is dropped", "partition", r.Partition, "offset", r.Offset, "error", err)
		return arrival{at: at, dropped: dropInvalid}
	}
	q := &request{
		work: w, traceparent: traceparent.Or(envelope.Traceparent), given: traceparent.Given(envelope.Traceparent), by: w.CompleteBy.Time(), first: [1]offsets.Place{at}, after: after,
	}
	q.places = q.first[:]
	return arrival{at: at, request: q, decided: envelope.Time}
}

// applyClock sets the complete-by time of a request by this machine's clock.
func (c *consumer) applyClock(a *arrival, now time.Time) {
	q := a.request
	if q == nil {
		return
	}
	by, behind := c.clock.completeBy(&q.work, a.decided, now)
	q.by, q.work.CompleteBy = by, events.At(by)
	if behind < clockTolerance || now.Sub(c.warnedClock) < expiredEvery {
		return
	}
	c.warnedClock = now
	c.log.Warn("work requests come from the future: this machine's clock is behind their owner's, or the log's time is ahead; each request may take its complete_within, counted from when it was read",
		"behind", behind.Truncate(time.Millisecond), "task", q.work.Task, "step", q.work.Step, "attempt", q.work.Attempt,
		"decided_by_owners_clock", a.decided, "complete_within", q.work.CompleteWithin)
}

func (c *consumer) countDropped(a *arrival) {
	if a.dropped == "" {
		return
	}
	c.metrics.drop(a.dropped)
	if a.request != nil && a.dropped == dropExpired {
		c.warnExpired(&a.request.work, a.decided)
	}
}

// warnExpired occasionally logs that requests arrive after their complete-by time. That is normal after an outage. But if the
// clocks of two machines disagree, no work is ever done, and nothing else would show the reason.
func (c *consumer) warnExpired(w *events.Work, decided string) {
	if time.Since(c.warnedExpired) < expiredEvery {
		return
	}
	c.warnedExpired = time.Now()
	c.log.Warn("a work request came after its complete-by time and is dropped: it waited too long, or this machine's clock is ahead of its owner's",
		"task", w.Task, "step", w.Step, "attempt", w.Attempt,
		"decided_by_owners_clock", decided, "complete_by", w.CompleteBy, "now", events.At(time.Now()))
}
