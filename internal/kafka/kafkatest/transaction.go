package kafkatest

import (
	"testing"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Transaction is somebody else's producer with an open Kafka transaction: nothing of ours opens one.
type Transaction struct {
	t      testing.TB
	client *kgo.Client
}

// BeginTransaction opens a transaction at a broker.
func BeginTransaction(t testing.TB, b Reachable) *Transaction {
	t.Helper()
	cfg := b.ClusterConfig()
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...), kgo.TransactionalID(uuid.NewString()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if cfg.Dialer != nil {
		opts = append(opts, kgo.Dialer(cfg.Dialer))
	}
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.BeginTransaction())
	return &Transaction{t, client}
}

// Produce writes records inside the transaction; they are in the log on return, and not committed.
func (x *Transaction) Produce(records ...events.Record) {
	x.t.Helper()
	for _, r := range records {
		k := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		require.NoError(x.t, x.client.ProduceSync(x.t.Context(), k).FirstErr())
	}
}

// Commit ends the transaction, and Abort takes it back.
func (x *Transaction) Commit() {
	x.t.Helper()
	require.NoError(x.t, x.client.EndTransaction(x.t.Context(), kgo.TryCommit))
}

// Abort ends the transaction; what it wrote is never seen by who reads committed.
func (x *Transaction) Abort() {
	x.t.Helper()
	require.NoError(x.t, x.client.EndTransaction(x.t.Context(), kgo.TryAbort))
}
