package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/sagalog/sagalog/agent/transport"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/sagalog/sagalog/internal/sealing"
)

// This file is the only one of the package that imports internal/kafka, so that a Go program needs one call to become
// an agent. Everything else uses package transport.

// DialConfig says how to reach the engine's Kafka.
type DialConfig struct {
	// Brokers are host:port of some brokers. Required.
	Brokers []string
	// TLS is nil for plain text.
	TLS *tls.Config
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty for no authentication.
	Mechanism, User, Password string
	// SealKeyFile is the file with the key by which the content of tasks is sealed: the one of the nodes (--seal-key-file). Empty if nothing is
	// sealed. It is ignored if Config has Keys.
	SealKeyFile string
	// Config holds the other settings. Dial creates Sources and Sink. The default Instance is the host name with a random
	// suffix.
	Config
}

// Connection is a Runner with the connection that it uses.
type Connection struct {
	*Runner
	agents []string
	close  func()
}

// Dial connects the agents of a registry to the engine's Kafka, checks that it answers, and logs to what it is connected. Then Run works until its
// context ends, and closes the connection.
func Dial(ctx context.Context, r *Registry, c DialConfig) (*Connection, error) {
	if r == nil {
		return nil, fmt.Errorf("connect agents: %w", errNoRegistry)
	}
	var sasl *kafka.SASL
	if c.Mechanism != "" {
		sasl = &kafka.SASL{Mechanism: c.Mechanism, User: c.User, Password: c.Password}
	}
	cluster, err := kafka.Connect(kafka.ClusterConfig{
		Brokers: c.Brokers, TLS: c.TLS, SASL: sasl, ClientID: "sagalog-agent", Role: "agent", Logger: c.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("connect agents: %w", err)
	}
	if err := cluster.Ping(ctx); err != nil {
		cluster.Close()
		return nil, fmt.Errorf("connect agents: %w", err)
	}
	stopKeys, err := c.openKeys(ctx, cluster)
	if err != nil {
		cluster.Close()
		return nil, fmt.Errorf("connect agents: %w", err)
	}
	out, err := Attach(ctx, work.Over(cluster), r, c.Config)
	if err != nil {
		stopKeys()
		cluster.Close()
		return nil, err
	}
	leave := out.close
	out.close = func() { leave(); stopKeys(); cluster.Close() }
	out.greet(c.Brokers)
	return out, nil
}

// greet logs what the agents are connected to.
func (c *Connection) greet(brokers []string) {
	topics := make([]string, len(c.agents))
	for i, name := range c.agents {
		topics[i] = kafka.Topics{Namespace: c.config.Namespace}.Work(name)
	}
	c.config.Log.Info("agents are connected", "agents", c.agents, "instance", c.config.Instance, "namespace", c.config.Namespace, "brokers", brokers, "topics", topics, "version", kafka.Version())
}

// openKeys reads the keys, and follows them until stop is called.
func (c *DialConfig) openKeys(ctx context.Context, cluster *kafka.Cluster) (stop func(), err error) {
	if c.SealKeyFile == "" || c.Keys != nil {
		return func() {}, nil
	}
	c.withDefaults()
	file, err := sealing.OpenKeyFile(c.SealKeyFile, c.Log)
	if err != nil {
		return nil, err
	}
	keys, err := sealing.Open(ctx, cluster, c.Namespace, file, c.Log)
	if err != nil {
		return nil, err
	}
	c.Keys = keys
	_ = c.Registerer.Register(keys.Collector()) // another connection of this process may have done so
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error)
	go func() { done <- keys.Run(following) }()
	return func() { cancel(); <-done }, nil
}

// Attach is Dial over a broker that the caller has connected, and closes after Run has returned.
func Attach(ctx context.Context, b transport.Broker, r *Registry, c Config) (*Connection, error) {
	if r == nil {
		return nil, fmt.Errorf("connect agents: %w", errNoRegistry)
	}
	c.withDefaults()
	if c.Instance == "" {
		c.Instance = defaultInstance()
	}
	started := time.Now()
	link, err := b.Open(ctx, transport.Opening{Namespace: c.Namespace, Instance: c.Instance, Agents: r.Agents(), Started: started})
	if err != nil {
		return nil, fmt.Errorf("connect agents: %w", err)
	}
	c.Sources, c.Sink = link.Sources, link.Sink
	runner, err := NewRunner(r, c)
	if err != nil {
		link.Close()
		return nil, fmt.Errorf("connect agents: %w", err)
	}
	runner.started = started
	return &Connection{Runner: runner, agents: r.Agents(), close: link.Close}, nil
}

// Run works until ctx ends, as Runner.Run, and then leaves the groups and closes what Dial opened. A second call returns an error.
func (c *Connection) Run(ctx context.Context) error {
	if c.begun.Swap(true) {
		return errRunTwice
	}
	defer c.close()
	return c.run(ctx)
}

func defaultInstance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "agent"
	}
	return host + "-" + uuid.NewString()[:8]
}

// unheard logs once that heartbeats are refused. The next one makes up for one that is lost in another way.
func (r *Runner) unheard(err error) {
	if _, denied := errors.AsType[*kafka.DeniedError](err); denied {
		r.refused.Do(func() {
			r.config.Log.Error("nodes take this instance for dead: its heartbeats are refused", "error", err)
		})
	}
}
