package api

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

const (
	// letterFirst is how long a read that waits for an unknown task waits before it looks among the dead letters for the second time: a dead
	// letter is written shortly after its fact. The time doubles with each look, because a look reads up to deadKeyRoom.
	letterFirst = 500 * time.Millisecond
	// letterWithin bounds a look. The task may become known and end meanwhile.
	letterWithin = time.Second
	// lettersOfKey is how many dead letters of a key a look takes: requests about an unknown task are rejected, too.
	lettersOfKey = 10
	// looksAtOnce bounds the memory of all looks. Without a free place, a look finds nothing.
	looksAtOnce = 4
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
		over := waiting.Err() != nil
		if over && s.life.stopping.Err() != nil {
			return nil, nil // all waits end now
		}
		d, known := s.letterOf(ctx, id)
		switch {
		case known: // awaitEnd finds it
		case d != nil && (d.Mark == nil || over):
			return nil, rejectedSubmission(d)
		}
		if over && !known {
			return nil, nil
		}
	}
}

// letterOf returns the dead letter with which the last submission of an unknown task has ended, nil if that is not certain, and whether the task is known
// by now. A submission that was not judged yet may be accepted, and so may the copy of a dead letter that somebody has dealt with.
func (s *tasks) letterOf(ctx context.Context, id string) (d *DeadLetterDocument, known bool) {
	within, cancel := context.WithTimeout(ctx, letterWithin)
	defer cancel()
	if s.inputs.CatchUp(within, events.Submissions, events.Home(id, s.partitions)) != nil {
		return nil, false
	}
	if t, err := s.tasks.Task(within, id); err != nil || t != nil {
		return nil, t != nil
	}
	return s.letters.ofSubmission(within, id), false
}

// ofSubmission returns the newest rejected submission of a task, as far as a look reads; nil also if the brokers do not answer.
func (s *deadLetters) ofSubmission(ctx context.Context, id string) *DeadLetterDocument {
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
	default:
		return nil
	}
	tails, err := s.tails(ctx, "")
	if err != nil {
		return nil
	}
	home := events.Home(id, s.cfg.Partitions)
	tails = slices.DeleteFunc(tails, func(t *deadTail) bool { return t.Input != events.Submissions || t.Partition != home })
	list, err := s.merged(ctx, &DeadLetterQuery{Key: id, Limit: lettersOfKey}, tails)
	if err != nil {
		return nil
	}
	for i := range list.Body.DeadLetters {
		d := &list.Body.DeadLetters[i]
		if kind := d.Headers[events.HeaderType]; kind == "" || kind == events.TypeSubmission { // cancels and signals come in the same topic
			return d
		}
	}
	return nil
}

// rejectedSubmission is the problem that a task is not known, with what the dead letter of its submission says.
func rejectedSubmission(d *DeadLetterDocument) *Problem {
	p := taskNotFound()
	why := "No task with this ID is known: its submission was rejected as " + d.Reason
	if d.Time != 0 {
		why += " at " + d.Time.String()
	}
	p.Detail = events.Sentence(why + detail(d.Detail))
	if d.Mark != nil {
		p.Detail += " The dead letter is " + d.Mark.Mark + "."
	}
	p.Detail += " GET /v1/dead-letters/" + d.ID + " shows it, and POST /v1/dead-letters/" + d.ID + "/redrive sends it again after you have fixed the cause."
	p.Reason, p.Letter = d.Reason, d.ID
	return p
}

// lettersOf is the query that shows the dead letters of a task.
func lettersOf(task string) string { return "GET /v1/dead-letters?key=" + url.QueryEscape(task) }
