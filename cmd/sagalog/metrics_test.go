package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process without an API serves its metrics where --metrics says.
func TestMetricsAreServedWithoutAnAPI(t *testing.T) {
	t.Parallel()
	s := &serving{process: newProcess(true)}
	s.cfg.metrics = "127.0.0.1:0"
	require.NoError(t, s.listenMetrics(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveMetrics(ctx, s.metricsAt, s.process.metrics, []string{"agents-1"}) }()
	for path, holds := range map[string]string{"/metrics": "sagalog_build_info{", "/healthz": `{"status":"ok"}`} {
		r, err := http.Get("http://" + s.metricsAt.Addr().String() + path)
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, http.StatusOK, r.StatusCode)
		require.Contains(t, string(body), holds)
	}
	for host, status := range map[string]int{"agents-1:9090": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.metricsAt.Addr().String()+"/metrics", nil)
		require.NoError(t, err)
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode, host)
	}
	again := &serving{}
	again.cfg.metrics = s.metricsAt.Addr().String()
	require.ErrorContains(t, again.listenMetrics(t.Context()), "--metrics: listen tcp 127.0.0.1:")
	cancel()
	require.NoError(t, <-ended)
	_, err := s.metricsAt.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}
