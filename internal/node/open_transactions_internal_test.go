package node

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// A transaction is shown once two looks found it. Brokers that fail between two looks neither end the notice nor begin one.
func TestAnOpenTransactionIsKnownByTwoLooks(t *testing.T) {
	t.Parallel()
	o := &openTransactions{topics: kafka.Topics{Namespace: "x"}, log: slog.New(slog.DiscardHandler), seen: map[place]*seenTransaction{},
		seconds: prometheus.NewDesc("sagalog_open_transaction_seconds", "x", []string{"topic", "partition"}, nil)}
	of := kafka.Partitions{"x.reports": {0, 1}}
	now := time.Now()
	look := func(asked kafka.Offsets, open ...kafka.OpenTransaction) int {
		now = now.Add(time.Second)
		o.judge(of, open, asked, now)
		shown := make(chan prometheus.Metric, 10)
		o.Collect(shown)
		return len(shown)
	}
	all := kafka.Offsets{"x.reports": {0: 5, 1: 9}}
	at := kafka.OpenTransaction{Topic: "x.reports", Partition: 0, Offset: 5}
	require.Zero(t, look(all, at))
	began := o.seen[place{"x.reports", 0}].since
	require.Zero(t, look(nil), "no broker answers")
	require.Zero(t, look(kafka.Offsets{"x.reports": {1: 9}}), "one of two does")
	require.Equal(t, 1, look(all, at))
	require.Equal(t, 1, look(nil), "it is not forgotten")
	require.Equal(t, began, o.seen[place{"x.reports", 0}].since)
	other := at
	other.Offset = 7
	require.Zero(t, look(all, other), "the first ended, and another began")
	require.Equal(t, 1, look(all, other))
	require.Zero(t, look(all), "it ended")
	other.At = events.At(now.Add(-time.Hour))
	look(all, other)
	require.Equal(t, now, o.seen[place{"x.reports", 0}].since, "the producer may have copied the time of its record")
	look(all, other)
	of = kafka.Partitions{"x.reports": {1}}
	require.Zero(t, look(kafka.Offsets{"x.reports": {1: 9}}), "another node owns the partition")
}
