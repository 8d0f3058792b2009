package kafkatest

import (
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// At is a cluster of another process: its brokers, separated by commas.
type At string

// ClusterConfig implements Reachable.
func (a At) ClusterConfig() kafka.ClusterConfig {
	return kafka.ClusterConfig{Brokers: strings.Split(string(a), ",")}
}

// ProduceTo writes a record into partition 0 of a topic, as any other program can.
func ProduceTo(t testing.TB, b Reachable, topic, key, value string) {
	t.Helper()
	c := Client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr())
}

// OpenTransaction leaves a record in partition 0 of a topic in an open transaction, until the result is called.
func OpenTransaction(t testing.TB, b Reachable, topic string) (abort func()) {
	t.Helper()
	c := Client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("left-open"), kgo.TransactionTimeout(10*time.Minute))
	require.NoError(t, c.BeginTransaction())
	require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("x"), Value: []byte("{")}).FirstErr())
	return func() { require.NoError(t, c.EndTransaction(t.Context(), kgo.TryAbort)) }
}
