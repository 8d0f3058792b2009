package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
	"strings"
)

func TestEveryRefusalIsAProblemDocument(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, c := range []struct {
		method, path string
		headers      []string
		status       int
		code         string
	}{
		{"GET", "/nope", nil, 404, "not-found"},
		{"GET", "/v1/tasks//x", nil, 404, "not-found"},
		{"GET", "/v1/../metrics", nil, 404, "not-found"},
		{"GET", "/v1/tasks/x/", nil, 404, "not-found"},
		{"DELETE", "/v1/tasks/x", nil, 405, "method-not-allowed"},
		{"OPTIONS", "/v1/tasks", nil, 405, "method-not-allowed"},
		{"BREW", "/v1/tasks", nil, 405, "method-not-allowed"},
		{"GET", "/v1/info", []string{"Host", "evil.example"}, 421, "foreign-host"},
		{"POST", "/v1/tasks", []string{"Origin", "https://evil.example"}, 403, "cross-origin"},
		{"POST", "/v1/tasks", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-origin"},
	} {
		r := w.do(c.method, c.path, "", c.headers...)
		require.Equal(t, c.status, r.status, c.path+r.body)
		require.Equal(t, c.code, r.problem(t).Code())
		require.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"))
	}
	require.Equal(t, "GET, HEAD, PUT", w.do("DELETE", "/v1/tasks/x", "").header.Get("Allow"))
	for _, host := range []string{"localhost:8642", "127.0.0.1", "[::1]:80", "LOCALHOST."} {
		require.Equal(t, 200, w.do("GET", "/v1/info", "", "Host", host).status, host)
	}
	// A process in a container listens on every address, and its port is published on a developer's loopback.
	everywhere := setup(t, func(c *api.Config) { c.Addr = "0.0.0.0:0" })
	for host, status := range map[string]int{"evil.example": 421, "evil.example:8642": 421, "127.0.0.1.evil.example": 421, "10.0.0.7:8642": 200, "localhost": 200} {
		require.Equal(t, status, everywhere.do("GET", "/v1/info", "", "Host", host).status, host)
	}
	require.Contains(t, everywhere.do("GET", "/v1/info", "", "Host", "evil.example").body, "--host NAME")
	for _, headers := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "null"}} {
		r := everywhere.do("POST", "/v1/tasks", good, append(headers, "Host", "10.0.0.7:8642")...)
		require.Equal(t, 403, r.status, headers)
		require.Equal(t, "cross-origin", r.problem(t).Code())
	}
	proxied := setup(t, func(c *api.Config) { c.Hosts = []string{"sagalog.example"} })
	require.Equal(t, 200, proxied.do("GET", "/v1/info", "", "Host", "sagalog.example").status)
}

func TestAPanicIsAnsweredAndTheServerContinues(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.Panic()
	r := w.do("GET", "/v1/tasks/x", "")
	require.Equal(t, 500, r.status)
	require.Equal(t, "internal", r.problem(t).Code())
	require.NotContains(t, r.body, "on purpose")
	require.Equal(t, 404, w.do("GET", "/v1/tasks/x", "").status)
	require.Contains(t, w.do("GET", "/metrics", "").body, `sagalog_api_requests_total{code="500",method="GET",route="/v1/tasks/{id}"} 1`)
}

func TestTheOpenAPIDocumentDescribesEveryCall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var fromYAML, fromJSON map[string]any
	r := w.do("GET", "/openapi.yaml", "")
	require.NoError(t, yaml.Unmarshal([]byte(r.body), &fromYAML))
	require.NoError(t, json.Unmarshal([]byte(w.do("GET", "/openapi.json", "").body), &fromJSON))
	require.Equal(t, "3.1.0", fromYAML["openapi"])
	paths := fromJSON["paths"].(map[string]any)
	for path, methods := range map[string][]string{
		"/v1/tasks": {"get", "post"}, "/v1/tasks/{id}": {"get", "put"}, "/v1/tasks/{id}/history": {"get"}, "/v1/tasks/{id}/cancel": {"post"},
		"/v1/tasks/{id}/retry": {"post"}, "/v1/workflows": {"get"}, "/v1/workflows/{name}": {"get", "put"}, "/v1/workflows/{name}/preview": {"post"}, "/v1/agents": {"get"},
		"/v1/partitions": {"get"}, "/v1/partitions/{partition}/takeovers": {"get"}, "/v1/dead-letters": {"get"}, "/v1/dead-letters/{id}": {"get"}, "/v1/dead-letters/{id}/redrive": {"post"},
		"/v1/reports/{ticket}": {"post"}, "/healthz": {"get"}, "/readyz": {"get"}, "/v1/info": {"get"}, "/v1/demo/break": {"put", "delete"},
	} {
		for _, m := range methods {
			op, ok := paths[path].(map[string]any)[m].(map[string]any)
			require.True(t, ok, path+m)
			require.Contains(t, op["responses"], "default")
		}
	}
	put := paths["/v1/tasks/{id}"].(map[string]any)["put"].(map[string]any)
	require.Contains(t, put["requestBody"].(map[string]any)["content"], "application/json")
	require.NotContains(t, r.body, "ErrorModel")
	require.NotContains(t, r.body, "$schema")
}

func TestABusyPortIsNamed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cfg := apitest.New().Config()
	cfg.Addr = strings.TrimPrefix(w.url, "http://")
	s, err := api.New(cfg)
	require.NoError(t, err)
	var busy *api.PortBusyError
	require.ErrorAs(t, s.Run(context.Background()), &busy)
	require.Contains(t, busy.Error(), "--http")
}

func TestAConfigurationReportsAllItsFaults(t *testing.T) {
	t.Parallel()
	_, err := api.New(api.Config{})
	require.ErrorContains(t, err, "Namespace")
	require.ErrorContains(t, err, "Gatherer")
}

func TestTheMetricsAreWellNamed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("GET", "/v1/info", "")
	problems, err := promlint.New(strings.NewReader(w.do("GET", "/metrics", "").body)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestPagesBesideTheAPIRefuseForeignHosts(t *testing.T) {
	t.Parallel()
	h := api.GuardHost(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for host, status := range map[string]int{"evil.example": 421, "127.0.0.1:6060": 204, "localhost:6060": 204, "[::1]:6060": 204, "": 421} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/debug/pprof/", nil)
		r.Host = host
		h.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, host)
	}
}
