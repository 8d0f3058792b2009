package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/internal/api"
)

// DefaultAPI is the URL at which an engine listens by default.
const DefaultAPI = "http://" + api.DefaultAddr

// callTimeout bounds a call, in addition to the time that it asks the engine to wait.
const callTimeout = 30 * time.Second

// Problem is a problem document of the API, as an error that is printed.
type Problem api.Problem

// placed returns "place: message" for one fault of a request.
func placed(p api.ProblemPlace) string {
	where := cmp.Or(p.Parameter, p.Pointer)
	if p.Line > 0 {
		where = strings.TrimSpace(fmt.Sprintf("%d:%d %s", p.Line, p.Column, where))
	}
	if where == "" {
		return p.Message
	}
	return where + ": " + p.Message
}

// Error returns the problem, with each fault on a separate line.
func (p *Problem) Error() string {
	text := cmp.Or(p.Detail, p.Title)
	for _, e := range p.Errors {
		text += "\n  " + placed(e)
	}
	return text
}

// unreachable is the error when nothing answers at the API's address.
type unreachable struct {
	url string
	err error
}

// Error asks about the node that ought to run before it says how to start one: an engine started in its place would be empty, and would take
// what was meant for that node. It names `sagalog dev` only for the default address, at which somebody who tries Sagalog looks.
func (e *unreachable) Error() string {
	text := fmt.Sprintf("no engine answers at %s: is its node running there, and is --api its address? `sagalog serve --brokers HOST:PORT` starts a node", e.url)
	if e.url == DefaultAPI {
		text += "; if it was a `sagalog dev`, start that again with the same --data; only to try Sagalog, `sagalog dev` starts an empty engine with its own broker"
	}
	return fmt.Sprintf("%s (%s)", text, e.err)
}
func (e *unreachable) Unwrap() error { return e.err }

// foreign is the error when something other than an engine answers.
type foreign struct {
	made string
	resp *http.Response
}

// Error says what answered, as far as it says so itself.
func (e *foreign) Error() string {
	text := fmt.Sprintf("%s answered %s, but not as a Sagalog engine does", e.made, e.resp.Status)
	if server := e.resp.Header.Get("Server"); server != "" {
		text += fmt.Sprintf(" (it calls itself %s)", server)
	}
	return text + ": another service listens there; is --api the address of a node?"
}

// isForeign asks for the title of the API, which engines of before the header have too, and says whether something else answers. What cannot be found
// out is taken for an engine: a proxy may remove headers, and refuse this path.
func (c *caller) isForeign(ctx context.Context) bool {
	if c.known.Load() {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/openapi.json", nil)
	if err != nil {
		return false
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false
	}
	var doc struct {
		Info struct {
			Title string `json:"title"`
		} `json:"info"`
	}
	engine := json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&doc) == nil && doc.Info.Title == api.Title
	c.known.Store(engine)
	return !engine
}

// caller calls one engine's API.
type caller struct {
	base string
	http *http.Client
	// token is sent with each call; "": none is.
	token string
	// known says that an engine without the header answers there.
	known atomic.Bool
}

func newCaller(base string) (*caller, error) {
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, Usage("--api %q is not a URL such as %s", base, DefaultAPI)
	}
	return &caller{base: strings.TrimSuffix(base, "/"), http: &http.Client{}}, nil
}

// request is one call.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	content      string
	header       map[string]string
	// wait extends the call's time limit.
	wait time.Duration
}

// do makes the call and reads the whole answer. A problem document is returned as *Problem.
func (c *caller) do(ctx context.Context, r request) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+r.wait)
	defer cancel()
	resp, err := c.send(ctx, r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	return resp.StatusCode, b, problemOf(resp, b)
}

func (c *caller) send(ctx context.Context, r request) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	if r.content != "" {
		req.Header.Set("Content-Type", r.content)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	resp, err := c.http.Do(req)
	if err == nil && resp.StatusCode < 400 && resp.Header.Get(api.HeaderAPI) == "" && c.isForeign(ctx) {
		resp.Body.Close()
		return nil, &foreign{made: r.method + " " + c.base + r.path, resp: resp}
	}
	if err == nil {
		return resp, nil
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return nil, &unreachable{c.base, op.Err}
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s takes connections and does not answer: is its process stopped or its machine overloaded? Ask another node with --api; `sagalog doctor --brokers HOST:PORT` says which are alive (%w)", c.base, err)
	}
	return nil, fmt.Errorf("call %s: %w", c.base, err)
}

func problemOf(resp *http.Response, b []byte) error {
	if resp.StatusCode < 400 {
		return nil
	}
	p := &Problem{}
	if json.Unmarshal(b, p) != nil || p.Status == 0 || p.Type != "" && (*api.Problem)(p).Code() == p.Type {
		return &Problem{Status: resp.StatusCode, Title: http.StatusText(resp.StatusCode),
			Detail: fmt.Sprintf("%s answered %s, which is not an answer of a Sagalog engine", resp.Request.URL, resp.Status)}
	}
	if p.Status == http.StatusUnauthorized {
		p.Detail += " Commands send the token in the file of --token-file, or that in $" + TokenVariable + "."
	}
	return p
}

// get reads a JSON document.
func (c *caller) get(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	_, b, err := c.do(ctx, request{method: http.MethodGet, path: path, query: query})
	return b, err
}

// change sends v as JSON.
func (c *caller) change(ctx context.Context, method, path string, v any) (json.RawMessage, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	_, doc, err := c.do(ctx, request{method: method, path: path, body: body, content: "application/json"})
	return doc, err
}

func taskPath(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

func (c *caller) close() { c.http.CloseIdleConnections() }
