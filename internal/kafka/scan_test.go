package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Scan and ReadRange show the same records, from compressed and other batches.
func TestAScanShowsWhatARangeShows(t *testing.T) {
	t.Parallel()
	for _, compressed := range []bool{false, true} {
		t.Run(fmt.Sprintf("compressed %t", compressed), func(t *testing.T) {
			t.Parallel()
			broker := kafkatest.StartBroker(t, embedded.Config{Dir: t.TempDir()})
			cfg := broker.ClusterConfig()
			cfg.Embedded = !compressed
			c, err := kafka.Connect(cfg)
			require.NoError(t, err)
			t.Cleanup(c.Close)
			require.NoError(t, kafka.EnsureTopics(t.Context(), c, kafka.TopicSpec{Name: "x", Partitions: 3, MaxMessageBytes: kafka.MaxMessageBytes}))
			p, err := kafka.NewProducer(c)
			require.NoError(t, err)
			t.Cleanup(p.Close)
			const count = 400
			produce := func(from int) error {
				var list []events.Record
				for i := from; i < from+count/2; i++ {
					list = append(list, scanned(i))
				}
				_, err := p.ProduceSync(t.Context(), list...)
				return err
			}
			require.NoError(t, produce(0))
			second := make(chan error, 1)
			got := map[int32][]events.Record{}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			n, batches := 0, 0
			err = kafka.Scan(ctx, c, kafka.ScanConfig{Topic: "x", Partitions: 3, Batch: func() { batches++ }}, func(r *events.Record) error {
				got[r.Partition] = append(got[r.Partition], kept(*r))
				if n++; n == count/2 {
					go func() { second <- produce(count / 2) }() // these arrive while the scan waits
				}
				if n == count {
					stop()
				}
				return nil
			})
			require.NoError(t, err)
			require.NoError(t, <-second)
			require.Equal(t, count, n)
			require.Positive(t, batches)
			for part := range int32(3) {
				var want []events.Record
				require.NoError(t, c.ReadRange(t.Context(), "x", part, 0, -1, func(r events.Record) error {
					want = append(want, kept(r))
					return nil
				}))
				require.Equal(t, want, got[part])
			}
		})
	}
}

// scanned returns a record whose parts vary: each may be absent, empty, short or long.
func scanned(i int) events.Record {
	r := events.Record{Topic: "x", Partition: int32(i % 3), Key: []byte(fmt.Sprint(i)), Value: bytes.Repeat([]byte{byte(i)}, i*i%5000)}
	if i%7 == 0 {
		r.Key, r.Value = nil, nil
	}
	for h := range i % 5 {
		r.Headers = append(r.Headers, events.Header{Key: fmt.Sprintf("h%d", h*i), Value: bytes.Repeat([]byte("v"), h*h*20)})
	}
	return r
}

// kept returns a copy in which nil and empty are the same.
func kept(r events.Record) events.Record {
	r.Key, r.Value = append([]byte{}, r.Key...), append([]byte{}, r.Value...)
	r.Headers = slices.Clone(r.Headers)
	for i := range r.Headers {
		r.Headers[i].Value = append([]byte{}, r.Headers[i].Value...)
	}
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	return r
}

func TestAScanEndsWithTheErrorOfItsCallback(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	require.NoError(t, kafka.EnsureTopics(t.Context(), c, kafka.TopicSpec{Name: "x", Partitions: 3, MaxMessageBytes: kafka.MaxMessageBytes}))
	p, err := kafka.NewProducer(c)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	_, err = p.ProduceSync(t.Context(), scanned(1))
	require.NoError(t, err)
	enough := errors.New("enough")
	err = kafka.Scan(t.Context(), c, kafka.ScanConfig{Topic: "x", Partitions: 3}, func(*events.Record) error { return enough })
	require.ErrorIs(t, err, enough)
	require.Error(t, kafka.Scan(t.Context(), c, kafka.ScanConfig{Topic: "none", Partitions: 1}, func(*events.Record) error { return nil }))
}
