package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
)

// This file is the only one of the package that knows internal/kafka, so that a Go program needs one call to become
// an agent. All else speaks to Source and Sink.

// closeWait bounds how long leaving the groups takes, all at once; without an answer they notice by themselves.
const closeWait = 2 * time.Second

// DialConfig says how to reach the engine's Kafka.
type DialConfig struct {
	// Brokers are host:port of some brokers. Required.
	Brokers []string
	// TLS is nil for plain text.
	TLS *tls.Config
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; empty for no authentication.
	Mechanism, User, Password string
	// Config is the rest. Sources and Sink are made by Dial; the default Instance is host name and a random part.
	Config
}

// Connection is a Runner with the Kafka clients that it uses.
type Connection struct {
	*Runner
	groups   []*kafka.Group
	producer *kafka.Producer
	cluster  *kafka.Cluster
}

// Dial connects the agents of a registry to the engine's Kafka and checks that it answers. Then Run works until its
// context ends, and closes the connection.
func Dial(ctx context.Context, r *Registry, c DialConfig) (*Connection, error) {
	var sasl *kafka.SASL
	if c.Mechanism != "" {
		sasl = &kafka.SASL{Mechanism: c.Mechanism, User: c.User, Password: c.Password}
	}
	cluster, err := kafka.Connect(kafka.ClusterConfig{
		Brokers: c.Brokers, TLS: c.TLS, SASL: sasl, ClientID: "sagalog-agent", Logger: c.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("connect agents: %w", err)
	}
	if err := cluster.Ping(ctx); err != nil {
		cluster.Close()
		return nil, fmt.Errorf("connect agents: %w", err)
	}
	out, err := Attach(ctx, cluster, r, c.Config)
	if err != nil {
		cluster.Close()
		return nil, err
	}
	out.cluster = cluster
	return out, nil
}

// Attach is Dial on a cluster that is connected already, and stays the caller's. It makes the work topics that are
// missing, with as many partitions as the namespace has.
func Attach(ctx context.Context, cluster *kafka.Cluster, r *Registry, c Config) (*Connection, error) {
	c.withDefaults()
	if c.Instance == "" {
		c.Instance = defaultInstance()
	}
	topics := kafka.Topics{Namespace: c.Namespace}
	partitions, err := cluster.Partitions(ctx, topics.Submissions())
	if err != nil {
		return nil, fmt.Errorf("connect agents: find namespace %s: %w", c.Namespace, err)
	}
	var specs []kafka.TopicSpec
	for _, name := range r.Agents() {
		specs = append(specs, topics.WorkSpec(name, partitions))
	}
	if err := kafka.EnsureTopics(ctx, cluster, specs...); err != nil {
		return nil, fmt.Errorf("connect agents: %w", err)
	}
	out := &Connection{}
	if err := out.open(cluster, r, &c); err != nil {
		out.close()
		return nil, fmt.Errorf("connect agents: %w", err)
	}
	return out, nil
}

// open joins a group for each agent, as a static member under the instance's name. So a quick restart under a name that
// somebody chose moves no partition, and an instance that falls silent can be removed by the name in its beats, before
// its session ends.
func (c *Connection) open(cluster *kafka.Cluster, r *Registry, config *Config) error {
	producer, err := kafka.NewProducer(cluster)
	if err != nil {
		return err
	}
	c.producer = producer
	config.Sink = producerSink{producer}
	config.Sources = map[string]Source{}
	for _, name := range r.Agents() {
		topic := kafka.Topics{Namespace: config.Namespace}.Work(name)
		g, err := kafka.NewGroup(cluster, kafka.GroupConfig{
			Group: config.Namespace + ".agents." + name, Topics: []string{topic}, InstanceID: config.Instance,
		})
		if err != nil {
			return err
		}
		c.groups = append(c.groups, g)
		config.Sources[name] = groupSource{group: g, topic: topic, instance: config.Instance}
	}
	c.Runner, err = NewRunner(r, *config)
	return err
}

// Run works until ctx ends, as Runner.Run, and then leaves the groups and closes what Dial opened.
func (c *Connection) Run(ctx context.Context) error {
	defer c.close()
	return c.Runner.Run(ctx)
}

func (c *Connection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var leaving sync.WaitGroup
	for _, g := range c.groups {
		// Nothing hangs on the answer: a member that did not say goodbye is missed after a session.
		leaving.Go(func() { _ = g.Leave(ctx) })
	}
	leaving.Wait()
	if c.producer != nil {
		c.producer.Close()
	}
	if c.cluster != nil {
		c.cluster.Close()
	}
}

func defaultInstance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "agent"
	}
	return host + "-" + uuid.NewString()[:8]
}

// groupSource is a member of a consumer group as a Source.
type groupSource struct {
	group           *kafka.Group
	topic, instance string
}

func (s groupSource) Poll(ctx context.Context, most int) ([]events.Record, error) {
	records, err := s.group.Poll(ctx, most)
	switch {
	case errors.Is(err, kafka.ErrFenced):
		err = &FencedError{Instance: s.instance}
	case errors.Is(err, kafka.ErrClosed), errors.Is(err, kafka.ErrDenied), errors.Is(err, kafka.ErrRecreated):
		err = fmt.Errorf("%w: %w", ErrSourceClosed, err)
	}
	return records, err
}

func (s groupSource) Assigned(partition int32) Assigned {
	from, lost := s.group.LostFrom(s.topic, partition)
	return Assigned{
		Mark: Mark(s.group.Mark(s.topic, partition)), Shared: s.group.Shared(s.topic, partition), Lost: lost, LostFrom: from,
	}
}

func (s groupSource) Confirm(ctx context.Context) (map[int32]int64, error) {
	held, err := s.group.Confirm(ctx)
	return held[s.topic], err
}

func (s groupSource) Commit(ctx context.Context, marks map[int32]Mark) (map[int32]Mark, error) {
	wanted := make(map[int32]kafka.Mark, len(marks))
	for p, m := range marks {
		wanted[p] = kafka.Mark(m)
	}
	stored, err := s.group.CommitMarks(ctx, kafka.Marks{s.topic: wanted})
	out := make(map[int32]Mark, len(marks))
	for p, m := range stored[s.topic] {
		out[p] = Mark(m)
	}
	return out, err
}

func (s groupSource) Partitions() []int32 { return s.group.Assigned()[s.topic] }

// producerSink is the shared producer as a Sink.
type producerSink struct{ producer *kafka.Producer }

// Produce looks at ctx only where it has to wait for room. A record that the producer has taken is on its way in any case,
// and to watch for the end of each one's context would cost as much as to send it: the lane lets go of what has no answer
// in time by itself.
func (s producerSink) Produce(ctx context.Context, r events.Record, done func(error)) {
	s.producer.TryProduce(context.Background(), r, func(_ int32, _ int64, err error) {
		if errors.Is(err, kafka.ErrBufferFull) {
			s.producer.Produce(ctx, r, func(_ int32, _ int64, err error) { done(err) })
			return
		}
		done(err)
	})
}
