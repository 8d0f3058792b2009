package api_test

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

func TestASubmissionIsAcceptedOnceItIsDurable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("PUT", "/v1/tasks/a%2Fb%20c", good, "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.Equal(t, 202, r.status, r.body)
	home := events.Home("a/b c", apitest.Partitions)
	v := r.json(t)
	require.Equal(t, "a/b c", v["id"])
	require.EqualValues(t, home, v["partition"])
	require.EqualValues(t, 0, v["offset"])
	token, err := base64.RawURLEncoding.DecodeString(v["token"].(string))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(token), fmt.Sprintf("s/%d/0/", home)))
	require.Equal(t, "/v1/tasks/a%2Fb%20c", r.header.Get("Location"))

	in := w.engine.Inputs(events.Submissions)
	require.Len(t, in, 1)
	require.Equal(t, "a/b c", string(in[0].Key))
	require.Equal(t, good, string(in[0].Value), "the log holds what the client wrote")
	require.Equal(t, home, in[0].Partition)
	require.Equal(t, "hash-order-1", in[0].Header(events.HeaderDefinition))
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", in[0].Header(events.HeaderTraceparent))
}

func TestARepeatSucceedsAndOtherContentIsAConflict(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Equal(t, 202, w.do("PUT", "/v1/tasks/x", good).status)
	again := w.do("POST", "/v1/tasks", `{"id":"x",  "input":{"item":"lamp"}, "workflow":"order"}`)
	require.Equal(t, 200, again.status, again.body)
	require.NotContains(t, again.json(t), "offset")
	tok := again.json(t)["token"].(string)
	require.Equal(t, 200, w.do("GET", "/v1/tasks/x?token="+tok, "").status)
	other := w.do("PUT", "/v1/tasks/x", `{"workflow":"order","input":{"item":"desk"}}`)
	require.Equal(t, 409, other.status)
	p := other.problem(t)
	require.Equal(t, "conflict", p.Code())
	require.Equal(t, "/id", p.Errors[0].Pointer)
	require.Len(t, w.engine.Inputs(events.Submissions), 1)
}

func TestASubmissionWithoutAnIDGetsOne(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("POST", "/v1/tasks", good)
	require.Equal(t, 202, r.status)
	id, err := uuid.Parse(r.json(t)["id"].(string))
	require.NoError(t, err)
	require.EqualValues(t, 7, id.Version())
}

func TestAnInvalidSubmissionIsAProblemWithItsPlace(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		name, path, body, content string
		status                    int
		code, pointer, message    string
		line, column              int
	}{
		{name: "not JSON", body: "{\n  \"workflow\": order}", status: 400, code: "unreadable", message: "invalid character", line: 2, column: 15},
		{name: "a name twice", body: "{\"workflow\": \"order\",\n \"input\": {\"item\": \"a\", \"item\": \"b\"}}", status: 400, code: "unreadable", message: "has \"item\" twice", line: 2, column: 25},
		{name: "empty", body: "", status: 400, code: "unreadable", message: "unexpected end"},
		{name: "not an object", body: `[1]`, status: 422, code: "invalid", message: "is not a JSON object"},
		{name: "no workflow", body: `{"input":{"item":"x"}}`, status: 422, code: "invalid", pointer: "/workflow", message: "is required"},
		{name: "unknown member", body: `{"workflow":"order","imput":{}}`, status: 422, code: "invalid", pointer: "/imput", message: `did you mean "input"?`},
		{name: "a reply topic that is not allowed", body: `{"workflow":"order","input":{"item":"x"},"reply_to":"shop.replies"}`, status: 422, code: "invalid", pointer: "/reply_to", message: "namespace set reply_topics=shop.replies"},
		{name: "a reply topic of the namespace", body: `{"workflow":"order","input":{"item":"x"},"reply_to":"test.reports"}`, status: 422, code: "invalid", pointer: "/reply_to", message: "belongs to the namespace test"},
		{name: "a reply key without a topic", body: `{"workflow":"order","input":{"item":"x"},"reply_key":"k"}`, status: 422, code: "invalid", pointer: "/reply_key", message: "has no effect without reply_to"},
		{name: "duplicate member", body: `{"workflow":"order","workflow":"order"}`, status: 422, code: "invalid", pointer: "/workflow", message: "twice"},
		{name: "unknown workflow", body: `{"workflow":"ordr","input":{}}`, status: 404, code: "unknown-workflow", pointer: "/workflow", message: `did you mean "order"?`},
		{name: "unknown version", body: `{"workflow":"order","version":9,"input":{"item":"x"}}`, status: 404, code: "unknown-workflow", pointer: "/version", message: "[1]"},
		{name: "input against the schema", body: `{"workflow":"order","input":{"item":5}}`, status: 422, code: "invalid", pointer: "/input/item", message: "must be a text"},
		{name: "a huge exponent", body: `{"workflow":"order","input":{"item":[1,{"n":1e1000000}]}}`, status: 422, code: "invalid", pointer: "/input/item/1/n", message: "the number 1e1000000 is out of range"},
		{name: "no input", body: `{"workflow":"order"}`, status: 422, code: "invalid", pointer: "/input", message: "must be an object"},
		{name: "other ID than the path", body: `{"id":"y","workflow":"order","input":{"item":"x"}}`, status: 422, code: "invalid", pointer: "/id", message: "differs"},
		{name: "too large", body: `{"workflow":"order","input":{"item":"` + strings.Repeat("x", 5000) + `"}}`, status: 413, code: "too-large"},
		{name: "other media type", body: good, content: "text/xml", status: 415, code: "unsupported-media-type"},
		{name: "ID too long", path: "/v1/tasks/" + long, body: good, status: 422, code: "invalid", message: "256 bytes"},
		{name: "ID with a control character", path: "/v1/tasks/a%0Ab", body: good, status: 422, code: "invalid", message: "control character"},
		{name: "ID not UTF-8", path: "/v1/tasks/a%FFb", body: good, status: 422, code: "invalid", message: "UTF-8"},
		{name: "no ID", path: "/v1/tasks/", body: good, status: 404, code: "not-found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			if c.path == "" {
				c.path = "/v1/tasks/x"
			}
			if c.content == "" {
				c.content = "application/json"
			}
			r := w.do("PUT", c.path, c.body, "Content-Type", c.content)
			require.Equal(t, c.status, r.status, r.body)
			p := r.problem(t)
			require.Equal(t, c.code, p.Code())
			require.NotContains(t, r.body, "$schema")
			require.NotContains(t, r.body, strings.Repeat("x", 300), "the answer does not repeat the body")
			if c.message != "" {
				require.NotEmpty(t, p.Errors, r.body)
				require.Equal(t, c.pointer, p.Errors[0].Pointer)
				require.Contains(t, p.Errors[0].Message, c.message)
			}
			if c.line > 0 {
				require.Equal(t, []int{c.line, c.column}, []int{p.Errors[0].Line, p.Errors[0].Column})
			}
			require.Empty(t, w.engine.Inputs(events.Submissions))
		})
	}
}

func TestTheLimitIsReportedAndABodyOfThatSizePasses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	frame := `{"workflow":"order","input":{"item":"%s"}}`
	body := fmt.Sprintf(frame, strings.Repeat("x", 4096-len(frame)+2))
	require.Len(t, body, 4096)
	require.Equal(t, 202, w.do("PUT", "/v1/tasks/fits", body).status)
	r := w.do("PUT", "/v1/tasks/over", body+" ")
	require.Equal(t, 413, r.status)
	require.Contains(t, r.problem(t).Detail, "4096")
}

func TestALogThatDoesNotAcknowledgeIsUnavailable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.SetDown(errors.New("broker gone"))
	r := w.do("PUT", "/v1/tasks/x", good)
	require.Equal(t, 503, r.status)
	require.Equal(t, "unavailable", r.problem(t).Code())
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.NotContains(t, r.body, "broker gone")
}

func TestASlowBodyIsEndedAndASilentLogToo(t *testing.T) {
	// In virtual time, the handler runs on an in-memory connection.
	synctest.Test(t, func(t *testing.T) {
		e := apitest.New()
		e.Stuck = true
		conn, stop := serveOnPipe(t, e)
		defer stop()
		fmt.Fprintf(conn, "PUT /v1/tasks/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(good), good)
		start := time.Now()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, 30*time.Second, time.Since(start))
		io.Copy(io.Discard, resp.Body)
	})
	synctest.Test(t, func(t *testing.T) {
		conn, stop := serveOnPipe(t, apitest.New())
		defer stop()
		fmt.Fprintf(conn, "PUT /v1/tasks/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		start := time.Now()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 408, resp.StatusCode)
		require.Equal(t, 30*time.Second, time.Since(start))
		io.Copy(io.Discard, resp.Body)
	})
}

// serveOnPipe serves the API on one end of a pipe, for virtual time.
func serveOnPipe(t *testing.T, e *apitest.Engine) (net.Conn, func()) {
	s, err := api.New(e.Config())
	require.NoError(t, err)
	ours, theirs := net.Pipe()
	l := &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	l.conns <- theirs
	srv := &http.Server{Handler: s.Handler()}
	served := make(chan struct{})
	go func() { srv.Serve(l); close(served) }()
	return ours, func() {
		ours.Close()
		srv.Close()
		<-served
	}
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func FuzzAnyAllowedIDWorksInURLs(f *testing.F) {
	for _, id := range []string{"a", "a/b", "/", "//", "a b", "日本語", "..a", "a/../b", "%2F", "%", "a?b", "a#b", "a+b", "a%20b", "*", "{id}", "\u00a0", "history", "x/history", "a;b", "ü/", "~", "a\\b"} {
		f.Add(id)
	}
	e := apitest.New()
	cfg := e.Config()
	s, err := api.New(cfg)
	require.NoError(f, err)
	require.NoError(f, s.Listen())
	ctx, cancel := contextOf(f)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	transport := &http.Transport{}
	f.Cleanup(func() { transport.CloseIdleConnections(); cancel(); <-done })
	client := &http.Client{Transport: transport}
	f.Fuzz(func(t *testing.T, id string) {
		if events.CheckTaskID(id) != nil {
			t.Skip()
		}
		base := "http://" + s.Addr() + "/v1/tasks/" + url.PathEscape(id)
		w := &world{t: t, engine: e, url: base, client: client}
		put := w.do("PUT", "", good)
		require.Contains(t, []int{200, 202}, put.status, put.body)
		require.Equal(t, id, put.json(t)["id"])
		require.Equal(t, id, w.do("GET", "", "").json(t)["id"])
		require.Equal(t, 200, w.do("GET", "/history", "").status)
	})
}
