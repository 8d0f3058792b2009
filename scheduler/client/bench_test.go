package client_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
)

// nowhere is a log that acknowledges everything at once and keeps nothing.
type nowhere struct{ offset atomic.Int64 }

// Produce implements api.Appender.
func (n *nowhere) Produce(_ context.Context, r events.Record, done func(int32, int64, error)) {
	done(r.Partition, n.offset.Add(1), nil)
}

// ProduceBatch implements api.Appender.
func (n *nowhere) ProduceBatch(_ context.Context, records []events.Record, done func(int, int32, int64, error)) {
	for i := range records {
		done(i, records[i].Partition, n.offset.Add(1), nil)
	}
}

// clients runs a benchmark through Kafka, on an embedded broker in memory, and through HTTP, on an API whose log is in
// memory.
func clients(b *testing.B, run func(b *testing.B, c *client.Client)) {
	b.Run("kafka", func(b *testing.B) {
		cluster := kafkatest.StartTCP(b)
		kafkatest.Create(b, cluster, kafka.Topics{Namespace: "sagalog"}.Base(partitions)...)
		c, err := client.Kafka(b.Context(), cluster.Brokers()...)
		require.NoError(b, err)
		defer c.Close()
		run(b, c)
	})
	b.Run("http", func(b *testing.B) {
		url := apitest.New().Serve(b, func(c *api.Config) { c.Appender, c.Now = new(nowhere), time.Now })
		c, err := client.HTTP(url)
		require.NoError(b, err)
		defer c.Close()
		run(b, c)
	})
}

func lampOrder(i int) client.Submission {
	return client.Submission{
		ID: fmt.Sprintf("order-%d", i), Workflow: "order", Input: []byte(`{"item":"lamp","customer":"c-17","amount":12.5}`),
		Labels: map[string]string{"region": "north"},
	}
}

// One operation is one submission out of about a thousand at once. The receiving side is in this process and is counted
// too.
func BenchmarkSubmitAll(b *testing.B) {
	clients(b, func(b *testing.B, c *client.Client) {
		list := make([]client.Submission, 0, 4000)
		b.ReportAllocs()
		for done := 0; done < b.N; done += len(list) {
			list = list[:0]
			for i := done; i < b.N && len(list) < cap(list); i++ {
				list = append(list, lampOrder(i))
			}
			for _, r := range c.SubmitAll(b.Context(), list) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
	})
}

// One operation is one submission by one of 64 goroutines.
func BenchmarkSubmit(b *testing.B) {
	clients(b, func(b *testing.B, c *client.Client) {
		var n atomic.Int64
		b.ReportAllocs()
		b.SetParallelism(64)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := c.Submit(b.Context(), lampOrder(int(n.Add(1)))); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
