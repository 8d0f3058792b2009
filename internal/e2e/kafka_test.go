package e2e

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

var topics = kafka.Topics{Namespace: "sagalog"}

// cluster connects to the engine as any Kafka client would.
func (e *engine) cluster() *kafka.Cluster {
	e.t.Helper()
	c, err := kafka.Connect(kafka.ClusterConfig{Brokers: []string{e.Kafka}, ClientID: "e2e", Embedded: true})
	require.NoError(e.t, err)
	e.t.Cleanup(c.Close)
	return c
}

// client is a producer that sends each record until it is acknowledged, whatever happens to the engine.
type client struct {
	p *kafka.Producer
	// again counts the records that were resent after an error.
	again atomic.Int64
}

func newClient(t *testing.T, c *kafka.Cluster) *client {
	t.Helper()
	p, err := kafka.NewProducer(c)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return &client{p: p}
}

// send returns when the record is acknowledged. The record may then be in the log twice.
func (c *client) send(ctx context.Context, r events.Record) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := c.p.ProduceSync(ctx, r)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		c.again.Add(1)
	}
}

// submission is a record as a plain Kafka client writes it.
func submission(partition int32, id string, body []byte) events.Record {
	return events.Record{Topic: topics.Submissions(), Partition: partition, Key: []byte(id), Value: body}
}

// records reads a whole topic.
func records(t *testing.T, c *kafka.Cluster, topic string, fn func(events.Record)) {
	t.Helper()
	n, err := c.Partitions(t.Context(), topic)
	require.NoError(t, err)
	for p := range n {
		from, err := c.StartOffset(t.Context(), topic, p)
		require.NoError(t, err)
		require.NoError(t, c.ReadRange(t.Context(), topic, p, from, -1, func(r events.Record) error {
			if !r.Control {
				fn(r)
			}
			return nil
		}))
	}
}

// folded is a partition that was folded from nothing.
type folded struct {
	hash  events.Hash
	void  int64
	facts int
}

// fold folds a partition of events from its beginning to an offset. It uses no other topic and no store.
func fold(t *testing.T, c *kafka.Cluster, p int32, to int64) folded {
	t.Helper()
	s := events.NewState(p, nil)
	var out folded
	require.NoError(t, c.ReadRange(t.Context(), topics.Events(), p, 0, to, func(r events.Record) error {
		f, err := events.DecodeFact(&r)
		if err != nil {
			return err
		}
		fate, err := s.Apply(f, r.Offset)
		if fate == events.FateAccepted {
			out.facts++
		}
		return err
	}))
	var err error
	out.hash, err = s.Hash()
	require.NoError(t, err)
	out.void = s.Void
	return out
}
