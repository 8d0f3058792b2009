package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// Problem is a problem document (RFC 9457). Its Type ends in a code by which programs tell problems apart.
type Problem struct {
	Type     string `json:"type" doc:"What kind of problem it is: urn:sagalog:problem: and a code" example:"urn:sagalog:problem:conflict"`
	Title    string `json:"title" doc:"The kind of problem in words"`
	Status   int    `json:"status" doc:"The HTTP status"`
	Detail   string `json:"detail,omitempty" doc:"What is wrong in this case, and what to do"`
	Instance string `json:"instance,omitempty" doc:"The path of the request"`
	// Reason is the reason in an InputRejected fact.
	Reason string `json:"reason,omitempty" doc:"Why the log rejected the input, for a read with a token or with wait; why a request was refused"`
	Letter string `json:"dead_letter,omitempty" doc:"The dead letter of the submission, if the task is not known because of it"`
	// State is the state of the task of a refused request.
	State      string         `json:"state,omitempty" doc:"The state of the task, if a request about it was refused"`
	Partitions []int32        `json:"partitions,omitempty" doc:"The partitions that no node answers for"`
	Errors     []ProblemPlace `json:"errors,omitempty" doc:"Each fault and its place"`

	headers http.Header
}

// ProblemPlace is one fault of a request.
type ProblemPlace struct {
	Pointer   string `json:"pointer,omitempty" doc:"JSON pointer into the body" example:"/input/ownerId"`
	Parameter string `json:"parameter,omitempty" doc:"The parameter of the URL or the header"`
	Message   string `json:"message" doc:"What is wrong there"`
	Line      int    `json:"line,omitempty" doc:"Line of the body, from 1"`
	Column    int    `json:"column,omitempty" doc:"Column of the line, from 1"`
}

const (
	problemType        = "urn:sagalog:problem:"
	contentProblem     = "application/problem+json"
	contentJSON        = "application/json"
	contentNDJSON      = "application/x-ndjson"
	contentEventStream = "text/event-stream"
)

// The codes of problems.
const (
	codeUnreadable   = "unreadable"
	codeInvalid      = "invalid"
	codeWorkflow     = "unknown-workflow"
	codeNotFound     = "not-found"
	codeMethod       = "method-not-allowed"
	codeMediaType    = "unsupported-media-type"
	codeTooLarge     = "too-large"
	codeTooSlow      = "too-slow"
	codeConflict     = "conflict"
	codeRejected     = "rejected"
	codeRefused      = "refused"
	codeNotYet       = "not-yet"
	codeUnavailable  = "unavailable"
	codeNotReady     = "not-ready"
	codeHost         = "foreign-host"
	codeCrossOrigin  = "cross-origin"
	codeInternal     = "internal"
	codePrecondition = "not-possible"
	codeTakeover     = "taking-over"
	codeStopped      = "stopped"
	codeTooMany      = "too-many"
	codeUnauthorized = "unauthorized"
	codeForbidden    = "forbidden"
	codeBeforeLog    = "before-log-start"
	codeNoKey        = "no-key"
)

// problem makes the detail end like a sentence, whatever quoted text it ends with.
func problem(status int, code, detail string, places ...ProblemPlace) *Problem {
	return &Problem{Type: problemType + code, Title: http.StatusText(status), Status: status, Detail: events.Sentence(detail), Errors: places}
}

// Code returns the last part of the type.
func (p *Problem) Code() string { return strings.TrimPrefix(p.Type, problemType) }

// Error returns the problem in one line.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// GetStatus, ContentType and GetHeaders let huma send an error as an answer.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problem documents, whatever was negotiated.
func (p *Problem) ContentType(string) string { return contentProblem }

// GetHeaders returns further headers of the answer.
func (p *Problem) GetHeaders() http.Header { return p.headers }

func (p *Problem) with(header, value string) *Problem {
	if p.headers == nil {
		p.headers = http.Header{}
	}
	p.headers.Set(header, value)
	return p
}

func (p *Problem) retryAfter(d time.Duration) *Problem {
	return p.with("Retry-After", strconv.Itoa(max(1, int(d.Round(time.Second)/time.Second))))
}

// writeProblem answers a request that does not reach huma.
func writeProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	for k, v := range p.headers {
		w.Header()[k] = v
	}
	q := *p
	if q.Instance == "" {
		q.Instance = hiddenTicket(r.URL.EscapedPath())
	}
	w.Header().Set("Content-Type", contentProblem)
	w.WriteHeader(q.Status)
	if r.Method != http.MethodHead {
		w.Write(append(encode(&q), '\n'))
	}
}

// keyRetry is how soon a client asks again that was refused for lack of a key. A node reads its key file every second.
const keyRetry = 5 * time.Second

// asProblem returns the problem with which an error is answered. The text of an error that is not a problem is meant for the log,
// not for the client.
func asProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if why, ok := errors.AsType[*events.NoKeyError](err); ok {
		return problem(http.StatusServiceUnavailable, codeNoKey, "The node lacks a key, so nothing was done: "+why.Reason+". Ask again once the key is there: repeating the request is safe.").
			retryAfter(keyRetry)
	}
	if errors.Is(err, ErrNoAnswer) {
		return problem(http.StatusServiceUnavailable, codeUnavailable, "The Kafka brokers do not answer at the moment. Ask again.").
			retryAfter(time.Second)
	}
	return problem(http.StatusInternalServerError, codeInternal, "The engine failed; its log has the error.")
}

// fromHuma rewrites huma's own answers: its documents name places differently and repeat the
// client's values.
func fromHuma(ctx huma.Context, _ string, v any) (any, error) {
	switch e := v.(type) {
	case *Problem:
		q := *e
		if q.Instance == "" {
			u := ctx.URL()
			q.Instance = hiddenTicket(u.EscapedPath())
		}
		return &q, nil
	case *huma.ErrorModel:
		p := problem(e.Status, codeInvalid, "The request has parameters that cannot be used.")
		if e.Status >= http.StatusInternalServerError {
			p = asProblem(e)
		}
		u := ctx.URL()
		p.Instance = hiddenTicket(u.EscapedPath())
		for _, d := range e.Errors {
			p.Errors = append(p.Errors, humaPlace(d))
		}
		return p, nil
	}
	return v, nil
}

func humaPlace(d *huma.ErrorDetail) ProblemPlace {
	where, name, ok := strings.Cut(d.Location, ".")
	if ok && where != "body" {
		return ProblemPlace{Parameter: name, Message: d.Message}
	}
	return ProblemPlace{Pointer: "/" + strings.ReplaceAll(name, ".", "/"), Message: d.Message}
}

// places turns the faults of a parser of events, joined, into places.
func places(err error) []ProblemPlace {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var list []ProblemPlace
		for _, e := range j.Unwrap() {
			list = append(list, places(e)...)
		}
		return list
	}
	if m, ok := errors.AsType[*events.MemberError](err); ok {
		return []ProblemPlace{{Pointer: m.Pointer, Message: m.Message}}
	}
	return []ProblemPlace{{Message: err.Error()}}
}

func faultPlaces(faults []Fault, prefix string) []ProblemPlace {
	list := make([]ProblemPlace, len(faults))
	for i, f := range faults {
		list[i] = ProblemPlace{Pointer: prefix + f.Pointer, Message: f.Message, Line: f.Line, Column: f.Column}
	}
	return list
}

// logger logs for an operator.
type logger struct{ *slog.Logger }

// known returns a task, or the problem that says it is not known.
func (l logger) known(ctx context.Context, tasks Tasks, id string) (*events.Task, error) {
	t, err := tasks.Task(ctx, id)
	if err != nil {
		return nil, l.internal(ctx, "look up a task", err)
	}
	if t == nil {
		return nil, taskNotFound()
	}
	return t, nil
}

// internal logs an error of the engine and returns the problem that the client gets. A client that hung up is not an
// error.
func (l logger) internal(ctx context.Context, act string, err error) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrNoAnswer), errors.As(err, new(*events.NoKeyError)):
		l.Warn("the API could not "+act+"; the client may ask again", "error", err)
	default:
		l.Error("the API could not "+act, "error", err)
	}
	return asProblem(err)
}

// repeatProblem answers a request whose record the brokers did not take, or of which it is not known whether they did.
func repeatProblem() *Problem {
	return problem(http.StatusServiceUnavailable, codeUnavailable, "The Kafka brokers do not answer at the moment. Ask again: repeating the request is safe.").retryAfter(time.Second)
}
