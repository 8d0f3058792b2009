package kafkatest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// StepWait bounds one step of a test against any broker.
const StepWait = 2 * time.Minute

// Within returns a context that ends after StepWait, or with the test.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), StepWait)
	t.Cleanup(cancel)
	return ctx
}

// World is a cluster and a namespace that no other test uses.
type World struct {
	*kafka.Cluster
	Topics kafka.Topics
}

// NewWorld chooses a namespace.
func NewWorld(c *kafka.Cluster) World {
	return World{Cluster: c, Topics: kafka.Topics{Namespace: fmt.Sprintf("t%08x", rand.Uint32())}}
}

// ClusterConfig makes a World Reachable.
func (w World) ClusterConfig() kafka.ClusterConfig { return *w.Config() }

// Spec is the events topic with two partitions.
func (w World) Spec() kafka.TopicSpec {
	return kafka.TopicSpec{Name: w.Topics.Events(), Partitions: 2, MaxMessageBytes: kafka.MaxMessageBytes}
}

// Create creates the events topic and returns its name.
func (w World) Create(t testing.TB) string {
	t.Helper()
	Create(t, w.Cluster, w.Spec())
	return w.Topics.Events()
}

// Write sends values to partition 0, one record each, and returns their offsets.
func (w World) Write(t testing.TB, topic string, values ...string) []int64 {
	t.Helper()
	p, err := kafka.NewProducer(w.Cluster)
	require.NoError(t, err)
	defer p.Close()
	recs := make([]events.Record, len(values))
	for i, v := range values {
		recs[i] = events.Record{Topic: topic, Key: []byte("k"), Value: []byte(v)}
	}
	offsets, err := p.ProduceSync(Within(t), recs...)
	require.NoError(t, err)
	return offsets
}

// Reader opens a reader that ends with the test.
func (w World) Reader(t testing.TB, cfg kafka.ReaderConfig) *kafka.Reader {
	t.Helper()
	r, err := kafka.NewReader(w.Cluster, cfg)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// Read polls until n records have arrived.
func Read(t testing.TB, r *kafka.Reader, n int) []events.Record {
	t.Helper()
	var out []events.Record
	for len(out) < n {
		fetches, err := r.Poll(Within(t))
		require.NoError(t, err)
		for _, f := range fetches {
			require.NoError(t, f.Err)
			out = append(out, f.Records...)
		}
	}
	return out
}

// ReadTo polls until the position has reached next, and returns it.
func ReadTo(t testing.TB, r *kafka.Reader, next int64) int64 {
	t.Helper()
	for {
		fetches, err := r.Poll(Within(t))
		require.NoError(t, err)
		for _, f := range fetches {
			require.NoError(t, f.Err)
			if f.Next >= next {
				return f.Next
			}
		}
	}
}

// Values returns the values of the records that are not markers.
func Values(recs []events.Record) []string {
	out := []string{}
	for _, r := range recs {
		if !r.Control {
			out = append(out, string(r.Value))
		}
	}
	return out
}

// Client opens a bare client of the library, for requests that package kafka does not offer. It ends with the test.
func Client(t testing.TB, b Reachable, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cfg := b.ClusterConfig()
	all := []kgo.Opt{kgo.SeedBrokers(cfg.Brokers...)}
	switch {
	case cfg.Dialer != nil:
		all = append(all, kgo.Dialer(cfg.Dialer))
	case cfg.TLS != nil:
		all = append(all, kgo.DialTLSConfig(cfg.TLS))
	}
	if cfg.SASL != nil {
		mechanism, err := cfg.SASL.Authenticator()
		require.NoError(t, err)
		all = append(all, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(append(all, opts...)...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}
