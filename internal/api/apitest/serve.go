package apitest

import (
	"context"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/callback"
	"github.com/stretchr/testify/require"
)

// NamespaceID is the ID of the namespace of the API.
const NamespaceID = "6f1f2c0e-5a0b-5c8e-9d3e-2a6c7f6f5a11"

// CallbackSecret is the key of callbacks of the API.
const CallbackSecret = "0123456789abcdef0123456789abcdef"

// Callbacks returns the keys that sign and check tickets.
func Callbacks() *callback.Keys {
	keys, err := callback.NewKeys(CallbackSecret)
	if err != nil {
		panic(err) // the secret is a constant
	}
	return keys
}

// Config returns the configuration of an API in front of the engine, on a free port.
func (e *Engine) Config() api.Config {
	r := prometheus.NewRegistry()
	return api.Config{
		Addr: "127.0.0.1:0", Namespace: "test", NamespaceID: NamespaceID, Node: "node-a", Version: "1.2.3", Partitions: Partitions, SubmissionBytes: 4096,
		Tasks: e, Lists: e, Counts: e, Changes: e, Stats: e, Acts: Acts("node-a"), Nodes: Nodes("node-a"), Inputs: e, History: e, Rejections: e, Workflows: e, Deletions: e, Definitions: e, Settings: e, Losses: e, Pauses: e, Jobs: e, Schedules: e, Limits: e, NamedLimits: e, Appender: e, Cluster: e, Offers: e, DeadLetters: e, Alerts: e, Demo: e, Callbacks: Callbacks(),
		Ready: e.Ready, Delayed: e.Delayed, Registerer: r, Gatherer: r, Now: e.Now,
	}
}

// Serve runs an API in front of the engine until the test ends, and returns its URL.
func (e *Engine) Serve(t testing.TB, change ...func(*api.Config)) string {
	url, stop := e.Start(t, change...)
	t.Cleanup(stop)
	return url
}

// Start is Serve with a function that stops it and waits for the end.
func (e *Engine) Start(t testing.TB, change ...func(*api.Config)) (url string, stop func()) {
	cfg := e.Config()
	for _, c := range change {
		c(&cfg)
	}
	return Start(t, cfg)
}

// Start runs an API until stop is called, which waits for the end.
func Start(t testing.TB, cfg api.Config) (url string, stop func()) {
	s, err := api.New(cfg)
	require.NoError(t, err)
	require.NoError(t, s.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	scheme := "http://"
	if cfg.TLS != nil {
		scheme = "https://"
	}
	return scheme + s.Addr(), sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
}
