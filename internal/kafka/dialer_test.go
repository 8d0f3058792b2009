package kafka_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// One of three brokers is cut off. Of many requests, only the first one to that broker waits. The clients use it again once it answers.
func TestABrokerThatIsCutOffCostsOneDial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		brokers := kafkatest.StartFake(t, new(embedded.VirtualNetwork), 3)
		w := newWorld(kafkatest.Connect(t, brokers))
		topic := w.Create(t)
		w.Write(t, topic, "a")
		const gone = 1
		cfg, heal := brokers.CutOff(gone, topic)
		c, err := kafka.Connect(cfg)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		begun := time.Now()
		for range 50 {
			_, err := c.Partitions(t.Context(), topic)
			require.NoError(t, err)
		}
		require.NoError(t, c.ReadRange(t.Context(), topic, 0, 0, -1, func(events.Record) error { return nil }))
		require.Less(t, time.Since(begun), 3*time.Second)

		heal()
		for p := range int32(2) {
			brokers.Move(topic, p, gone)
		}
		begun = time.Now()
		var got []events.Record
		require.NoError(t, c.ReadRange(t.Context(), topic, 0, 0, -1, func(r events.Record) error {
			got = append(got, r)
			return nil
		}))
		require.Equal(t, []string{"a"}, kafkatest.Values(got))
		require.Less(t, time.Since(begun), 3*time.Second)
	})
}
