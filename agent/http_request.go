package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// The headers that each request carries. Values of the Sagalog headers are percent-encoded where a byte is a control
// character, a space, a percent sign or not ASCII, so that any task ID makes a valid header.
const (
	headerKey     = "Idempotency-Key"
	headerTask    = "Sagalog-Task"
	headerRun     = "Sagalog-Run"
	headerStep    = "Sagalog-Step"
	headerAttempt = "Sagalog-Attempt"
	headerTrace   = "Traceparent"
	userAgent     = "sagalog-agent/1"
)

// newClient returns a client for one binding. It keeps as many connections as there can be attempts: with the
// default of two each burst would dial anew. It follows no redirect, and uses the environment's proxy except for
// loopback (as http.ProxyFromEnvironment does).
func newClient(concurrency int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           concurrency,
			MaxIdleConnsPerHost:    concurrency,
			IdleConnTimeout:        90 * time.Second,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// operation makes one try: one request.
func (b *Binding) operation(c *call) operation {
	return func(ctx context.Context, o order) (json.RawMessage, error) {
		out, f := b.try(ctx, c, o)
		if f == nil {
			return out, nil
		}
		f.Err = errors.New(b.redact.Replace(oneLine(f.Err.Error())))
		if len(f.Detail) > 0 {
			f.Detail = json.RawMessage(b.redact.Replace(string(f.Detail)))
		}
		return nil, f
	}
}

func (b *Binding) try(ctx context.Context, c *call, o order) (json.RawMessage, *Failure) {
	outer := ctx
	if b.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.timeout)
		defer cancel()
	}
	// Whether a connection was ever had decides about the effect: without one nothing can have been sent. The error
	// alone does not tell, since the transport may send again on a second connection after a first one broke.
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, f := b.request(ctx, c, o.work)
	if f != nil {
		return nil, f
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, networkFailure(breakage{outer: outer, ctx: ctx, timeout: b.timeout, connected: connected.Load()}, err)
	}
	defer resp.Body.Close()
	a := answer{ctx: ctx, outer: outer, binding: b, method: c.method, response: resp, outputLimit: o.outputLimit}
	return a.read()
}

// request evaluates the templates. What fails here fails each time, before anything is sent.
func (b *Binding) request(ctx context.Context, c *call, w *events.Work) (*http.Request, *Failure) {
	scope := exprlang.Borrow()
	defer scope.Return()
	b.fill(scope, w)
	path, err := c.path.Eval(scope)
	if err != nil {
		return nil, refusal("expression", fmt.Errorf("path: %w", err))
	}
	u, err := resolvePath(b.base, path)
	if err != nil {
		return nil, refusal("path", err)
	}
	header := make(http.Header, ownHeaders+len(b.headers)+len(c.headers))
	header["Accept"], header["User-Agent"] = acceptJSON, sagalogAgent
	for _, some := range [...][]headerTemplate{b.headers, c.headers} {
		for _, h := range some {
			v, err := h.value.Eval(scope)
			if err != nil {
				return nil, refusal("expression", fmt.Errorf("header %s: %w", h.name, err))
			}
			if !headerValue(v) {
				return nil, refusal("header", fmt.Errorf("header %s: the value has control characters", h.name))
			}
			header.Set(h.name, v)
		}
	}
	body, err := c.content(scope, header)
	if err != nil {
		return nil, refusal("expression", fmt.Errorf("body: %w", err))
	}
	// Made for the base, which was parsed before: what the path has become is taken as it was checked, not parsed again.
	req, err := http.NewRequestWithContext(ctx, c.method, b.root, bytes.NewReader(body))
	if err != nil {
		return nil, refusal("path", errors.New("the request cannot be built from base and path"))
	}
	req.URL = u
	req.Header = header
	identify(ctx, header, w)
	return req, nil
}

// ownHeaders is the number of headers that each request has, with Content-Type.
const ownHeaders = 9

// Nobody changes these: the client writes them only.
var (
	acceptJSON   = []string{"application/json, */*;q=0.5"}
	sagalogAgent = []string{userAgent}
)

// content returns the body and sets its type: none, text for a string, else JSON.
func (c *call) content(scope *exprlang.Scope, header http.Header) ([]byte, error) {
	if c.body == nil {
		return nil, nil
	}
	raw, err := c.body.Eval(scope)
	if err != nil {
		return nil, err
	}
	given := header.Get("Content-Type")
	if len(raw) > 0 && raw[0] == '"' && !isJSON(given) {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		if given == "" {
			header.Set("Content-Type", "text/plain; charset=utf-8")
		}
		return []byte(s), nil
	}
	if given == "" {
		header.Set("Content-Type", "application/json")
	}
	return raw, nil
}

// identify sets what tells the service which attempt this is.
func identify(ctx context.Context, h http.Header, w *events.Work) {
	a, _ := FromContext(ctx)
	values := []string{
		asciiOnly(w.IdempotencyKey), asciiOnly(w.Task), strconv.Itoa(w.Run), asciiOnly(w.Step), strconv.Itoa(w.Attempt),
		traceparentOr(a.Traceparent),
	}
	for i, name := range [...]string{headerKey, headerTask, headerRun, headerStep, headerAttempt, headerTrace} {
		h[name] = values[i : i+1 : i+1]
	}
}

// fill gives a scope what the expressions of a binding see.
func (b *Binding) fill(s *exprlang.Scope, w *events.Work) {
	s.Set("input", s.Raw(w.Input))
	s.Set("output", s.Raw(w.Output))
	s.Set("task", s.Raw(taskOf(w)))
	s.Set("step", s.Raw(appendText(nil, w.Step)))
	s.Set("attempt", s.Int(w.Attempt))
	s.Set("env", s.Raw(b.env))
}

// taskOf is the variable task.
func taskOf(w *events.Work) json.RawMessage {
	b := appendText(append(make([]byte, 0, 128), `{"id":`...), w.Task)
	b = strconv.AppendInt(append(b, `,"run":`...), int64(w.Run), 10)
	b = appendText(append(b, `,"workflow":`...), w.Workflow)
	b = strconv.AppendInt(append(b, `,"version":`...), int64(w.Version), 10)
	return append(b, '}')
}
