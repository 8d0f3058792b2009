package kafkalog_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/stretchr/testify/require"
)

// Records that are deleted after the bounds were asked for are a cut. An end that is gone is not: it is a loss of records.
func TestACutIsNoLoss(t *testing.T) {
	w := kafkatest.NewWorld(kafkatest.Start(t))
	topic := w.Create(t)
	w.Write(t, topic, "a", "b", "c", "d", "e", "f")
	log := kafkalog.Log{Cluster: w.Cluster}
	bounds, err := log.Bounds(kafkatest.Within(t), topic)
	require.NoError(t, err)
	require.Equal(t, verify.Bounds{End: 6}, bounds[0])
	read := func(s verify.Span) (list []string, err error) {
		s.Topic = topic
		err = log.Read(kafkatest.Within(t), s, func(r events.Record) error {
			list = append(list, string(r.Value))
			return nil
		})
		return list, err
	}
	_, err = kafka.DeleteRecords(kafkatest.Within(t), w.Cluster, kafka.Offsets{topic: {0: 4}})
	require.NoError(t, err)
	var cut *kafkalog.CutError
	for _, s := range []verify.Span{{To: 6}, {To: 6, Lend: true}, {To: 6, Committed: true}} {
		_, err = read(s)
		require.ErrorAs(t, err, &cut)
		require.EqualValues(t, 4, cut.Start)
		require.ErrorContains(t, err, "was cut while it was read, and begins at offset 4 now")
	}
	_, err = read(verify.Span{From: 8, To: 10, Committed: true})
	require.ErrorAs(t, err, new(*kafka.OutOfRangeError))
	require.NotErrorAs(t, err, &cut)
	var lost *kafkalog.LostError
	for _, s := range []verify.Span{{From: 4, To: 9}, {From: 4, To: 9, Lend: true}, {From: 4, To: 9, Committed: true}, {From: 7, To: 9}} {
		_, err = read(s) // the bounds said 9
		require.ErrorAs(t, err, &lost)
		require.Equal(t, [2]int64{9, 6}, [2]int64{lost.To, lost.End})
		require.ErrorContains(t, err, "ended at offset 9 when its bounds were asked for, and ends at offset 6 now")
	}
	list, err := read(verify.Span{From: 4, To: 6})
	require.NoError(t, err)
	require.Equal(t, []string{"e", "f"}, list)
}
