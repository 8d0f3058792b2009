package kafka_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// The client calls our code for each batch that it reads, and waits for its fetches when a partition is moved. Neither
// may block the other.
func TestACommittedReaderIsMovedWhileBatchesArrive(t *testing.T) {
	t.Parallel()
	w := newWorld(kafkatest.Start(t))
	topic := w.Create(t)
	ctx, stop := context.WithCancel(kafkatest.Within(t))
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stop()
	writing.Go(func() {
		p, err := kafka.NewProducer(w.Cluster)
		if err != nil {
			return
		}
		defer p.Close()
		for ctx.Err() == nil {
			_, _ = p.ProduceSync(ctx, events.Record{Topic: topic, Value: []byte("a")}, events.Record{Topic: topic, Partition: 1, Value: []byte("b")})
		}
	})
	r := w.Reader(t, kafka.ReaderConfig{ReadCommitted: true})
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		for i := range 300 {
			r.Add(topic, 0, 0, -1)
			if i%2 == 0 {
				r.Add(topic, 1, 0, -1)
			} else {
				r.Remove(topic, 1)
			}
			soon, cancel := context.WithTimeout(ctx, time.Millisecond)
			_, _ = r.Poll(soon)
			cancel()
		}
	}()
	select {
	case <-moved:
	case <-time.After(kafkatest.StepWait):
		require.FailNow(t, "the reader hangs")
	}
}
