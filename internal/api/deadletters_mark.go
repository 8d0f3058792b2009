package api

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// DismissBody is the body of the call that dismisses a dead letter.
type DismissBody struct {
	Reason string `json:"reason,omitempty" doc:"Why nothing else is done about it"`
	Task   string `json:"task,omitempty" doc:"The task that was submitted in its place: then it counts as redriven"`
	By     string `json:"by,omitempty" doc:"Who dismisses it, for the record"`
}

func (s *deadLetters) registerDismiss(api huma.API, tags []string) {
	huma.Register(api, operation(api, huma.Operation{
		OperationID: "dismiss-dead-letter", Method: http.MethodPost, Path: dismissPath, Summary: "Mark a dead letter as dealt with", Tags: tags,
		Description: "Records that nothing more is to be done about it; lists with open=true leave it out. It stays where it is, for as long as its topic keeps it, and can still be redriven. " +
			"The mark is durable when the call is answered; other nodes follow within moments. The answer has neither value nor headers. A namespace remembers 100,000 marks, and forgets the oldest for one more.",
	}), s.dismiss)
	describeBody(api, dismissPath, http.MethodPost, described{reflect.TypeFor[DismissBody](), map[string]any{"reason": "a test of the sender", "by": "anna"}, settingsBytes}, contentJSON)
	api.OpenAPI().Paths[dismissPath].Post.RequestBody.Required = false
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
	m := events.DeadLetterMark{Letter: ref.String(), Written: r.Timestamp, Mark: events.MarkDismissed, Reason: body.Reason, By: x.by(body.By)}
	if body.Task != "" {
		m.Mark, m.Task, m.Offset = events.MarkRedriven, body.Task, -1
	}
	if err := s.letters.MarkLetter(ctx, m); errors.Is(err, ErrNoAnswer) {
		return nil, problem(http.StatusServiceUnavailable, codeUnavailable, "The Kafka brokers do not answer at the moment. Ask again: repeating the request is safe.").retryAfter(time.Second)
	} else if err != nil {
		return nil, s.log.internal(ctx, "mark a dead letter", err)
	}
	d := s.document(ref, r)
	d.Value, d.Base64, d.Headers = nil, nil, nil // many may be dismissed, and each may be large
	return &DeadLetterAnswer{Body: d}, nil
}

// markWithin bounds how long the mark of an input that was sent may take.
const markWithin = 5 * time.Second

// redriven marks a dead letter that was sent again. That it was is no secret if the mark fails: its task says so.
func (s *deadLetters) redriven(ctx context.Context, m events.DeadLetterMark) {
	m.Mark, m.By = events.MarkRedriven, exchangeOf(ctx).by("")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markWithin) // who asked may be gone, and the input is sent
	defer cancel()
	if err := s.letters.MarkLetter(ctx, m); err != nil {
		s.log.WarnContext(ctx, "a dead letter was sent again, and could not be marked", "letter", m.Letter, "error", err)
	}
}
