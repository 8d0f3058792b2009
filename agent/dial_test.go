package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
)

// One attempt over a real broker and real sockets: the request is read from the work topic, reported to its owner and
// committed, and the presence topic shows the instance.
func TestDialWorksOverKafka(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	broker, err := embedded.Open(embedded.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Close()) }()
	cluster, err := kafka.Connect(broker.ClusterConfig())
	require.NoError(t, err)
	defer cluster.Close()
	topics := kafka.Topics{Namespace: "sagalog"}

	r := handle(echo)
	_, err = agent.Dial(ctx, r, agent.DialConfig{Brokers: []string{broker.Addr()}})
	require.ErrorContains(t, err, "find namespace sagalog")

	require.NoError(t, kafka.EnsureTopics(ctx, cluster, topics.Base(4)...))
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	a, err := agent.Dial(ctx, r, agent.DialConfig{Brokers: []string{broker.Addr()}, Config: agent.Config{Instance: "i-1", Log: log}})
	require.NoError(t, err)
	require.Regexp(t, `level=INFO msg="agents are connected" agents=\[package\] instance=i-1 namespace=sagalog brokers=\[`+broker.Addr()+`\] topics=\[sagalog\.work\.package\] version=`, said.String())
	stop, halt := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(stop) }()

	producer, err := kafka.NewProducer(cluster)
	require.NoError(t, err)
	defer producer.Close()
	w := events.Work{
		Task: "t-1", Run: 1, Step: "pack", Agent: "package", Operation: events.Do, Attempt: 1, Home: 3, Ticket: "k",
		CompleteBy: events.At(time.Now().Add(20 * time.Second)), Input: json.RawMessage(`{"id":"p"}`),
	}
	record, err := events.EncodeWork(w, events.Subject{ID: "w"})
	require.NoError(t, err)
	record.Topic, record.Partition = topics.Work("package"), 2
	_, err = producer.ProduceSync(ctx, record)
	require.NoError(t, err)

	report := first(ctx, t, cluster, topics.Reports(), 3)
	require.Contains(t, string(report.Value), `"output":{"id":"p"}`)
	require.Contains(t, string(report.Value), `"ticket":"k"`)
	beat := first(ctx, t, cluster, topics.Presence(), 0)
	p, err := events.DecodePresence(&beat)
	require.NoError(t, err)
	require.Equal(t, "i-1", p.Instance)

	halt()
	require.NoError(t, <-ended)
	offsets, err := cluster.CommittedOffsets(ctx, "sagalog.agents.package")
	require.NoError(t, err)
	require.EqualValues(t, 1, offsets[topics.Work("package")][2])
}

// first returns the first record of a partition.
func first(ctx context.Context, t *testing.T, c *kafka.Cluster, topic string, partition int32) events.Record {
	t.Helper()
	g, err := kafka.NewGroup(c, kafka.GroupConfig{Group: "test." + topic, Topics: []string{topic}})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Leave(ctx)) }()
	for {
		records, err := g.Poll(ctx, 1)
		require.NoError(t, err)
		for _, r := range records {
			if r.Partition == partition {
				return r
			}
		}
	}
}
