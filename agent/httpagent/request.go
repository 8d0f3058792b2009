package httpagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/agentfile"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// The headers that each request carries. In the Sagalog headers, control characters, spaces, percent signs and bytes outside
// ASCII are percent-encoded, so that any task ID makes a valid header.
const (
	headerKey     = "Idempotency-Key"
	headerTask    = "Sagalog-Task"
	headerRun     = "Sagalog-Run"
	headerUndoes  = "Sagalog-Undoes"
	headerStep    = "Sagalog-Step"
	headerAttempt = "Sagalog-Attempt"
	headerTrace   = "Traceparent"
	userAgent     = "sagalog-agent/1"
)

// newClient returns a client for one binding. It keeps as many connections as there can be attempts: with net/http's default of
// two, each burst would dial again. It follows no redirect, and uses the environment's proxy except for loopback (as
// http.ProxyFromEnvironment does), unless the binding is direct.
func newClient(b *Binding) *http.Client {
	proxy := http.ProxyFromEnvironment
	if b.direct {
		proxy = nil
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  proxy,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig:        b.tls,
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           b.concurrency,
			MaxIdleConnsPerHost:    b.concurrency,
			IdleConnTimeout:        90 * time.Second,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// try returns a function that makes one try: one request.
func (b *Binding) try(c *call) agent.RawFunc {
	return func(ctx context.Context, w *events.Work, outputLimit int) (json.RawMessage, error) {
		var g grant
		out, f := b.send(ctx, &g, c, w, outputLimit)
		if f == nil && len(out) == 0 {
			return nil, nil
		}
		ticket := g.ticketHidden()
		if f == nil {
			return ticket.JSON(g.hidden.JSON(b.secrets.JSON(out))), nil
		}
		f.Err = errors.New(ticket.Text(g.hidden.Text(b.secrets.Text(f.Err.Error()))))
		f.Detail = ticket.JSON(g.hidden.JSON(b.secrets.JSON(f.Detail)))
		return nil, f
	}
}

func (b *Binding) send(ctx context.Context, g *grant, c *call, w *events.Work, outputLimit int) (json.RawMessage, *agent.Failure) {
	outer := ctx
	if b.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.timeout)
		defer cancel()
	}
	var used connections
	sending, release := used.follow(ctx)
	defer release()
	req, f := b.request(sending, c, w)
	if f != nil {
		return nil, f
	}
	if f := b.setCallback(ctx, req.Header, c, w, g); f != nil {
		return nil, f
	}
	if b.tokens != nil {
		// Not under the trace: the connections that count are those of the request.
		if f := b.tokens.authorize(ctx, req.Header, g); f != nil {
			return nil, f
		}
	}
	x := exchange{
		grant: g, outer: outer, ctx: ctx, binding: b, call: c, work: w, target: target(req), connections: &used, outputLimit: outputLimit,
	}
	client := b.client
	if len(c.accepted) > 0 {
		client = b.single
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, x.networkFailure(err)
	}
	defer resp.Body.Close()
	return x.read(resp)
}

// targetLimit bounds the path in a message, so that the rest of the message is not cut off.
const targetLimit = 256

// target names a request in messages: method, host and path, without user, password and query.
func target(req *http.Request) string {
	u := url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: req.URL.Path, RawPath: req.URL.RawPath}
	return req.Method + " " + events.Clip(u.String(), targetLimit)
}

// request evaluates the templates. A failure here is permanent, because it would repeat in every try, and without effect,
// because nothing has been sent.
func (b *Binding) request(ctx context.Context, c *call, w *events.Work) (*http.Request, *agent.Failure) {
	scope := exprlang.Borrow()
	defer scope.Return()
	agentfile.SetVariables(scope, w, b.env)
	path, err := c.path.Eval(scope)
	if err != nil {
		return nil, agentfile.Refusal("expression", fmt.Errorf("path: %w", err))
	}
	u, err := resolvePath(b.base, path)
	if errors.Is(err, errEmpty) {
		err = c.emptyValue(scope)
	}
	if err != nil {
		return nil, agentfile.Refusal("path", err)
	}
	if err := c.addQuery(scope, u); err != nil {
		return nil, agentfile.Refusal("expression", fmt.Errorf("query: %w", err))
	}
	header := make(http.Header, ownHeaders+len(b.headers)+len(c.headers))
	header["Accept"], header["User-Agent"] = acceptJSON, sagalogAgent
	for _, some := range [...][]headerTemplate{b.headers, c.headers} {
		for _, h := range some {
			v, err := h.value.Eval(scope)
			if err != nil {
				return nil, agentfile.Refusal("expression", fmt.Errorf("header %s: %w", h.name, err))
			}
			if !headerValue(v) {
				return nil, agentfile.Refusal("header", fmt.Errorf("header %s: the value has control characters", h.name))
			}
			header.Set(h.name, v)
		}
	}
	body, err := c.content(scope, header)
	if err != nil {
		return nil, agentfile.Refusal("expression", fmt.Errorf("body: %w", err))
	}
	// The request is created with the base URL. The full URL is set afterwards, so that net/http does not parse and encode the
	// path again.
	req, err := http.NewRequestWithContext(ctx, c.method, b.root, bytes.NewReader(body))
	if err != nil {
		return nil, agentfile.Refusal("path", errors.New("the request cannot be built from base and path"))
	}
	req.URL = u
	req.Header = header
	identify(ctx, header, w)
	return req, nil
}

// ownHeaders is the number of headers that each request has, with Content-Type.
const ownHeaders = 9

// The client only reads these, so all requests can share them.
var (
	acceptJSON   = []string{"application/json, */*;q=0.5"}
	sagalogAgent = []string{userAgent}
)

// content returns the body, if there is one, and sets its type: text for a string, JSON for anything else.
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

// identify sets the headers that tell the service which attempt this is.
func identify(ctx context.Context, h http.Header, w *events.Work) {
	a, _ := agent.FromContext(ctx)
	values := []string{
		asciiOnly(w.IdempotencyKey), asciiOnly(w.Task), strconv.Itoa(w.Run), asciiOnly(w.Step), strconv.Itoa(w.Attempt),
		a.Traceparent,
	}
	for i, name := range [...]string{headerKey, headerTask, headerRun, headerStep, headerAttempt, headerTrace} {
		h[name] = values[i : i+1 : i+1]
	}
	if w.Undoes != "" {
		h[headerUndoes] = []string{asciiOnly(w.Undoes)}
	}
}
