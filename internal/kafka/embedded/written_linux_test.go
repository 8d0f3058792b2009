package embedded_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// syncLedger records how much of each file the disk has.
type syncLedger struct {
	dir string

	mu sync.Mutex
	// mu guards the fields below.

	synced map[string]int64
	whole  int
}

// identity distinguishes a file from another one that replaced it.
func identity(path string) (string, int64) {
	info, err := os.Stat(path)
	if err != nil {
		return "", 0
	}
	return fmt.Sprint(path, " ", info.Sys().(*syscall.Stat_t).Ino), info.Size()
}

func (l *syncLedger) seen(file string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	files := []string{file}
	if file == "" {
		l.whole++
		files = l.files("*")
	}
	for _, f := range files {
		id, size := identity(f)
		l.synced[id] = size
	}
	return nil
}

// files lists the segments of the logs whose folders match a pattern, and the offsets of groups.
func (l *syncLedger) files(logs string) []string {
	files, _ := filepath.Glob(filepath.Join(l.dir, "partitions", logs, "*.dat")) // the pattern is well-formed
	return append(files, filepath.Join(l.dir, "groups.log"))
}

// requireSynced fails if the disk does not have all of some logs.
func (l *syncLedger) requireSynced(t *testing.T, logs string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files(logs) {
		if id, size := identity(f); size > 0 {
			require.Equal(t, size, l.synced[id], "%s has bytes that are acknowledged and were not synced", f)
		}
	}
}

func (l *syncLedger) wholes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole
}

// syncedWorld is a broker whose syncs are recorded, and a client of it that waits for each answer.
type syncedWorld struct {
	*syncLedger
	broker *embedded.Broker
	client *kgo.Client
	admin  *kadm.Client
}

func synced(t *testing.T) *syncedWorld {
	t.Helper()
	dir := t.TempDir()
	w := &syncedWorld{syncLedger: &syncLedger{dir: dir, synced: map[string]int64{}}}
	w.broker = kafkatest.StartBroker(t, embedded.Config{Dir: dir, Fsync: true})
	embedded.WatchDisk(w.broker, w.seen)
	w.client = kafkatest.Client(t, w.broker, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	w.admin = kadm.NewClient(w.client)
	return w
}

// create creates a topic of two partitions with segments of 2,000 bytes, that is four or five records.
func (w *syncedWorld) create(t *testing.T, topic, policy string) {
	t.Helper()
	size := "2000"
	_, err := w.admin.CreateTopic(t.Context(), 2, 1, map[string]*string{"segment.bytes": &size, "cleanup.policy": &policy}, topic)
	require.NoError(t, err)
}

func (w *syncedWorld) produce(t *testing.T, topic string, p int32) {
	t.Helper()
	r := &kgo.Record{Topic: topic, Partition: p, Key: []byte{byte(rand.N(3))}, Value: make([]byte, 400)}
	require.NoError(t, w.client.ProduceSync(t.Context(), r).FirstErr())
	w.requireSynced(t, fmt.Sprintf("%s-%d", topic, p))
}

func (w *syncedWorld) folder(topic string, p int32) string {
	return filepath.Join(w.dir, "partitions", fmt.Sprintf("%s-%d", topic, p))
}

// Whatever an answer reports is on the disk: in new segments, after the segments before them were deleted or compacted, and in a topic
// that was created again.
func TestASyncCoversWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	w := synced(t)
	w.create(t, "plain", "delete")
	w.create(t, "compacted", "compact")
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 400 {
		topic, p := []string{"plain", "compacted"}[random.IntN(2)], int32(random.IntN(2))
		switch random.IntN(12) {
		default:
			w.produce(t, topic, p)
		case 0:
			commit := kadm.OffsetsFromRecords(kgo.Record{Topic: "plain", Partition: p, Offset: random.Int64N(1000), LeaderEpoch: -1})
			require.NoError(t, w.admin.CommitAllOffsets(t.Context(), "group", commit))
		case 1:
			embedded.CompactNow(w.broker)
			w.produce(t, "compacted", p)
		case 2:
			end := embedded.Stored(w.broker, "plain", p)
			at := kadm.Offsets{}
			at.AddOffset("plain", p, max(0, end-random.Int64N(8)), -1)
			_, err := w.admin.DeleteRecords(t.Context(), at)
			require.NoError(t, err)
		case 3: // from now on the time of the folder decides whether it is read
			before := time.Now().Add(-time.Duration(random.IntN(1000)+2) * time.Second)
			if err := os.Chtimes(w.folder(topic, p), before, before); err != nil {
				require.ErrorIs(t, err, os.ErrNotExist)
			}
		case 4:
			if random.IntN(4) == 0 {
				again := fmt.Sprint("again", random.IntN(2))
				w.create(t, again, "delete")
				fresh := *w
				fresh.client = kafkatest.Client(t, w.broker, kgo.RecordPartitioner(kgo.ManualPartitioner())) // it knows no earlier topic of that name
				fresh.produce(t, again, 0)
				fresh.produce(t, again, 0)
				_, err := w.admin.DeleteTopics(t.Context(), again)
				require.NoError(t, err)
			}
		}
		w.requireSynced(t, "plain-*")
	}
}

// A record in a known segment costs the sync of that file alone, which does not wait for what other processes write to the disk.
func TestASyncOfAKnownFileIsOfThatFileAlone(t *testing.T) {
	t.Parallel()
	w := synced(t)
	topics := kafka.Topics{Namespace: "known"}
	c := kafkatest.Connect(t, w.broker)
	kafkatest.Create(t, c, topics.Base(2)...)
	p, err := kafka.NewProducer(c)
	require.NoError(t, err)
	defer p.Close()
	produce := func(n int) {
		for i := range n {
			_, err := p.ProduceSync(t.Context(), events.Record{Topic: topics.Submissions(), Partition: int32(i % 2), Value: []byte("x")})
			require.NoError(t, err)
			w.requireSynced(t, "*")
		}
	}
	produce(2)
	before := w.wholes()
	produce(20)
	require.Equal(t, before, w.wholes())
}

// After the failed sync of one file, too, nothing is acknowledged any more.
func TestAFailedSyncOfAFileEndsAllAnswers(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{Dir: t.TempDir(), Fsync: true})
	failed := false
	embedded.WatchDisk(broker, func(file string) error {
		if strings.HasSuffix(file, ".dat") && !failed { // a second sync would succeed
			failed = true
			return errors.New("input/output error")
		}
		return nil
	})
	c := kafkatest.Connect(t, broker)
	topics := kafka.Topics{Namespace: "fails"}
	kafkatest.Create(t, c, topics.Base(1)...)
	p, err := kafka.NewProducer(c)
	require.NoError(t, err)
	defer p.Close()
	record := events.Record{Topic: topics.Submissions(), Value: []byte("x")}
	_, err = p.ProduceSync(t.Context(), record)
	require.NoError(t, err, "the file is new, so the whole file system is synced")
	acks := make(chan error, 2)
	for range 2 {
		p.Produce(t.Context(), record, func(_ int32, _ int64, err error) { acks <- err })
	}
	p.Close()
	require.Error(t, <-acks)
	require.Error(t, <-acks)
}
