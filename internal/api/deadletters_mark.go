package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// DismissBody is the body of the call that dismisses a dead letter.
type DismissBody struct {
	Reason string `json:"reason,omitempty" doc:"Why it needs no further action"`
	Task   string `json:"task,omitempty" doc:"The task that was submitted in its place; the mark is redriven then"`
	By     string `json:"by,omitempty" doc:"Who dismisses it, for the record"`
}

// MarkBody is the body of the calls that redrive and reopen a dead letter.
type MarkBody struct {
	Reason string `json:"reason,omitempty" doc:"Why, for the record"`
	By     string `json:"by,omitempty" doc:"Who does it, for the record"`
}

func (s *deadLetters) registerMarks(api huma.API, tags []string) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "dismiss-dead-letter", Method: http.MethodPost, Path: dismissPath, Summary: "Mark a rejected input as needing no further action", Tags: tags,
		Description: "Lists with open=true leave it out. It stays in its topic for as long as that keeps it, and can still be redriven. " +
			"If it already has a mark, that stays, unless the request names a task. The mark is durable when the call is answered; other nodes follow within moments. " +
			"The answer leaves out the value and the headers. A namespace remembers the latest 100,000 marks.",
	}), s.dismiss)
	optionalBody[DismissBody](api, dismissPath, map[string]any{"reason": "a test of the sender", "by": "anna"})
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "reopen-dead-letter", Method: http.MethodPost, Path: reopenPath, Summary: "Remove the mark of a rejected input", Tags: tags,
		Description: "Lists with open=true show it again. An input that was sent again is not recalled. The answer leaves out the value and the headers.",
	}), s.reopen)
	optionalBody[MarkBody](api, reopenPath, map[string]any{"reason": "dismissed by mistake", "by": "anna"})
}

func (s *deadLetters) dismiss(ctx context.Context, in *DeadLetterPath) (*DeadLetterAnswer, error) {
	x := exchangeOf(ctx)
	var body DismissBody
	if err := x.readTexts("a dismissal", "The dead letter is left as it is.", map[string]memberText{
		"reason": {&body.Reason, maxReason}, "task": {&body.Task, events.MaxTaskID}, "by": {&body.By, events.MaxTaskID},
	}); err != nil {
		return nil, err
	}
	ref, r, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if body.Task == "" && s.letters.LetterMark(ref.String(), r.Timestamp) != nil {
		return s.marked(ref, r), nil
	}
	m := events.DeadLetterMark{Letter: ref.String(), Written: r.Timestamp, Mark: events.MarkDismissed, Reason: body.Reason, By: x.by(body.By)}
	if body.Task != "" {
		m.Mark, m.Task, m.Offset = events.MarkRedriven, body.Task, -1
	}
	return s.mark(ctx, ref, r, m)
}

func (s *deadLetters) reopen(ctx context.Context, in *DeadLetterPath) (*DeadLetterAnswer, error) {
	x := exchangeOf(ctx)
	var body MarkBody
	if err := x.readTexts("a reopening", "The dead letter is left as it is.", map[string]memberText{"reason": {&body.Reason, maxReason}, "by": {&body.By, events.MaxTaskID}}); err != nil {
		return nil, err
	}
	ref, r, err := s.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if s.letters.LetterMark(ref.String(), r.Timestamp) == nil {
		return s.marked(ref, r), nil
	}
	return s.mark(ctx, ref, r, events.DeadLetterMark{Letter: ref.String(), Written: r.Timestamp, Reason: body.Reason, By: x.by(body.By)})
}

func (s *deadLetters) mark(ctx context.Context, ref deadRef, r *events.Record, m events.DeadLetterMark) (*DeadLetterAnswer, error) {
	if err := s.letters.MarkLetter(ctx, m); errors.Is(err, ErrNoAnswer) {
		return nil, repeatProblem()
	} else if err != nil {
		return nil, s.log.internal(ctx, "mark a dead letter", err)
	}
	return s.marked(ref, r), nil
}

// marked answers a mark. Many may be marked, and each letter may be large.
func (s *deadLetters) marked(ref deadRef, r *events.Record) *DeadLetterAnswer {
	d := s.document(ref, r)
	d.Value, d.Base64, d.Headers = nil, nil, nil
	return &DeadLetterAnswer{Body: d}
}

// markWithin bounds how long the mark of an input that was sent may take.
const markWithin = 5 * time.Second

// redriven marks a dead letter that was sent again. That it was is no secret if the mark fails: its task says so.
func (s *deadLetters) redriven(ctx context.Context, m events.DeadLetterMark) {
	m.Mark = events.MarkRedriven
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markWithin) // who asked may be gone, and the input is sent
	defer cancel()
	if err := s.letters.MarkLetter(ctx, m); err != nil {
		s.log.WarnContext(ctx, "a dead letter was sent again, and could not be marked", "letter", m.Letter, "error", err)
	}
}
