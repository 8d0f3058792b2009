package embedded_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func deleteBelow(t *testing.T, w kafkatest.World, offset int64) {
	t.Helper()
	_, err := kafka.DeleteRecords(kafkatest.Within(t), w.Cluster, kafka.Offsets{w.Topics.Events(): {0: offset}})
	require.NoError(t, err)
}

// spans requires where partition 0 begins and ends.
func spans(t *testing.T, w kafkatest.World, begin, end int64) {
	t.Helper()
	got, err := w.StartOffset(kafkatest.Within(t), w.Topics.Events(), 0)
	require.NoError(t, err)
	require.Equal(t, begin, got, "begin")
	got, err = w.EndOffset(kafkatest.Within(t), w.Topics.Events(), 0)
	require.NoError(t, err)
	require.Equal(t, end, got, "end")
}

// crash returns a copy of the directory as kill -9 would leave it, and stops the broker.
func crash(t *testing.T, b *embedded.Broker) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(dir, os.DirFS(embedded.DataDir(b))))
	require.NoError(t, b.Close())
	return dir
}

// trimmed returns a broker with four records, of which the first two were deleted, although they are in the only segment.
func trimmed(t *testing.T) (*embedded.Broker, kafkatest.World) {
	t.Helper()
	b, w := reopen(t, nil, t.TempDir())
	w.Write(t, w.Create(t), "a", "b", "c", "d")
	deleteBelow(t, w, 2)
	return b, w
}

func TestDeletedRecordsStayDeletedAfterACrash(t *testing.T) {
	t.Parallel()
	b, w := trimmed(t)
	spans(t, w, 2, 4)
	dir := crash(t, b)
	b, w = reopen(t, nil, dir)
	spans(t, w, 2, 4)
	require.Equal(t, []int64{4}, w.Write(t, w.Topics.Events(), "e"))
	dir = crash(t, b)
	b, w = reopen(t, nil, dir) // nothing was deleted in that run
	spans(t, w, 2, 5)
	deleteBelow(t, w, 3)
	b, w = reopen(t, b, dir)
	spans(t, w, 3, 5)
	b, w = reopen(t, nil, crash(t, b))
	spans(t, w, 3, 5)
	require.NoError(t, b.Close())
}

// A request that is refused leaves no trace, even if it is for more than the log has.
func TestARefusedDeleteIsForgotten(t *testing.T) {
	t.Parallel()
	b, w := trimmed(t)
	admin := kadm.NewClient(kafkatest.Client(t, w))
	for _, offset := range []int64{1, 9} {
		var at kadm.Offsets
		at.AddOffset(w.Topics.Events(), 0, offset, -1)
		answers, err := admin.DeleteRecords(kafkatest.Within(t), at)
		require.NoError(t, err)
		require.ErrorIs(t, answers.Error(), kerr.OffsetOutOfRange)
	}
	w.Write(t, w.Topics.Events(), "e", "f", "g", "h", "i", "j")
	b, w = reopen(t, nil, crash(t, b))
	spans(t, w, 2, 10)
	require.NoError(t, b.Close())
}

func TestATopicCreatedAgainBeginsAtZero(t *testing.T) {
	t.Parallel()
	b, w := trimmed(t)
	_, err := kadm.NewClient(kafkatest.Client(t, w)).DeleteTopics(kafkatest.Within(t), w.Topics.Events())
	require.NoError(t, err)
	w.Write(t, w.Create(t), "a", "b", "c", "d")
	b, w = reopen(t, nil, crash(t, b))
	spans(t, w, 0, 4)
	require.NoError(t, b.Close())
}

// A power cut may take records that were not synced. What is left was deleted once, but a partition without a segment would begin at 0
// again. And what is written later must not be deleted by the start after that.
func TestALogThatLostItsEndIsNotEmptied(t *testing.T) {
	t.Parallel()
	b, w := reopen(t, nil, t.TempDir())
	topic := w.Create(t)
	for _, v := range []string{"a", "b", "c", "d"} {
		w.Write(t, topic, v)
	}
	deleteBelow(t, w, 3)
	dir := crash(t, b)
	segment := filepath.Join(dir, "partitions", topic+"-0", "0.dat")
	raw, err := os.ReadFile(segment)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(segment, int64(len(raw)/2))) // the batches are of one size
	var logged bytes.Buffer
	b = kafkatest.StartBroker(t, embedded.Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	w = kafkatest.World{Cluster: kafkatest.Connect(t, b), Topics: w.Topics}
	spans(t, w, 0, 2)
	w.Write(t, topic, "e", "f", "g")
	b, w = reopen(t, nil, crash(t, b))
	require.Contains(t, logged.String(), "those that are left stay")
	spans(t, w, 0, 5)
	require.NoError(t, b.Close())
}

func TestADamagedFileOfBeginsIsReported(t *testing.T) {
	t.Parallel()
	b, _ := trimmed(t)
	dir := crash(t, b)
	file := filepath.Join(dir, embedded.BeginsFile)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.Replace(raw, []byte("[2,"), []byte("[3,"), 1), 0o600))
	var logged bytes.Buffer
	b = kafkatest.StartBroker(t, embedded.Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	w := kafkatest.World{Cluster: kafkatest.Connect(t, b), Topics: kafka.Topics{Namespace: "ns"}}
	spans(t, w, 0, 4)
	require.NoError(t, b.Close())
	require.Contains(t, logged.String(), file)
	require.Contains(t, logged.String(), "records that were deleted may be there again")
}

// If the file cannot be written, nothing is deleted, and a start that has to write it ends with an error.
func TestNothingIsDeletedBeforeItsOffsetIsSaved(t *testing.T) {
	t.Parallel()
	b, w := trimmed(t)
	inTheWay := filepath.Join(embedded.DataDir(b), embedded.BeginsFile+".tmp")
	require.NoError(t, os.MkdirAll(inTheWay, 0o700))
	for range 2 {
		_, err := kafka.DeleteRecords(kafkatest.Within(t), w.Cluster, kafka.Offsets{w.Topics.Events(): {0: 3}})
		require.ErrorIs(t, err, kerr.KafkaStorageError)
		spans(t, w, 2, 4)
	}
	require.NoError(t, os.Remove(inTheWay))
	deleteBelow(t, w, 3)
	spans(t, w, 3, 4)

	dir := crash(t, b)
	require.NoError(t, os.Remove(filepath.Join(dir, "partitions", w.Topics.Events()+"-0", "0.dat")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, embedded.BeginsFile+".tmp"), 0o700))
	_, err := embedded.Open(embedded.Config{Dir: dir})
	require.ErrorContains(t, err, "write where the partitions begin")
}
