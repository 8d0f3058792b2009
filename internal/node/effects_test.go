package node_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// The owners' effects go to a topic that nobody creates, until no more of them fit into the buffer. A submission is
// acknowledged nevertheless, before any of the effects is answered, and it is decided afterward.
func TestAFullBufferOfEffectsBlocksNoSubmission(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(nil)
		w.shared("node-1")

		var answered atomic.Int64
		freed := make(chan struct{})
		nobody := events.Record{Topic: w.topics.Work("nobody")}
		for range kafka.ProducerMaxBuffered {
			n.Effects().TryProduce(t.Context(), nobody, func(_ int32, _ int64, err error) {
				if !errors.Is(err, kafka.ErrBufferFull) && answered.Add(1) == 1 {
					close(freed)
				}
			})
		}
		full := make(chan error, 1)
		n.Effects().TryProduce(t.Context(), nobody, func(_ int32, _ int64, err error) { full <- err })
		require.ErrorIs(t, <-full, kafka.ErrBufferFull)

		r := submission("t-1", map[string]any{"n": 1})
		r.Topic = w.topics.Submissions()
		accepted := make(chan error, 1)
		n.Appender().Produce(t.Context(), r, func(_ int32, _ int64, err error) { accepted <- err })
		require.NoError(t, <-accepted)
		require.Zero(t, answered.Load(), "no effect had been answered when the submission was")

		<-freed
		w.watch.ended("t-1")
	})
}
