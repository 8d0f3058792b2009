package agent

import (
	"time"

	"github.com/sagalog/sagalog/events"
)

// take accepts what a poll has brought: bad requests, expired ones and twins of what is held go no further.
func (l *lane) take(records []events.Record) {
	if len(records) == 0 {
		return
	}
	// Before anything else: the next question is one that is asked behind the reading.
	after, now := l.proof.last(), time.Now()
	var from Assigned
	read := make([]arrival, 0, len(records))
	for i := range records {
		r := &records[i]
		if r.Control {
			continue
		}
		// The records of a partition lie together, and all that a poll brings was read under one assignment of it.
		if i == 0 || records[i-1].Partition != r.Partition || records[i-1].Control {
			from = l.source.Assigned(r.Partition)
			if l.marks.adopt(r.Partition, from) && from.Lost {
				l.log.Warn("work requests were lost; those that took their place are worked on, some perhaps a second time",
					"agent", l.agent.name, "partition", r.Partition, "offset", from.LostFrom)
			}
		}
		read = append(read, l.decode(r, place{r.Partition, from.Mark.Assignment, r.Offset}, after))
	}
	l.enlist(read, now)
	for i := range read {
		l.note(&read[i])
	}
}

// arrival is a record that was read, and why it goes no further if it does not.
type arrival struct {
	at      place
	request *request
	// decided is the owner's time of the request.
	decided string
	dropped string
}

// decode reads a record. One that cannot be read has no request.
func (l *lane) decode(r *events.Record, at place, after int64) arrival {
	w, envelope, err := events.DecodeWork(r)
	if err != nil {
		l.log.Warn("a work request cannot be read and is dropped", "agent", l.agent.name,
			"partition", r.Partition, "offset", r.Offset, "error", err)
		return arrival{at: at, dropped: dropInvalid}
	}
	q := &request{
		work: w, traceparent: traceparentOr(envelope.Traceparent), by: w.CompleteBy.Time(), first: [1]place{at}, after: after,
	}
	q.places = q.first[:]
	return arrival{at: at, request: q, decided: envelope.Time}
}

// enlist holds what is to be worked on. That an offset is begun and that its attempt is held is one step: between the two
// a request that ends would be taken for one that was never there.
func (l *lane) enlist(read []arrival, now time.Time) {
	l.mu.Lock()
	for i := range read {
		a := &read[i]
		switch q := a.request; {
		case q == nil:
			l.marks.begin(a.at, time.Time{})
			l.marks.finish(a.at)
		case !l.marks.begin(a.at, q.by):
			a.dropped = dropDuplicate
		case !now.Before(q.by):
			a.dropped = dropExpired
			l.marks.finish(a.at)
		default:
			if l.joins(q) {
				// A twin of what is spent ends here, any other together with the one that is held.
				a.dropped = dropDuplicate
				continue
			}
			l.unproven = append(l.unproven, q)
		}
	}
	l.ripen() // the answer may have come while they were decoded
	l.mu.Unlock()
}

// note counts what goes no further.
func (l *lane) note(a *arrival) {
	switch {
	case a.dropped == "":
	case a.request == nil:
		l.metrics.drop("", a.dropped)
	default:
		l.metrics.drop(a.request.work.Operation, a.dropped)
		if a.dropped == dropExpired {
			l.sayExpired(&a.request.work, a.decided)
		}
	}
}

// sayExpired tells now and then that requests were over when they came. Behind an outage that is as it should be; where the
// clocks of two machines disagree no work would ever be done, and nothing else would say why.
func (l *lane) sayExpired(w *events.Work, decided string) {
	if time.Since(l.saidExpired) < expiredEvery {
		return
	}
	l.saidExpired = time.Now()
	l.log.Warn("a work request was over when it came and is dropped: it waited too long, or this machine's clock is ahead of its owner's",
		"agent", l.agent.name, "task", w.Task, "step", w.Step, "attempt", w.Attempt,
		"decided_by_owners_clock", decided, "complete_by", w.CompleteBy, "here_it_is", events.At(time.Now()))
}

// joins tells whether the same attempt is held already; then it ends together with that. Otherwise q is held now. mu is held.
func (l *lane) joins(q *request) bool {
	id := q.id()
	if _, spent := l.spent[id]; spent {
		for _, at := range q.places {
			l.marks.finish(at)
		}
		return true
	}
	if twin := l.flying[id]; twin != nil {
		twin.places, twin.after = append(twin.places, q.places...), q.after
		return true
	}
	l.flying[id] = q
	l.held++
	return false
}
