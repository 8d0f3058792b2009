package sagalogtest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/scheduler/client"
)

// Engine is an engine in the process of a test. Its methods are for the goroutine of the test; they end the test if they fail. Those of an
// engine that Open started panic instead.
type Engine struct {
	t   host
	cfg config
	// network connects everything in a bubble; nil in real time.
	network *embedded.VirtualNetwork
	broker  *embedded.Broker
	dir     string
	node    *running
	// addr is the address of the API. A node that is started again listens there.
	addr   string
	client *client.Engine
	agents int
	// stopped says that the test has ended, or that stop of Open was called.
	stopped atomic.Bool
}

// config is what options change.
type config struct {
	partitions int
	log        *slog.Logger
}

// Option changes how an engine runs.
type Option func(*config)

// Partitions is the number of partitions. Default 2: enough to find code that depends on the order of tasks, and quick to start.
func Partitions(n int) Option { return func(c *config) { c.partitions = n } }

// Log takes what the engine and its agents log. Default: nothing is logged.
func Log(l *slog.Logger) Option { return func(c *config) { c.log = l } }

const (
	// startWithin bounds a start, which takes less than a second of a free machine.
	startWithin = 2 * time.Minute
	// partitionsMost is far more than a test can use.
	partitionsMost = 1000
	// virtualAPI is the address of the API in a bubble; the broker has the one before it.
	virtualAPI = "127.0.0.1:9093"
	realAPI    = "127.0.0.1:0"
	// virtualTick is how late a timer may be noticed in a bubble: five times as late as otherwise, because the engine's ticks are much of what
	// an hour costs there.
	virtualTick = 250 * time.Millisecond
	// virtualIdle is how often an idle agent calls the broker in a bubble, four times as seldom as otherwise. An agent that starts may get its first
	// request that late.
	virtualIdle = 2 * time.Second
)

// Start runs an engine until the test ends: in virtual time if it is called in a testing/synctest bubble, otherwise in real time.
func Start(t testing.TB, options ...Option) *Engine {
	t.Helper()
	return startFor(t, options)
}

func startFor(t host, options []Option) *Engine {
	t.Helper()
	e := &Engine{t: t, cfg: config{partitions: 2, log: slog.New(slog.DiscardHandler)}, addr: realAPI}
	for _, o := range options {
		o(&e.cfg)
	}
	if e.cfg.partitions < 1 || e.cfg.partitions > partitionsMost {
		t.Fatalf("Partitions(%d): an engine has 1 to %d", e.cfg.partitions, partitionsMost)
	}
	e.dir = t.TempDir()
	if inBubble() {
		e.network, e.addr = new(embedded.VirtualNetwork), virtualAPI
	}
	var err error
	if e.broker, err = embedded.Open(embedded.Config{Network: e.network, Logger: e.cfg.log}); err != nil {
		t.Fatalf("start the broker: %s", err)
	}
	t.Cleanup(func() { _ = e.broker.Close() }) // what it held was in memory
	e.start()
	t.Cleanup(e.stop)
	e.connect()
	t.Cleanup(func() { e.stopped.Store(true) })
	return e
}

// live ends a test that uses an engine after its end.
func (e *Engine) live() {
	e.t.Helper()
	if e.stopped.Load() {
		e.t.Fatalf("the engine was stopped")
	}
}

// inBubble says whether the caller is in a bubble, by the one call that is refused outside.
func inBubble() (in bool) {
	defer func() { in = recover() == nil }()
	synctest.Wait()
	return true
}

// running is something that runs until it is stopped.
type running struct {
	stop context.CancelFunc
	// ended is closed when it has ended; from then on err does not change.
	ended chan struct{}
	err   error
}

// run runs f and then closes the connection to the broker that f has for itself.
func run(f func(context.Context) error, cluster *kafka.Cluster) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = f(ctx)
		cluster.Close()
	}()
	return r
}

// end may be called again: a node that could not start again has ended before.
func (r *running) end() error {
	r.stop()
	<-r.ended
	return r.err
}

func (e *Engine) start() {
	e.t.Helper()
	cluster := e.cluster()
	cfg := node.Config{
		Cluster: cluster, Name: "test", Dir: e.dir, Partitions: int32(e.cfg.partitions), Alone: true, HTTP: e.addr, Version: "test", Logger: e.cfg.log,
	}
	if e.network != nil {
		cfg.Tick = virtualTick
		cfg.Listen = func(addr string) (net.Listener, error) { return e.network.Listen("tcp", addr) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	n, err := node.Open(ctx, cfg)
	if err != nil {
		cluster.Close()
		e.t.Fatalf("start the engine: %s", err)
	}
	if e.network == nil {
		e.addr = n.Addr()
	}
	e.node = run(n.Run, cluster)
}

func (e *Engine) stop() {
	if err := e.node.end(); err != nil {
		e.t.Errorf("the engine ended with an error: %s", err)
	}
}

// Restart stops the node and starts it again on the same log, as an upgrade does. Agents and clients go on.
func (e *Engine) Restart() {
	e.t.Helper()
	e.live()
	e.stop()
	e.start()
}

func (e *Engine) cluster() *kafka.Cluster {
	e.t.Helper()
	c, err := kafka.Connect(e.broker.ClusterConfig())
	if err != nil {
		e.t.Fatalf("connect to the broker: %s", err)
	}
	return c
}

func (e *Engine) connect() {
	e.t.Helper()
	transport := &http.Transport{}
	if e.network != nil {
		transport.DialContext = e.network.DialContext
	}
	var err error
	if e.client, err = client.OpenWith(client.HTTPConfig{URL: e.URL(), Client: &http.Client{Transport: transport}}); err != nil {
		e.t.Fatalf("open a client: %s", err)
	}
	e.t.Cleanup(func() {
		e.client.Close()
		transport.CloseIdleConnections()
	})
}

// Client returns a client of the engine. It ends with the test: its calls then return client.ErrClosed.
func (e *Engine) Client() *client.Engine { return e.client }

// URL is the address of the API and the page, for programs and for people who look at a test that stands still. In a bubble only Client
// reaches it.
func (e *Engine) URL() string { return "http://" + e.addr }

// Brokers are the addresses of the broker, for Kafka clients. In a bubble nothing reaches them.
func (e *Engine) Brokers() []string { return []string{e.broker.Addr()} }

// Apply applies the definition of a workflow, in YAML or JSON.
func (e *Engine) Apply(definition string) {
	e.t.Helper()
	e.live()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	if _, err := e.client.Apply(ctx, []byte(definition)); err != nil {
		e.t.Fatalf("apply a definition: %s", err)
	}
}

// Serve runs agents until the test ends, or until stop is called. Agents that are stopped finish what they do, as at the end of their
// process.
func (e *Engine) Serve(r *agent.Registry) (stop func()) {
	e.t.Helper()
	e.live()
	cluster := e.cluster()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	e.agents++
	broker := work.Over(cluster)
	if e.network != nil {
		broker = broker.Calm(virtualIdle)
	}
	c, err := agent.Attach(ctx, broker, r, agent.Config{Instance: fmt.Sprintf("test-%d", e.agents), Log: e.cfg.log})
	if err != nil {
		cluster.Close()
		e.t.Fatalf("start the agents: %s", err)
	}
	agents := run(c.Run, cluster)
	stop = sync.OnceFunc(func() {
		if err := agents.end(); err != nil {
			e.t.Errorf("the agents ended with an error: %s", err)
		}
	})
	e.t.Cleanup(stop)
	return stop
}
