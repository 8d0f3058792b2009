package api

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// letterFirst is how long a read that waits for an unknown task waits before it looks among the dead letters for the second time: a dead
	// letter is written shortly after its fact. The time doubles with each look, because a look reads up to deadKeyRoom.
	letterFirst = 500 * time.Millisecond
	// letterWithin bounds a look. The task may become known and end meanwhile.
	letterWithin = time.Second
	// lettersOfKey is how many dead letters of a key a look takes. A task that is not known may have rejected requests, too.
	lettersOfKey = 10
)

// awaitKnown is awaitEnd for a task that may not be known. It returns early with the problem that the submission was rejected, if that is
// certain: all submissions that its partition held were judged, the task is still unknown, and nobody has dealt with the dead letter.
func (s *tasks) awaitKnown(ctx context.Context, id string, wait time.Duration) (*events.Task, error) {
	waiting, cancel := s.life.until(ctx)
	defer cancel()
	waiting, done := context.WithTimeout(waiting, max(0, wait))
	defer done()
	until, _ := waiting.Deadline()
	for step := time.Duration(0); ; step = max(letterFirst, 2*step) {
		t, err := s.awaitEnd(ctx, id, min(step, time.Until(until)))
		switch {
		case err != nil || atRest(t):
			return t, err
		case t != nil:
			return s.awaitEnd(ctx, id, time.Until(until))
		case s.documents.past:
			return nil, nil
		}
		if waiting.Err() != nil {
			return nil, s.unknown(ctx, id)
		}
		if d := s.refused(waiting, id); d != nil {
			return nil, orUnknown(d)
		}
	}
}

// unknown is the problem of a read whose time is over.
func (s *tasks) unknown(ctx context.Context, id string) *Problem {
	within, cancel := context.WithTimeout(ctx, letterWithin)
	defer cancel()
	return orUnknown(s.letters.ofSubmission(within, id))
}

// refused returns the dead letter with which the submission of an unknown task has ended; nil if that is not certain. A submission that was
// not judged yet may be accepted, and so may the copy of a dead letter that somebody has dealt with.
func (s *tasks) refused(ctx context.Context, id string) *DeadLetterDocument {
	within, cancel := context.WithTimeout(ctx, letterWithin)
	defer cancel()
	if s.inputs.CatchUp(within, events.Submissions, events.Home(id, s.partitions)) != nil {
		return nil
	}
	if t, err := s.tasks.Task(within, id); err != nil || t != nil {
		return nil // awaitKnown finds it
	}
	if d := s.letters.ofSubmission(within, id); d != nil && d.Mark == nil {
		return d
	}
	return nil
}

// ofSubmission returns the newest rejected submission whose record has this key; nil if no such letter is found, or if the brokers do not answer.
func (s *deadLetters) ofSubmission(ctx context.Context, key string) *DeadLetterDocument {
	list, err := s.list(ctx, &DeadLetterQuery{Key: key, Limit: lettersOfKey})
	if err != nil {
		return nil
	}
	for i := range list.Body.DeadLetters {
		if d := &list.Body.DeadLetters[i]; strings.HasPrefix(d.ID, string(events.Submissions)+"-") {
			return d
		}
	}
	return nil
}

// orUnknown is the problem that a task is not known, with what the dead letter of its submission says.
func orUnknown(d *DeadLetterDocument) *Problem {
	p := taskNotFound()
	if d == nil {
		return p
	}
	why := "No task with this ID is known: its submission was rejected as " + d.Reason
	if d.Time != 0 {
		why += " at " + d.Time.String()
	}
	p.Detail = events.Sentence(why + detail(d.Detail))
	if d.Mark != nil {
		p.Detail += " The dead letter is " + d.Mark.Mark + "."
	}
	p.Detail += " GET /v1/dead-letters/" + d.ID + " shows it, and POST /v1/dead-letters/" + d.ID + "/redrive sends it again once the cause is removed."
	p.Reason, p.Letter = d.Reason, d.ID
	return p
}

// lettersOf is the query that shows the dead letters of a task.
func lettersOf(task string) string { return "GET /v1/dead-letters?key=" + url.QueryEscape(task) }
