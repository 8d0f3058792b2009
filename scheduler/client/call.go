package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/pause"
)

// call is one call of the API.
type call struct {
	method, path string
	query        url.Values
	// body is of the type content; nil: no body.
	body    []byte
	content string
	// key is the ID of a request; "": the call changes nothing, or a repeat of it changes nothing.
	key string
	// wait is how long the engine may wait before it answers.
	wait time.Duration
	// engines says whether what was decoded is the answer of an engine, which any JSON object would be otherwise; nil: whoever decoded it says so.
	engines func() bool
}

// answerWithin is how long an engine may take for an answer, besides the time that it is asked to wait: a busy one answers within a second.
const answerWithin = 30 * time.Second

// insist makes a call until it has a final answer, and decodes it into v. It gives up when there was none for retryFor.
func (w *httpWay) insist(ctx context.Context, c call, v any) error {
	_, err := w.insistFor(ctx, c, v)
	return err
}

// insistFor is insist, and returns the status of the answer.
func (w *httpWay) insistFor(ctx context.Context, c call, v any) (status int, err error) {
	var end time.Time // the first call may have waited for long
	wait := retryFirst
	for {
		code, e := w.once(ctx, c, v)
		if errors.Is(e, ErrClosed) && !end.IsZero() {
			return status, err // an earlier try may have taken effect
		}
		status, err = code, e
		x, _ := errors.AsType[*Error](err)
		if err == nil || !errors.Is(err, ErrUnavailable) || x != nil && x.code == codeNotYet {
			return status, err
		}
		if end.IsZero() {
			end = time.Now().Add(w.retryFor)
		}
		if time.Now().After(end) || w.closed.Load() || !pause.For(ctx, wait/2+rand.N(wait/2)) {
			return status, err
		}
		wait = min(2*wait, retryMost)
	}
}

// call sends a call. Its answer has to come before ctx ends, and its body has to be closed.
func (w *httpWay) call(ctx context.Context, c call) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, w.base+c.path, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = c.query.Encode()
	if c.body != nil {
		req.Header.Set("Content-Type", c.content)
	}
	if c.key != "" {
		req.Header.Set("Idempotency-Key", c.key)
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	return w.client.Do(req)
}

// once makes a call once.
func (w *httpWay) once(ctx context.Context, c call, v any) (int, error) {
	target := w.base + c.path
	if w.closed.Load() {
		return 0, fmt.Errorf("%s %s: %w", c.method, target, ErrClosed)
	}
	bounded, cancel := context.WithTimeout(ctx, answerWithin+c.wait)
	defer cancel()
	resp, err := w.call(bounded, c)
	if err != nil {
		if x, ok := errors.AsType[*url.Error](err); ok { // a token in the query helps nobody
			x.URL, _, _ = strings.Cut(x.URL, "?")
		}
		return 0, unanswered(ctx, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, unanswered(ctx, fmt.Errorf("read the answer of %s %s: %w", c.method, target, err))
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return resp.StatusCode, refusal(c.method+" "+target, resp, b)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return resp.StatusCode, fmt.Errorf("%w: %s %s answered %s with a body that is not of a Sagalog engine: %w", ErrUnavailable, c.method, target, resp.Status, err)
	}
	if c.engines != nil && !c.engines() {
		return resp.StatusCode, fmt.Errorf("%w: %s %s answered %s with JSON that is not of a Sagalog engine: is the URL correct?", ErrUnavailable, c.method, target, resp.Status)
	}
	return resp.StatusCode, nil
}

// unanswered is the error of a call without an answer. The end of ctx is in it, so that errors.Is finds it.
func unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, err, cause)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// problem is a problem document of the API.
type problem struct {
	Type   string `json:"type"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Reason string `json:"reason"`
	State  State  `json:"state"`
	Errors []struct {
		Pointer   string `json:"pointer"`
		Parameter string `json:"parameter"`
		Message   string `json:"message"`
		Line      int    `json:"line"`
		Column    int    `json:"column"`
	} `json:"errors"`
}

// The codes of problems that the status alone does not show.
const (
	codeNotYet   = "not-yet"
	codeRefused  = "refused"
	codeWorkflow = "unknown-workflow"
)

// refusal is the error of an answer that is not a success.
func refusal(made string, resp *http.Response, body []byte) error {
	var p problem
	if json.Unmarshal(body, &p) != nil || p.Type == "" {
		p = problem{Detail: "the answer is not of a Sagalog engine"}
	}
	p.Status = resp.StatusCode
	e := p.asError()
	e.Call = fmt.Sprintf("%s answered %s", made, resp.Status)
	return e
}

func (p *problem) asError() *Error {
	e := &Error{Kind: p.kind(), Detail: p.Detail, Reason: p.Reason, State: p.State, code: p.code()}
	for _, x := range p.Errors {
		at := x.Pointer
		if at == "" {
			at = x.Parameter
		}
		e.Places = append(e.Places, Place{Pointer: at, Message: x.Message, Line: x.Line, Column: x.Column})
	}
	return e
}

// code returns the last part of the type.
func (p *problem) code() string { return p.Type[strings.LastIndexByte(p.Type, ':')+1:] }

// kind returns what the status means. An answer without a type is not an engine's but of a proxy in front of it, and says nothing about tasks:
// a batch that is too large for the proxy may have no submission that is.
func (p *problem) kind() error {
	if p.Type == "" {
		return ErrUnavailable
	}
	switch p.Status {
	case http.StatusUnauthorized:
		return ErrUnauthorized
	case http.StatusForbidden:
		return ErrForbidden
	case http.StatusNotFound:
		if p.code() == codeWorkflow {
			return ErrUnknownWorkflow
		}
		return ErrNotFound
	case http.StatusConflict:
		if p.code() == codeRefused || p.Reason == reasonRefused {
			return ErrRefused
		}
		return ErrConflict
	case http.StatusRequestEntityTooLarge:
		return ErrTooLarge
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return ErrUnavailable
	}
	if p.Status >= http.StatusInternalServerError {
		return ErrUnavailable
	}
	if p.Reason == events.RejectUnknownWorkflow {
		return ErrUnknownWorkflow
	}
	return ErrInvalid
}

// reasonRefused is the reason of a request that the log holds and the engine refused.
const reasonRefused = "refused"
