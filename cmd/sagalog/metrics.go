package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sagalog/sagalog/internal/api"
)

// serveMetrics serves /metrics and /healthz until ctx ends, for a process that serves no API. Metrics have
// the names of workflows, steps and agents in their labels, but never a task ID.
func serveMetrics(ctx context.Context, l net.Listener, g prometheus.Gatherer, hosts []string) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok"}` + "\n")) // if writing fails, the caller has gone
	})
	s := &http.Server{Handler: api.GuardHost(mux, hosts...), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// listenMetrics listens at the address of --metrics.
func (s *serving) listenMetrics(context.Context) (err error) {
	if s.cfg.metrics == "" {
		return nil
	}
	if s.metricsAt, err = net.Listen("tcp", s.cfg.metrics); err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	return nil
}
