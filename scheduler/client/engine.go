package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/sagalog/sagalog/internal/pause"
)

// Engine calls everything that a program needs of an engine's HTTP API. It is a Client too, and so submits tasks. It is safe for concurrent
// use.
//
// A call that no engine answers, or that an engine cannot answer for the moment, is made again for HTTPConfig.RetryFor, as when a node
// restarts. A call that changes something is made again only under its first ID, so it takes effect once.
//
// Errors are of this package: errors.Is finds the kind, and errors.As the *Error with what the engine said.
type Engine struct {
	*Client
	api *httpWay
}

// Open returns a client of the engine at a URL, such as http://127.0.0.1:8642. It makes no call yet.
func Open(url string) (*Engine, error) { return OpenWith(HTTPConfig{URL: url}) }

// OpenWith is Open with a token and other settings.
func OpenWith(cfg HTTPConfig) (*Engine, error) {
	w, err := newHTTPWay(cfg)
	if err != nil {
		return nil, err
	}
	return &Engine{Client: &Client{way: w}, api: w}, nil
}

func taskPath(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

// Get returns a task as the engine sees it now. ErrNotFound: no such task is known. A task that was submitted a moment ago may not be known
// yet; Accepted waits for it.
func (e *Engine) Get(ctx context.Context, id string) (*Task, error) {
	return e.read(ctx, id, reading{})
}

// Accepted returns a task once its submission has been judged: as soon as it can be read or, if the engine did not accept it, with the
// error that says why, such as ErrConflict, or ErrInvalid with the reason of the dead letter. It waits until ctx ends. The receipt is one of Submit or
// SubmitAll, over HTTP or Kafka: of the same namespace as the engine, or it waits in vain. Without a token Accepted is Get.
func (e *Engine) Accepted(ctx context.Context, r Receipt) (*Task, error) {
	return e.read(ctx, r.ID, reading{token: r.Token})
}

// Wait returns a task when it has ended or is parked; Task.State says which of them. It waits until ctx ends, across restarts of the engine.
// ErrNotFound: no such task was known for half a minute. ErrUnavailable: ctx ended first, or the engine did not answer for
// HTTPConfig.RetryFor. If ctx ended, the error says what the task was waiting for, and the task is returned as it was last seen, or nil.
func (e *Engine) Wait(ctx context.Context, id string) (*Task, error) {
	return e.wait(ctx, Receipt{ID: id})
}

// Run submits a task and waits for it as Wait does. An error is one of Submit, of Accepted or of Wait. If it is ErrUnavailable, the task may
// have been accepted: Run it again with the same ID. An ID that Submit generates is not in the error, so give one if you may repeat the call.
func (e *Engine) Run(ctx context.Context, s Submission) (*Task, error) {
	r, err := e.Submit(ctx, s)
	if err != nil {
		return nil, err
	}
	t, err := e.wait(ctx, r)
	return t, sent(err)
}

// sent returns an error of a call that has sent something: the client may have been closed since.
func sent(err error) error {
	if errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w: %s, after something was sent", ErrUnavailable, ErrClosed)
	}
	return err
}

func (e *Engine) wait(ctx context.Context, r Receipt) (*Task, error) {
	seen := time.Now() // when the task was known, or the wait began
	var last *Task
	var answered bool
	for {
		t, err := e.read(ctx, r.ID, reading{token: r.Token, wait: stepOf(ctx)})
		over := ctx.Err() != nil
		answered = answered || err == nil || errors.Is(err, ErrNotFound)
		switch {
		case err == nil && (t.State.Ended() || t.State == StateParked):
			return t, nil
		case err == nil:
			seen, last = time.Now(), t
		case over && answered && errors.Is(err, ErrUnavailable):
		case !errors.Is(err, ErrNotFound) || time.Since(seen) >= waitStep:
			return nil, err
		}
		if over || !pause.For(ctx, retryFirst) { // a node that stops answers at once, whether it knows the task or not
			return last, fmt.Errorf("%w: task %q %s: %w", ErrUnavailable, r.ID, last.standing(), context.Cause(ctx))
		}
	}
}

// stepOf is how long the next call waits: less than ctx has left, so that the engine says where the task stands before ctx ends.
func stepOf(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return waitStep
	}
	return min(waitStep, max(0, time.Until(end)*9/10).Truncate(time.Millisecond))
}

// standing says where a task stands; it is nil if no engine knew it.
func (t *Task) standing() string {
	if t == nil {
		return "is not known yet"
	}
	text := "is still " + string(t.State)
	for i, w := range t.WaitingFor {
		switch {
		case i == 0:
			text += ", waits for "
		case i == waitsShown:
			return text + " and more"
		default:
			text += ", "
		}
		text += w.Kind
		if w.For != "" {
			text += " " + w.For
		}
		if w.Step != "" {
			text += fmt.Sprintf(" (step %s)", w.Step)
		}
	}
	return text
}

// waitsShown bounds the error of a task with thousands of items.
const waitsShown = 3

// waitStep is how long one call waits: below the idle limits of common proxies.
const waitStep = 30 * time.Second

// reading says how a task is read.
type reading struct {
	// token is that of an input that has to be judged first.
	token string
	// wait is how long the engine may wait until the task is at rest.
	wait time.Duration
}

// read reads a task. An engine that has not judged the token in time answers that it is not there yet; then it is asked again until ctx ends.
func (e *Engine) read(ctx context.Context, id string, r reading) (*Task, error) {
	if err := checkTask(id); err != nil {
		return nil, err
	}
	c := call{method: http.MethodGet, path: taskPath(id), query: url.Values{}, wait: r.wait}
	if r.token != "" {
		c.query.Set("token", r.token)
	}
	if r.wait > 0 {
		c.query.Set("wait", r.wait.String())
	}
	for {
		t := &Task{}
		c.engines = func() bool { return t.ID == id && t.State != "" }
		err := e.api.insist(ctx, c, t)
		if err == nil {
			return t, nil
		}
		x, ok := errors.AsType[*Error](err)
		if !ok || x.code != codeNotYet || !pause.For(ctx, retryFirst) {
			return nil, err
		}
	}
}
