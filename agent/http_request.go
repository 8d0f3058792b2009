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
func (b *Binding) request(ctx context.Context, c *call, w events.Work) (*http.Request, *Failure) {
	scope := b.scope(w)
	path, err := c.path.Eval(scope)
	if err != nil {
		return nil, refusal("expression", fmt.Errorf("path: %w", err))
	}
	u, err := resolvePath(b.base, path)
	if err != nil {
		return nil, refusal("path", err)
	}
	header := http.Header{"Accept": {"application/json, */*;q=0.5"}, "User-Agent": {userAgent}}
	for _, h := range append(b.headers[:len(b.headers):len(b.headers)], c.headers...) {
		v, err := h.value.Eval(scope)
		if err != nil {
			return nil, refusal("expression", fmt.Errorf("header %s: %w", h.name, err))
		}
		if !headerValue(v) {
			return nil, refusal("header", fmt.Errorf("header %s: the value has control characters", h.name))
		}
		header.Set(h.name, v)
	}
	body, err := c.content(scope, header)
	if err != nil {
		return nil, refusal("expression", fmt.Errorf("body: %w", err))
	}
	req, err := http.NewRequestWithContext(ctx, c.method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, refusal("path", errors.New("the request cannot be built from base and path"))
	}
	req.URL = u // as it was checked, not as it was parsed again
	req.Header = header
	identify(ctx, header, w)
	return req, nil
}

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
func identify(ctx context.Context, h http.Header, w events.Work) {
	h.Set(headerKey, asciiOnly(w.IdempotencyKey))
	h.Set(headerTask, asciiOnly(w.Task))
	h.Set(headerRun, strconv.Itoa(w.Run))
	h.Set(headerStep, asciiOnly(w.Step))
	h.Set(headerAttempt, strconv.Itoa(w.Attempt))
	a, _ := FromContext(ctx)
	h.Set("Traceparent", traceparentOr(a.Traceparent))
}

func (b *Binding) scope(w events.Work) *exprlang.Scope {
	task := struct {
		ID       string `json:"id"`
		Run      int    `json:"run"`
		Workflow string `json:"workflow"`
		Version  int    `json:"version"`
	}{w.Task, w.Run, w.Workflow, w.Version}
	return exprlang.NewScope(map[string]json.RawMessage{
		"input": w.Input, "output": w.Output, "task": mustMarshal(task), "step": mustMarshal(w.Step),
		"attempt": mustMarshal(w.Attempt), "env": b.env,
	})
}
