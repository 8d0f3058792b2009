package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

var problemReflected = reflect.TypeFor[Problem]()

// tasks answers reads of single tasks.
type tasks struct {
	tasks      Tasks
	inputs     Inputs
	rejections Rejections
	letters    *deadLetters
	documents  documents
	past       past
	partitions int32
	life       lifetime
	log        logger
}

// TaskPath is the path of a task.
type TaskPath struct {
	ID string `path:"id" doc:"The task's ID, percent-encoded"`
}

// TaskAnswer is a task.
type TaskAnswer struct{ Body TaskDocument }

// TaskQuery says whether and how long to wait.
type TaskQuery struct {
	TaskPath
	Token string `query:"token" doc:"From a submission or request: the answer is not older than that"`
	Wait  string `query:"wait" doc:"Return when the task has ended or is parked, or after this time, at most 60s" example:"5s"`
	At    string `query:"at" doc:"Read the task as it was then: an instant, or partition@offset of a fact. Not with token or wait" example:"3@1200"`
}

func (s *tasks) register(api huma.API) {
	get := needsOwner(api, huma.Operation{
		OperationID: "get-task", Method: http.MethodGet, Path: "/v1/tasks/{id}", Summary: "Read a task", Tags: []string{"tasks"},
		Description: "With a token it waits until that input has been judged, for 5 s or as long as wait says. If it has not been judged by then, the answer is 503 " +
			"with Retry-After and the code not-yet; if it was rejected, 409 or 422 with the code rejected, refused or conflict and the reason. " +
			"With wait and without a token, a task whose submission became a dead letter is answered with 404, without waiting for more, and reason and dead_letter say why and which; " +
			"if that was redriven or dismissed, only after the wait. " +
			"If the partition is taken over meanwhile, the wait continues at the next owner. " +
			"With at the answer is the task as it was after its last fact at or before that instant or offset, and the member at names that fact. " +
			"waiting_for then lacks what no fact records: agents that were missing or full, and who held the permits of limits. For a moment before " +
			"the task's first fact, or if the log no longer has its first facts, the answer is 410 with the code before-log-start.",
	})
	huma.Register(api, get, s.get)
	s.registerItems(api)
}

func checkID(id string) error {
	if err := events.CheckTaskID(id); err != nil {
		var m *events.MemberError
		errors.As(err, &m)
		return problem(http.StatusUnprocessableEntity, codeInvalid, "The task ID of the path cannot be used.",
			ProblemPlace{Parameter: "id", Message: m.Message})
	}
	return nil
}

func taskPath(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

func (s *tasks) get(ctx context.Context, in *TaskQuery) (*TaskAnswer, error) {
	if err := checkID(in.ID); err != nil {
		return nil, err
	}
	if in.At != "" {
		return s.past.get(ctx, in)
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	var tok token
	if in.Token != "" {
		if tok, err = s.awaitToken(ctx, in.ID, in.Token, wait); err != nil {
			return nil, err
		}
	}
	t, err := s.tasks.Task(ctx, in.ID)
	if err == nil && wait != nil && *wait > 0 {
		t, err = s.await(ctx, in, tok, t, *wait-time.Since(start))
	}
	if err != nil {
		return nil, s.log.internal(ctx, "read a task", err)
	}
	if in.Token != "" {
		if p := s.rejection(ctx, in.ID, tok, t); p != nil {
			return nil, p
		}
	}
	if t == nil {
		return nil, s.documents.unknownTask(in.ID)
	}
	doc, err := s.documents.of(ctx, t)
	if err != nil {
		return nil, err
	}
	doc.WaitingFor, err = s.documents.waiting(ctx, t, s.documents.look(false))
	return &TaskAnswer{Body: doc}, err
}

// await returns the task, of which t is known now, when it is at rest or the time is up. If the input of the token was rejected, nothing is worth waiting for.
func (s *tasks) await(ctx context.Context, in *TaskQuery, tok token, t *events.Task, wait time.Duration) (*events.Task, error) {
	if in.Token != "" {
		if p := s.rejection(ctx, in.ID, tok, t); p != nil {
			return nil, p
		}
	} else if t == nil {
		return s.awaitKnown(ctx, in.ID, wait)
	}
	return s.awaitEnd(ctx, in.ID, wait)
}

func taskNotFound() *Problem {
	return problem(http.StatusNotFound, codeNotFound, "No task with this ID is known.")
}

func parseWait(text string) (*time.Duration, error) {
	if text == "" {
		return nil, nil
	}
	d, err := events.ParseDuration(text)
	if err != nil || d < 0 {
		return nil, parameterProblem("wait", "is not a duration such as 5s")
	}
	w := min(d.Std(), MaxWait)
	return &w, nil
}

func parameterProblem(name, message string) *Problem {
	return problem(http.StatusUnprocessableEntity, codeInvalid, "The request has parameters that cannot be used.",
		ProblemPlace{Parameter: name, Message: message})
}

// awaitToken waits until the input of the token has been judged.
func (s *tasks) awaitToken(ctx context.Context, id, text string, wait *time.Duration) (token, error) {
	t, ok := parseToken(text)
	if !ok || t.partition >= s.partitions {
		return t, parameterProblem("token", "is not a token of this API")
	}
	if t.partition != events.Home(id, s.partitions) {
		return t, parameterProblem("token", "is not a token of this task")
	}
	if t.offset < 0 {
		return t, nil
	}
	limit := DefaultTokenWait
	if wait != nil {
		limit = *wait
	}
	ctx, cancel := s.life.until(ctx)
	defer cancel()
	bounded, done := context.WithTimeout(ctx, limit)
	defer done()
	err := s.inputs.WaitPassed(bounded, t.input, t.partition, t.offset)
	switch {
	case err == nil:
		return t, nil
	case bounded.Err() != nil:
		return t, problem(http.StatusServiceUnavailable, codeNotYet,
			"The log holds it, and its partition has not reached it yet. Ask again with the same token.").retryAfter(time.Second)
	}
	return t, s.log.internal(ctx, "wait for a token", err)
}

// rejection says why the input of a token had no effect; nil if it had one.
func (s *tasks) rejection(ctx context.Context, id string, tok token, t *events.Task) error {
	if t != nil {
		switch {
		case tok.offset < 0:
			return nil
		case tok.mark == "": // package client made it from a place, and only a rejection tells
		case tok.input == events.Submissions && t.Content == tok.mark:
			return nil // it is the accepted one, or a repeat of it
		case tok.input == events.Submissions:
			p := conflictProblem()
			p.Reason = events.RejectConflict
			return p
		}
		if known, ok := t.Request(tok.mark); ok {
			if known.Refused != "" {
				return refusedProblem(known.Refused, t.State)
			}
			return nil
		}
	}
	r, err := s.rejections.Rejection(ctx, tok.input, tok.partition, tok.offset)
	if err != nil {
		return s.log.internal(ctx, "look up a rejection", err)
	}
	if r == nil {
		return nil
	}
	status := http.StatusUnprocessableEntity
	if r.Reason == events.RejectConflict || r.Reason == events.RejectRefused {
		status = http.StatusConflict
	}
	why := events.Sentence("It was rejected: " + strings.ReplaceAll(r.Reason, "_", " ") + detail(r.Detail))
	p := problem(status, codeRejected, why+" It is among the dead letters: "+lettersOf(id)+" shows it.")
	p.Reason = r.Reason
	return p
}

func detail(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// resting says whether only an operator can change a task in that state: it has ended, or it is parked.
func resting(s events.TaskState) bool { return s.Ended() || s == events.TaskStateError }

func atRest(t *events.Task) bool { return t != nil && resting(t.State) }

// awaitEnd returns the task when it is at rest or the time is up; nil if it is not known even then.
func (s *tasks) awaitEnd(ctx context.Context, id string, wait time.Duration) (*events.Task, error) {
	waiting, cancel := s.life.until(ctx)
	defer cancel()
	waiting, done := context.WithTimeout(waiting, max(0, wait))
	defer done()
	changes, stop := s.tasks.WatchTask(id, resting)
	defer stop()
	for {
		t, err := s.tasks.Task(ctx, id)
		if err != nil || atRest(t) {
			return t, err
		}
		select {
		case <-changes:
		case <-waiting.Done():
			return s.tasks.Task(ctx, id)
		}
	}
}
