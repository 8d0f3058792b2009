package node_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// The owners' effects go to partitions that take none, until the buffer as a whole is full. Submissions pass them: one is accepted before
// any of those effects is answered.
func TestEffectsThatNobodyTakesBlockNoSubmission(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(nil)
		w.shared("node-1")

		var answered atomic.Int64
		full := 0
		const destinations = 9 // one takes an eighth of the buffer
		for i := range kafka.ProducerMaxBuffered * destinations / 8 {
			nobody := events.Record{Topic: w.topics.Work(fmt.Sprint("nobody-", i%destinations))}
			n.Effects().TryProduce(t.Context(), nobody, func(_ int32, _ int64, err error) {
				if errors.Is(err, kafka.ErrBufferFull) {
					full++ // called at once, by this goroutine
					return
				}
				answered.Add(1)
			})
		}
		require.Equal(t, kafka.ProducerMaxBuffered/8, full, "the buffer as a whole is full")

		r := submission("t-1", map[string]any{"n": 1})
		r.Topic = w.topics.Submissions()
		accepted := make(chan error, 1)
		n.Appender().Produce(t.Context(), r, func(_ int32, _ int64, err error) { accepted <- err })
		require.NoError(t, <-accepted)
		require.Zero(t, answered.Load(), "no effect had been answered when the submission was accepted")
		w.watch.ended("t-1")
	})
}
