package kafka_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// bytesIn returns the size of the segments below a directory.
func bytesIn(t *testing.T, dir string) (sum int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "submissions") || !strings.HasSuffix(path, ".dat") && !strings.HasSuffix(path, ".log") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	}))
	return sum
}

// The space of trimmed segments is free at once. After a clean stop the partition begins where it did, and after a crash at its first segment.
func TestTheEmbeddedBrokerFreesWhatIsTrimmed(t *testing.T) {
	t.Parallel()
	dir, crashed := t.TempDir(), t.TempDir()
	b := kafkatest.StartBroker(t, embedded.Config{Dir: dir})
	c := kafkatest.Connect(t, b)
	topic := kafka.Topics{Namespace: "x"}.Submissions()
	kafkatest.Create(t, c, kafka.Topics{Namespace: "x"}.Base(1)...)
	p, err := kafka.NewProducer(c)
	require.NoError(t, err)
	value := make([]byte, 1<<20)
	for range 40 {
		_, err := p.ProduceSync(kafkatest.Within(t), events.Record{Topic: topic, Value: value})
		require.NoError(t, err)
	}
	p.Close()
	before := bytesIn(t, dir)
	require.Greater(t, before, int64(40<<20))
	_, err = kafka.DeleteRecords(kafkatest.Within(t), c, kafka.Offsets{topic: {0: 39}})
	require.NoError(t, err)
	require.Less(t, bytesIn(t, dir), int64(17<<20))

	require.NoError(t, os.CopyFS(crashed, os.DirFS(dir)))
	require.NoError(t, b.Close())
	for _, again := range []struct {
		dir          string
		least, begin int64
	}{{dir, 39, 39}, {crashed, 24, 39}} {
		c := kafkatest.Connect(t, kafkatest.StartBroker(t, embedded.Config{Dir: again.dir}))
		begin, err := c.StartOffset(kafkatest.Within(t), topic, 0)
		require.NoError(t, err)
		require.GreaterOrEqual(t, begin, again.least)
		require.LessOrEqual(t, begin, again.begin)
		end, err := c.EndOffset(kafkatest.Within(t), topic, 0)
		require.NoError(t, err)
		require.Equal(t, int64(40), end)
		r, err := c.ReadAt(kafkatest.Within(t), topic, 0, 39)
		require.NoError(t, err)
		require.Len(t, r.Value, 1<<20)
	}
}
