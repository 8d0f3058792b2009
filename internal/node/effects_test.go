package node_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// The owners' effects go to a partition that takes none, until it has its share of the buffer. Other effects and submissions pass
// it: a task ends before any of those effects is answered.
func TestEffectsThatNobodyTakesBlockNoOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(nil)
		w.shared("node-1")

		var answered atomic.Int64
		full := 0
		nobody := events.Record{Topic: w.topics.Work("nobody")}
		for range kafka.ProducerMaxBuffered {
			n.Effects().TryProduce(t.Context(), nobody, func(_ int32, _ int64, err error) {
				if errors.Is(err, kafka.ErrBufferFull) {
					full++ // called at once, by this goroutine
					return
				}
				answered.Add(1)
			})
		}
		require.Equal(t, kafka.ProducerMaxBuffered*7/8, full)

		r := submission("t-1", map[string]any{"n": 1})
		r.Topic = w.topics.Submissions()
		accepted := make(chan error, 1)
		n.Appender().Produce(t.Context(), r, func(_ int32, _ int64, err error) { accepted <- err })
		require.NoError(t, <-accepted)
		w.watch.ended("t-1")
		require.Zero(t, answered.Load(), "no effect had been answered when the task ended")
	})
}
