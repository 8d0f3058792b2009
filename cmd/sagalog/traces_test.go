package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traceCollector receives spans by OTLP over HTTP.
type traceCollector struct {
	t     *testing.T
	url   string
	spans chan *otlp.Span

	mu sync.Mutex
	// resources are the attributes of the resources of all spans, and keys the values of a header that requests bore. mu guards both.
	resources, keys map[string]string
}

func newTraceCollector(t *testing.T) *traceCollector {
	c := &traceCollector{t: t, spans: make(chan *otlp.Span, 1000), resources: map[string]string{}, keys: map[string]string{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var all collector.ExportTraceServiceRequest
		if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &all) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		c.keys[r.Header.Get("X-Key")] = "seen"
		for _, of := range all.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				c.resources[a.Key] = a.Value.GetStringValue()
			}
		}
		c.mu.Unlock()
		for _, of := range all.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					c.spans <- s
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// until returns the spans up to the one with the given name.
func (c *traceCollector) until(name string) (all []*otlp.Span) {
	late := time.After(stepWait)
	for {
		select {
		case s := <-c.spans:
			if all = append(all, s); s.Name == name {
				return all
			}
		case <-late:
			require.Fail(c.t, "no span "+name)
		}
	}
}

// rest returns the spans that have come.
func (c *traceCollector) rest() (all []*otlp.Span) {
	for {
		select {
		case s := <-c.spans:
			all = append(all, s)
		default:
			return all
		}
	}
}

func attributeOf(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if i := a.Value.GetIntValue(); i != 0 {
				return string(rune('0' + i))
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// shop is a pair of services: the first call to pay fails, and ship refuses.
type shop struct {
	url string

	mu    sync.Mutex
	calls []string // method, path and span
}

func newShop(t *testing.T) *shop {
	h := &shop{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.calls = append(h.calls, r.Method+" "+r.URL.Path+" "+r.Header.Get("Traceparent"))
		switch {
		case r.URL.Path == "/ship":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case len(h.calls) == 1:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = io.WriteString(w, `{"secret":"s3cr3t"}`)
		}
	}))
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

// seen returns the calls of the services, and the spans that they got.
func (h *shop) seen() (calls, contexts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		at := strings.LastIndex(c, " ")
		calls, contexts = append(calls, c[:at]), append(contexts, c[at+1:])
	}
	return calls, contexts
}

const selling = `
workflow: sell
defaults: {complete_within: 1m}
steps:
  pay: {agent: pay, undo: {}, retry: {attempts: 3, backoff: 10ms, then: undo}}
  ship: {agent: ship, needs: [pay], retry: {attempts: 3, backoff: 10ms, then: undo}}
`

// sell starts an engine for the shop, submits one task with a trace context, and waits until it is undone.
func (h *shop) sell(t *testing.T, trace string, env ...string) *program {
	at := place{dir: t.TempDir(), env: append(env, "SHOP_URL="+h.url)}
	for name, text := range map[string]string{
		"w/sell.yaml": selling,
		"a/pay.yaml":  "agent: pay\nhttp: {base: \"${ env.SHOP_URL }\"}\ndo: {method: POST, path: /pay, body: \"${ input }\"}\nundo: {method: DELETE, path: /pay}\n",
		"a/ship.yaml": "agent: ship\nhttp: {base: \"${ env.SHOP_URL }\"}\ndo: {method: POST, path: /ship}\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(at.dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(at.dir, name), []byte(text), 0o600))
	}
	p := at.start(t, "dev", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--workflows", "w", "--agents", "a")
	api := p.endpoints(filepath.Join(at.dir, "sagalog-data")).HTTP
	r, err := http.NewRequest(http.MethodPut, api+"/v1/tasks/o-1", strings.NewReader(`{"workflow":"sell","input":{"secret":"s3cr3t"}}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", trace)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusAccepted, answer.StatusCode)
	var receipt struct{ Token string }
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&receipt))
	known, err := http.Get(api + "/v1/tasks/o-1?token=" + url.QueryEscape(receipt.Token))
	require.NoError(t, err)
	known.Body.Close()
	watched := at.run(t, "task", "watch", "o-1", "--api", api)
	require.Equal(t, 6, watched.code(), watched.err.String())
	return p
}

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
	sampled     = "00-" + clientTrace + "-" + clientSpan + "-01"
)

func TestATaskIsOneTraceFromItsSubmissionToTheCalls(t *testing.T) {
	t.Parallel()
	h, c := newShop(t), newTraceCollector(t)
	p := h.sell(t, sampled, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.url, "OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_EXPORTER_OTLP_HEADERS=x-key=k1",
		"OTEL_RESOURCE_ATTRIBUTES=team=red", "OTEL_SERVICE_NAME=shop")
	all := c.until("task sell")
	require.Equal(t, 0, p.stop())
	all = append(all, c.rest()...)
	require.Equal(t, map[string]string{"k1": "seen"}, c.keys)
	require.Equal(t, []string{"red", "shop", "dev"}, []string{c.resources["team"], c.resources["service.name"], c.resources["service.instance.id"]})

	names, ids := map[string]*otlp.Span{}, map[string]string{clientSpan: "client"}
	for _, s := range all {
		require.Equal(t, clientTrace, hex.EncodeToString(s.TraceId))
		require.LessOrEqual(t, s.StartTimeUnixNano, s.EndTimeUnixNano, s.Name)
		require.Equal(t, "o-1", attributeOf(s, "sagalog.task"))
		require.NotContains(t, s.String(), "s3cr3t")
		name := strings.TrimSpace(s.Name + " " + attributeOf(s, "sagalog.attempt"))
		require.NotContains(t, names, name)
		names[name], ids[hex.EncodeToString(s.SpanId)] = s, name
	}
	parents := map[string]string{}
	for name, s := range names {
		parents[name] = ids[hex.EncodeToString(s.ParentSpanId)]
	}
	require.Equal(t, map[string]string{
		"submission": "client", "decision": "submission", "task sell": "submission",
		"attempt do pay 1": "task sell", "attempt do pay 2": "task sell", "attempt do ship 1": "task sell", "attempt undo pay 1": "task sell",
		"call do pay 1": "attempt do pay 1", "call do pay 2": "attempt do pay 2", "call do ship 1": "attempt do ship 1", "call undo pay 1": "attempt undo pay 1",
	}, parents)

	for name, want := range map[string][4]string{
		"submission": {}, "decision": {}, "task sell": {"undone", "undone", "", ""},
		"attempt do pay 1":   {"retryable: http_500", "failed", "retryable", "retry"},
		"attempt do pay 2":   {"", "completed", "", ""},
		"attempt do ship 1":  {"permanent: http_422", "failed", "permanent", "undo"},
		"attempt undo pay 1": {"", "completed", "", ""},
		"call do pay 1":      {"retryable: http_500", "", "retryable", ""},
		"call do pay 2":      {}, "call do ship 1": {"permanent: http_422", "", "permanent", ""}, "call undo pay 1": {},
	} {
		s := names[name]
		require.Equal(t, want, [4]string{s.GetStatus().GetMessage(), attributeOf(s, "sagalog.outcome"), attributeOf(s, "error.type"), attributeOf(s, "sagalog.verdict")}, name)
		require.Equal(t, want[0] != "", s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR, name)
	}
	// Each attempt begins after the one before it, within its task. (Facts have milliseconds, and calls more.)
	order := []string{"attempt do pay 1", "attempt do pay 2", "attempt do ship 1", "attempt undo pay 1"}
	for i, name := range order {
		s, task := names[name], names["task sell"]
		require.LessOrEqual(t, task.StartTimeUnixNano, s.StartTimeUnixNano)
		require.GreaterOrEqual(t, task.EndTimeUnixNano, s.EndTimeUnixNano)
		if i > 0 {
			require.LessOrEqual(t, names[order[i-1]].EndTimeUnixNano, s.StartTimeUnixNano)
		}
	}
	// The services can make their spans children of the calls.
	calls, contexts := h.seen()
	require.Equal(t, []string{"POST /pay", "POST /pay", "POST /ship", "DELETE /pay"}, calls)
	for i, name := range []string{"call do pay 1", "call do pay 2", "call do ship 1", "call undo pay 1"} {
		require.Equal(t, "00-"+clientTrace+"-"+hex.EncodeToString(names[name].SpanId)+"-01", contexts[i])
	}
}

// A client's context is passed on as it is by an engine that makes no spans, and one that the client does not want sampled by one that would.
func TestATraceContextPassesUnchangedWithoutSpans(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	c := newTraceCollector(t)
	unsampled := sampled[:len(sampled)-2] + "00"
	for name, x := range map[string]struct {
		trace string
		env   []string
	}{
		"no exporter": {sampled, nil},
		"disabled":    {sampled, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_SDK_DISABLED=true"}},
		"none":        {sampled, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_TRACES_EXPORTER=none"}},
		"unsampled":   {unsampled, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url}},
		"never":       {sampled, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_TRACES_SAMPLER=always_off"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newShop(t)
			require.Equal(t, 0, h.sell(t, x.trace, x.env...).stop())
			_, contexts := h.seen()
			require.Equal(t, []string{x.trace, x.trace, x.trace, x.trace}, contexts)
			require.Empty(t, c.rest())
		})
	}
}

// A collector that is down, and one that never answers, change nothing but metrics and now and then a line of the log.
func TestTasksGoOnWithoutACollector(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(hung) })
	for name, address := range map[string]string{"down": "http://127.0.0.1:1", "silent": silent.URL} {
		for _, protocol := range []string{"http/protobuf", "grpc"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				h := newShop(t)
				p := h.sell(t, sampled, "OTEL_EXPORTER_OTLP_ENDPOINT="+address, "OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol)
				require.Equal(t, 0, p.stop())
				calls, _ := h.seen()
				require.Len(t, calls, 4)
				require.LessOrEqual(t, bytes.Count([]byte(p.err.String()), []byte("collector of traces did not take")), 2, p.err.String())
			})
		}
	}
}

func TestVariablesOfTracesThatCannotBeFollowedAreRefused(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir(), env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}}
	p := at.run(t, "dev", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--demo", "none")
	require.Equal(t, 1, p.code())
	require.Contains(t, p.err.String(), "OTEL_EXPORTER_OTLP_PROTOCOL=http/json is not supported: set it to http/protobuf or to grpc")
	require.NoDirExists(t, filepath.Join(at.dir, "sagalog-data"))
}
