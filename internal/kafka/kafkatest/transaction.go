package kafkatest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Transaction is a foreign producer with an open Kafka transaction. Our own code never opens one.
type Transaction struct {
	t      testing.TB
	client *kgo.Client
}

// transactionTimeout is the longest that brokers allow by default, so that no broker aborts during a test.
const transactionTimeout = 15 * time.Minute

// BeginTransaction opens a transaction at a broker.
func BeginTransaction(t testing.TB, b Reachable) *Transaction {
	t.Helper()
	client := Client(t, b, kgo.TransactionalID(uuid.NewString()), kgo.TransactionTimeout(transactionTimeout), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, client.BeginTransaction())
	return &Transaction{t, client}
}

// Produce writes records in the transaction. On return they are in the log, uncommitted.
func (x *Transaction) Produce(records ...events.Record) {
	x.t.Helper()
	for _, r := range records {
		require.NoError(x.t, x.Try(x.t.Context(), r))
	}
}

// Try is Produce while brokers may refuse.
func (x *Transaction) Try(ctx context.Context, r events.Record) error {
	k := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return x.client.ProduceSync(ctx, k).FirstErr()
}

// End commits or aborts the transaction while brokers may refuse.
func (x *Transaction) End(ctx context.Context, commits bool) error {
	return x.client.EndTransaction(ctx, kgo.TransactionEndTry(commits))
}

// Commit commits the transaction.
func (x *Transaction) Commit() {
	x.t.Helper()
	require.NoError(x.t, x.client.EndTransaction(x.t.Context(), kgo.TryCommit))
}

// Abort aborts the transaction.
func (x *Transaction) Abort() {
	x.t.Helper()
	require.NoError(x.t, x.client.EndTransaction(x.t.Context(), kgo.TryAbort))
}
