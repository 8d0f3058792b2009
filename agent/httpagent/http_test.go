package httpagent_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/agent/agenttest"
	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/events"
)

const packageBinding = `
agent: package
http:
  base: "${ env.BASE }"
  concurrency: 8
  headers: {Authorization: "Bearer ${ env.TOKEN }"}
  retry: {tries: 3, backoff: 1ms, max_backoff: 2ms}
do:   {method: PUT, path: "/api/packages/${ input.id }", body: "${ input.package }"}
undo: {method: DELETE, path: "/api/packages/${ input.id }?was=${ output?.id }"}
`

// oneTry is packageBinding with one call an attempt.
var oneTry = strings.Replace(packageBinding, "retry: {tries: 3, backoff: 1ms, max_backoff: 2ms}", "", 1)

// inDoubt is the effect of a request that the service may still be working on.
const inDoubt = events.EffectInDoubt

// bind runs the binding against a real server.
func bind(t *testing.T, binding, base string) *agenttest.Harness {
	t.Helper()
	env := map[string]string{"BASE": base, "TOKEN": "s3cr3t-token"}
	all, err := httpagent.Parse("package.yaml", []byte(binding), func(n string) (string, bool) { v, ok := env[n]; return v, ok })
	require.NoError(t, err)
	require.Len(t, all, 1)
	t.Cleanup(all[0].Close) // after the harness has stopped
	r := agent.NewRegistry()
	all[0].Register(r)
	return agenttest.Start(t, r)
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

var anInput = map[string]any{"id": "p 1", "package": map[string]any{"size": 12345678901234567890.0}}

func TestTheStatusDecides(t *testing.T) {
	t.Parallel()
	type want struct {
		class  events.Class
		effect events.Effect
		tries  int64
	}
	retried := want{events.ClassRetryable, events.EffectInDoubt, 3}
	refused := want{events.ClassPermanent, events.EffectNone, 1}
	notYet := want{events.ClassRetryable, events.EffectNone, 3}
	over := want{events.ClassRetryable, events.EffectDoneUnknown, 3}
	redirect := want{events.ClassPermanent, events.EffectInDoubt, 1}
	for code, c := range map[int]want{
		200: {tries: 1}, 201: {tries: 1}, 202: {tries: 1}, 204: {tries: 1}, 299: {tries: 1},
		301: redirect, 302: redirect, 304: redirect, 307: redirect,
		400: refused, 401: refused, 403: refused, 404: refused, 409: refused, 410: refused, 413: refused, 422: refused, 451: refused,
		408: retried, 425: notYet, 429: notYet, 500: over, 501: over, 502: retried, 503: retried, 504: retried, 599: retried,
	} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int64
			h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, r *http.Request) {
				tries.Add(1)
				w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
				w.WriteHeader(code)
			}))
			r := h.Do("package", anInput)
			require.Equal(t, c.tries, tries.Load())
			if c.class == "" {
				require.Equal(t, events.ResultCompleted, r.Result)
				require.Equal(t, "null", string(r.Output))
				return
			}
			require.Equal(t, c.class, r.Error.Class)
			require.Equal(t, c.effect, r.Effect)
			require.Equal(t, "http_"+strconv.Itoa(code), r.Error.Code)
			require.Contains(t, r.Error.Message, strconv.Itoa(code))
			if code < 400 {
				require.Contains(t, r.Error.Message, "redirects are not followed")
			}
		})
	}
}

func TestARequestCarriesWhatIdentifiesTheAttempt(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(r.Context())
		body, _ = io.ReadAll(r.Body)
		fmt.Fprint(w, `{ "id": 12345678901234567890, "text": "<&>" }`)
	}))
	w := h.Work("package", events.Do, nil)
	w.Input = json.RawMessage(`{"id":"a/../ü","package":{"n":12345678901234567890}}`)
	w.Task, w.Step, w.Attempt = "Lieferung ü/1%\u00a0", "pack[17]", 3
	h.Send(w)
	r, ok := h.Await(w)
	require.True(t, ok)
	require.Equal(t, `{"id":12345678901234567890,"text":"<&>"}`, string(r.Output))
	require.Equal(t, http.MethodPut, got.Method)
	require.Equal(t, "/api/packages/a%2F%2E%2E%2F%C3%BC", got.RequestURI)
	require.Equal(t, `{"n":12345678901234567890}`, string(body))
	for name, want := range map[string]string{
		"Idempotency-Key": w.IdempotencyKey, "Sagalog-Task": "Lieferung%20%C3%BC/1%25%C2%A0", "Sagalog-Run": "1",
		"Sagalog-Step": "pack[17]", "Sagalog-Attempt": "3", "Content-Type": "application/json",
		"Authorization": "Bearer s3cr3t-token", "User-Agent": "sagalog-agent/1",
	} {
		require.Equal(t, want, got.Header.Get(name), name)
	}
	require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-00$`, got.Header.Get("Traceparent"))
	require.NotEmpty(t, got.Header.Get("Accept"))
}

func TestTheTraceContextIsPassedOn(t *testing.T) {
	t.Parallel()
	var got string
	h := bind(t, packageBinding, serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Traceparent") }))
	w := h.Work("package", events.Do, anInput)
	record, err := events.EncodeWork(w, events.Subject{Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	require.NoError(t, err)
	h.Sources["package"].Add(record)
	_, ok := h.Await(w)
	require.True(t, ok)
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", got)
	last := h.LastReport()
	require.Equal(t, got, last.Header(events.HeaderTraceparent))
}

func TestUndoSeesTheOutput(t *testing.T) {
	t.Parallel()
	var got []string
	h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.RequestURI+" "+string(body)+r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusNoContent)
	}))
	require.Equal(t, events.ResultCompleted, h.Undo("package", map[string]any{"id": "7"}, map[string]any{"id": "a&b"}).Result)
	require.Equal(t, events.ResultCompleted, h.Undo("package", map[string]any{"id": "7"}, nil).Result)
	require.Equal(t, []string{"DELETE /api/packages/7?was=a%26b ", "DELETE /api/packages/7?was= "}, got)
}

func TestBodiesAreJSONTextOrEmpty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contentType, body, want string
	}{
		"json":                  {"application/json", ` {"a": 1.10} `, `{"a":1.10}`},
		"json scalar":           {"application/json; charset=utf-8", "42", "42"},
		"problem":               {"application/vnd.x+json", "[1]", "[1]"},
		"json and empty":        {"application/json", "", "null"},
		"object without a type": {"", `{"a":1}`, `{"a":1}`},
		"object called text":    {"text/plain", `[1, 2]`, `[1,2]`},
		"number called text":    {"text/plain", "007", `"007"`},
		"broken object":         {"text/plain", `{"a":`, `"{\"a\":"`},
		"text":                  {"text/plain", "héllo\n", `"héllo\n"`},
		"byte order mark":       {"application/json", "\xef\xbb\xbf{}", "{}"},
		"bytes":                 {"application/octet-stream", "\xff\x00", `{"base64":"` + base64.StdEncoding.EncodeToString([]byte("\xff\x00")) + `"}`},
		"bad UTF-8 inside JSON": {"application/json", "{\"a\":\"\xff\"}", "{\"a\":\"\uFFFD\"}"},
		"empty":                 {"text/plain", "", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{c.contentType}
				_, _ = io.WriteString(w, c.body)
			}))
			r := h.Do("package", anInput)
			require.Equal(t, events.ResultCompleted, r.Result)
			require.Equal(t, c.want, string(r.Output))
		})
	}
}

func TestAnAnswerThatIsNotJSONIsPermanentAndNotQuoted(t *testing.T) {
	t.Parallel()
	h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "private words")
	}))
	r := h.Do("package", anInput)
	require.Equal(t, events.ClassPermanent, r.Error.Class)
	require.Equal(t, events.EffectDoneUnknown, r.Effect)
	require.NotContains(t, r.Error.Message, "private")
}

func TestAnAnswerOverTheLimitIsPermanent(t *testing.T) {
	t.Parallel()
	for _, n := range []int{256<<10 - 2, 256<<10 - 1, 8 << 20} {
		h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", n))
		}))
		r := h.Do("package", anInput)
		if n+2 <= 256<<10 {
			require.Equal(t, events.ResultCompleted, r.Result)
			continue
		}
		require.Equal(t, events.ClassPermanent, r.Error.Class)
		require.Equal(t, events.EffectDoneUnknown, r.Effect)
		require.Contains(t, r.Error.Message, "262144")
	}
}

func TestTheBodyOfARefusalIsItsDetail(t *testing.T) {
	t.Parallel()
	h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprintf(w, `{"title":"too heavy","seen":%q}`, r.Header.Get("Authorization"))
	}))
	r := h.Do("package", anInput)
	require.JSONEq(t, `{"title":"too heavy","seen":"Bearer ${ env.TOKEN }"}`, string(r.Error.Detail))
	require.Regexp(t, `^PUT http://127\.0\.0\.1:\d+/api/packages/p%201 answered 422 Unprocessable Entity: too heavy$`, r.Error.Message)
}

func TestRetryAfterInBothForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header func() string
		least  time.Duration
		most   time.Duration
	}{
		"seconds": {func() string { return "90" }, 90 * time.Second, 90 * time.Second},
		"date":    {func() string { return time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat) }, 88 * time.Second, 91 * time.Second},
		"past":    {func() string { return time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat) }, 0, 0},
		"garbage": {func() string { return "soon" }, 0, 0},
		"huge":    {func() string { return "4294967295" }, 24 * time.Hour, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", c.header())
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			r := h.Do("package", anInput)
			require.GreaterOrEqual(t, r.RetryAfter.Std(), c.least)
			require.LessOrEqual(t, r.RetryAfter.Std(), c.most)
		})
	}
}

func TestRetryAfterIsHonouredInsideTheAttempt(t *testing.T) {
	t.Parallel()
	var at []time.Time
	h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, r *http.Request) {
		at = append(at, time.Now())
		if len(at) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	require.Equal(t, events.ResultCompleted, h.Do("package", anInput).Result)
	require.Len(t, at, 2)
	require.GreaterOrEqual(t, at[1].Sub(at[0]), time.Second)
}

func TestARefusedConnectionHasNoEffect(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	base := "http://user:hunter22@" + l.Addr().String()
	require.NoError(t, l.Close())
	r := bind(t, packageBinding, base).Do("package", anInput)
	require.Equal(t, events.ClassRetryable, r.Error.Class)
	require.Equal(t, events.EffectNone, r.Effect)
	require.Contains(t, r.Error.Message, "connection refused")
	require.NotContains(t, r.Error.Message, "hunter22")
	require.Contains(t, r.Error.Message, "PUT "+strings.Replace(base, "user:hunter22@", "", 1)+"/api/packages/p%201: connect: ")
	r = bind(t, packageBinding, strings.Replace(base, "127.0.0.1", "localhost", 1)).Do("package", anInput)
	require.Contains(t, r.Error.Message, "localhost")
	require.NotContains(t, r.Error.Message, "127.0.0.1")
	require.NotContains(t, r.Error.Message, "::1")
}

func TestAConnectionThatBreaksHasAnUnknownEffect(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"reset before the answer": func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		},
		"closed within the body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "private")
			panic(http.ErrAbortHandler)
		},
		"not HTTP": func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(c, "private words\r\n\r\n")
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := bind(t, packageBinding, serve(t, h)).Do("package", anInput)
			require.Equal(t, events.ClassRetryable, r.Error.Class)
			require.Equal(t, events.EffectInDoubt, r.Effect)
			require.NotContains(t, r.Error.Message, "private")
		})
	}
}

// A server answers a first request, then breaks the kept-alive connection and stops. net/http dials again by itself, and the
// connection is refused. Something was sent on the first connection, so the effect is not none.
func TestARefusalAfterABrokenConnectionIsUnknown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b := make([]byte, 4096)
		_, _ = c.Read(b)
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		_, _ = c.Read(b)
		_ = l.Close()
		_ = c.Close()
	}()
	h := bind(t, strings.Replace(packageBinding, "tries: 3", "tries: 1", 1), "http://"+l.Addr().String())
	require.Equal(t, events.ResultCompleted, h.Do("package", anInput).Result)
	r := h.Do("package", anInput)
	require.Equal(t, events.ClassRetryable, r.Error.Class)
	require.Equal(t, events.EffectInDoubt, r.Effect, r.Error.Message)
}

func TestARefusalOfALaterTryDoesNotHideTheFirst(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader([]int{http.StatusInternalServerError, http.StatusConflict}[min(1, tries.Add(1)-1)])
	}))
	r := h.Do("package", anInput)
	require.Equal(t, "http_409", r.Error.Code)
	require.Equal(t, events.EffectDoneUnknown, r.Effect)
}

func TestAServiceThatHangsIsCutOffAtTheTimeout(t *testing.T) {
	t.Parallel()
	hang := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	t.Run("timeout of a try", func(t *testing.T) {
		t.Parallel()
		h := bind(t, strings.Replace(packageBinding, "concurrency: 8", "timeout: 20ms", 1), serve(t, hang))
		r := h.Do("package", anInput)
		require.Equal(t, events.ClassRetryable, r.Error.Class)
		require.Equal(t, events.EffectInDoubt, r.Effect)
		require.Contains(t, r.Error.Message, "no answer within 20ms; the whole request had been sent")
	})
	t.Run("complete-by time", func(t *testing.T) {
		t.Parallel()
		gone := make(chan struct{})
		h := bind(t, packageBinding, serve(t, func(w http.ResponseWriter, r *http.Request) {
			hang(w, r)
			close(gone)
		}))
		w := h.Work("package", events.Do, anInput)
		w.CompleteBy = events.At(time.Now().Add(200 * time.Millisecond))
		h.Send(w)
		<-gone // the request is cancelled
		require.NoError(t, h.Stop())
		require.Empty(t, h.Reports())
		require.EqualValues(t, 1, h.Sources["package"].Committed()[0])
	})
}

func TestARequestThatCannotBeSentIsPermanent(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	base := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	for name, input := range map[string]any{
		"empty value in the path":   map[string]any{"id": ""},
		"missing value in the path": map[string]any{},
		"dot":                       map[string]any{"id": "."},
		"dot dot":                   map[string]any{"id": ".."},
		"expression fails":          nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := bind(t, packageBinding, base).Do("package", input)
			require.Equal(t, events.ClassPermanent, r.Error.Class)
			require.Equal(t, events.EffectNone, r.Effect)
			require.NotContains(t, r.Error.Message, base)
			require.Zero(t, calls.Load())
		})
	}
	t.Run("header", func(t *testing.T) {
		t.Parallel()
		h := bind(t, strings.Replace(packageBinding, "Authorization:", `X-Note: "${ input.note }", Authorization:`, 1), base)
		r := h.Do("package", map[string]any{"id": "1", "note": "a\r\nHost: evil"})
		require.Equal(t, "header", r.Error.Code)
		require.Equal(t, events.EffectNone, r.Effect)
	})
}

func TestABodyOfTextIsSentAsText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ do, want string }{
		"text":            {`{method: POST, path: /x, body: "hello ${ input.id }"}`, "text/plain; charset=utf-8|hello 7"},
		"text as JSON":    {`{method: POST, path: /x, headers: {content-type: application/json}, body: "${ input.id }"}`, `application/json|"7"`},
		"own type":        {`{method: POST, path: /x, headers: {Content-Type: text/csv}, body: "a;${ input.id }"}`, "text/csv|a;7"},
		"structure":       {`{method: POST, path: /x, body: {b: [1, 0x10, 1.50, true, null, "t"], a: "${ task.run }", s: "${ step }", p: "${ progress }"}}`, `application/json|{"a":1,"b":[1,16,1.50,true,null,"t"],"p":null,"s":"step"}`},
		"absent":          {`{method: POST, path: /x}`, "|"},
		"null is absent":  {`{method: POST, path: /x, body: null}`, "|"},
		"attempt and env": {`{method: POST, path: "/x?k=${ attempt }&e=${ env.TOKEN }"}`, "|"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := bind(t, "agent: a\nhttp: {base: \"${ env.BASE }/\"}\ndo: "+c.do, serve(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				fmt.Fprint(w, r.Header.Get("Content-Type")+"|"+string(b))
			}))
			r := h.Do("a", map[string]any{"id": "7"})
			require.Equal(t, events.ResultCompleted, r.Result, "%+v", r.Error)
			var got string
			require.NoError(t, json.Unmarshal(r.Output, &got))
			require.Equal(t, c.want, got)
		})
	}
}

func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	s := httptest.NewUnstartedServer(status(http.StatusOK))
	s.Config.ConnState = func(_ net.Conn, c http.ConnState) {
		if c == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	h := bind(t, packageBinding, s.URL)
	for range 3 {
		var works []events.Work
		for range 50 {
			w := h.Work("package", events.Do, anInput)
			works = append(works, w)
			h.Send(w)
		}
		for _, w := range works {
			_, ok := h.Await(w)
			require.True(t, ok)
		}
	}
	require.LessOrEqual(t, opened.Load(), int64(8+8), "about one a worker")
}

func TestLoadBindingsReadsADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) { require.NoError(t, os.WriteFile(dir+"/"+name, []byte(text), 0o600)) }
	one := "agent: %s\nhttp: {base: http://127.0.0.1:1}\ndo: {method: GET, path: /}\n"
	write("a.yaml", fmt.Sprintf(one, "a")+"---\n"+fmt.Sprintf(one, "b"))
	write("c.yml", fmt.Sprintf(one, "c"))
	write("notes.txt", "no binding")
	all, err := httpagent.Load(os.DirFS(dir), os.LookupEnv)
	require.NoError(t, err)
	r := agent.NewRegistry()
	for _, b := range all {
		b.Register(r)
	}
	require.NoError(t, r.Err())
	require.Equal(t, []string{"a", "b", "c"}, r.Agents())
	write("d.yaml", fmt.Sprintf(one, "b"))
	_, err = httpagent.Load(os.DirFS(dir), os.LookupEnv)
	require.ErrorContains(t, err, `d.yaml:1:1: agent "b" is bound in a.yaml already`)
}
