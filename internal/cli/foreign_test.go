package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Another service may answer every call with JSON, which looks like an engine without tasks.
func TestAnotherServiceIsNotTakenForAnEngine(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "BaseHTTP/0.6")
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(`{"type":"about:blank","status":404,"path":"/x"}`))
	}))
	t.Cleanup(s.Close)
	for _, args := range []string{"task list", "task list -o json", "task get x", "task get x --wait", "alert list", "task history x", "task watch x", "task cancel x", "task submit -w w --id x"} {
		r := run(append(strings.Fields(args), "--api", s.URL)...)
		require.Equal(t, 1, r.code, "%s: %s %s", args, r.out, r.err)
		require.Contains(t, r.err, "but not as a Sagalog engine does (it calls itself BaseHTTP/0.6)", args)
	}
	r := run("limit", "delete", "x", "--api", s.URL)
	require.Equal(t, 1, r.code, r.err)
	require.Contains(t, r.err, "not an answer of a Sagalog engine")
}

// A proxy may remove the header, and pass on nothing but /v1. What the engine did must not be called a failure.
func TestAnEngineBehindAProxyThatRemovesHeadersIsUsed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusUnauthorized, http.StatusBadGateway} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/openapi.json" {
				w.WriteHeader(status)
				return
			}
			_, _ = w.Write([]byte(`{"tasks":[],"as_of":[]}`))
		}))
		t.Cleanup(s.Close)
		r := run("task", "list", "--api", s.URL)
		require.Equal(t, 0, r.code, r.err)
	}
}
