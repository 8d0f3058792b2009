package kafka_test

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// powerCut is a data directory as a power cut leaves it: of partition 0 told batches were acknowledged and marked, and then
// untold ones were written while the disk was busy.
type powerCut struct {
	dir string
	log bytes.Buffer
}

func powerCutWith(t *testing.T, told, untold int) *powerCut {
	t.Helper()
	w := held(t)
	var ps []*kafka.Producer
	for range max(told, untold) {
		p, err := kafka.NewProducer(w.Cluster)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		w.disk.let(func() {
			_, err := p.ProduceSync(t.Context(), w.record(1)) // it has its ID
			require.NoError(t, err)
			if len(ps) < told {
				_, err = p.ProduceSync(t.Context(), w.record(0))
				require.NoError(t, err)
			}
		})
		ps = append(ps, p)
	}
	w.disk.let(func() { require.NoError(t, kafka.MarkNow(w.broker)) })
	acks := make(chan error, untold)
	for i, p := range ps[:untold] {
		p.Produce(t.Context(), w.record(0), func(_ int32, _ int64, err error) { acks <- err })
		if i == 0 {
			<-w.disk.began
		}
	}
	require.Eventually(t, func() bool {
		return kafka.Stored(w.broker, w.topics.Submissions(), 0) == int64(told+untold)
	}, stepWait, stepWait/1000)
	require.Empty(t, acks, "none is acknowledged")
	c := &powerCut{dir: filepath.Join(t.TempDir(), "copy")}
	require.NoError(t, os.CopyFS(c.dir, os.DirFS(kafka.DataDir(w.broker))))
	w.disk.free.Store(true)
	if untold > 0 {
		w.disk.end <- nil
	}
	return c
}

func (c *powerCut) folder() string { return filepath.Join(c.dir, "partitions", "held.submissions-0") }

func (c *powerCut) file(base string) string { return filepath.Join(c.folder(), base+".dat") }

// batches returns the batches of the log.
func (c *powerCut) batches(t *testing.T) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(c.file("0"))
	require.NoError(t, err)
	var out [][]byte
	for len(raw) > 0 {
		n := 12 + binary.BigEndian.Uint32(raw[8:])
		out = append(out, raw[:n])
		raw = raw[n:]
	}
	return out
}

func (c *powerCut) write(t *testing.T, base string, batches ...[]byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(c.file(base), bytes.Join(batches, nil), 0o600))
}

func (c *powerCut) open(cfg kafka.BrokerConfig) (*kafka.Broker, error) {
	cfg.Dir, cfg.Logger = c.dir, slog.New(slog.NewTextHandler(&c.log, nil))
	return kafka.OpenBroker(cfg)
}

// holds opens the directory twice, the second time after a clean stop, and writes to the partition in between.
func (c *powerCut) holds(t *testing.T, records int64) {
	t.Helper()
	for range 2 {
		b, err := c.open(kafka.BrokerConfig{Fsync: true})
		require.NoError(t, err)
		require.Equal(t, records, kafka.Stored(b, "held.submissions", 0))
		cluster := kafkatest.Connect(t, b)
		p, err := kafka.NewProducer(cluster)
		require.NoError(t, err)
		offsets, err := p.ProduceSync(t.Context(), events.Record{Topic: "held.submissions", Value: []byte("y")})
		require.NoError(t, err)
		require.Equal(t, []int64{records}, offsets)
		p.Close()
		require.NoError(t, b.Close())
		require.NoFileExists(t, filepath.Join(c.dir, kafka.MarksFile), "a clean stop has none")
		records++
	}
}

func (c *powerCut) refused(t *testing.T, what string) {
	t.Helper()
	for _, fsync := range []bool{true, false} {
		before := snapshotOf(t, c.dir)
		_, err := c.open(kafka.BrokerConfig{Fsync: fsync})
		require.ErrorAs(t, err, new(*kafka.DamageError))
		require.ErrorContains(t, err, what)
		require.Equal(t, before, snapshotOf(t, c.dir), "a refusal changes nothing")
	}
}

// Several batches wait in the page cache, and a later one reaches the disk before an earlier one.
func TestAPowerCutAmongUnsyncedBatchesDoesNotStopTheBroker(t *testing.T) {
	t.Parallel()
	for told := range 3 {
		for hole := range 3 {
			c := powerCutWith(t, told, 3)
			batches := c.batches(t)
			clear(batches[told+hole])
			c.write(t, "0", batches...)
			c.holds(t, int64(told+hole))
			require.Contains(t, c.log.String(), "what was acknowledged before the last second is whole")
			require.Contains(t, c.log.String(), "topic=held.submissions partition=0")
		}
	}
}

// What no checksum covers may be what did not reach the disk.
func TestAPowerCutThatTakesThePlaceOfABatch(t *testing.T) {
	t.Parallel()
	c := powerCutWith(t, 1, 2)
	batches := c.batches(t)
	clear(batches[1][:8])
	c.write(t, "0", batches...)
	c.holds(t, 1)
}

func TestAHoleInWhatTheDiskHadIsRefused(t *testing.T) {
	t.Parallel()
	for hole := range 2 {
		c := powerCutWith(t, 2, 2)
		batches := c.batches(t)
		clear(batches[hole])
		c.write(t, "0", batches...)
		c.refused(t, "and others follow it")
	}
	// The last one, too.
	c := powerCutWith(t, 2, 0)
	batches := c.batches(t)
	clear(batches[1])
	c.write(t, "0", batches...)
	c.refused(t, "its records were on the disk")
}

// The broker begins a new segment without a sync of the last one.
func TestAPowerCutAtTheRollOfASegment(t *testing.T) {
	t.Parallel()
	// The old segment is torn, whole batches of it are missing, or it is there by name only; the new ones are there.
	for _, keep := range []int{2, 1, 0} {
		c := powerCutWith(t, 1, 4)
		batches := c.batches(t)
		c.write(t, "0", batches[0])
		switch keep {
		case 2:
			c.write(t, "1", batches[1], batches[2][:20])
		case 1:
			c.write(t, "1", batches[1])
		case 0:
			c.write(t, "1")
		}
		c.write(t, "3", batches[3])
		c.write(t, "4", batches[4])
		c.holds(t, int64(1+min(keep, 1)))
		require.NoFileExists(t, c.file("3"))
		require.NoFileExists(t, c.file("4"))
	}
	c := powerCutWith(t, 3, 1)
	batches := c.batches(t)
	c.write(t, "0", batches[0])
	c.write(t, "2", batches[2:]...)
	c.refused(t, "records are missing between offset 1 and 2")
}

// The power is cut while the broker stops: what it writes at a stop is on the disk, and the records that it tells of are not.
func TestAPowerCutInTheMiddleOfAStop(t *testing.T) {
	t.Parallel()
	for _, torn := range []int{0, 20} {
		c := powerCutWith(t, 1, 2)
		path := filepath.Join(c.dir, kafka.MarksFile)
		marks, err := os.ReadFile(path)
		require.NoError(t, err)
		b, err := c.open(kafka.BrokerConfig{Fsync: true})
		require.NoError(t, err)
		require.EqualValues(t, 3, kafka.Stored(b, "held.submissions", 0))
		require.NoError(t, b.Close())
		sequences := filepath.Join(c.dir, "seq_windows.json")
		require.FileExists(t, sequences)
		require.NoError(t, os.Remove(filepath.Join(c.dir, "sums.json")))
		require.NoError(t, os.WriteFile(path, marks, 0o600))
		batches := c.batches(t)
		c.write(t, "0", batches[0], batches[1][:torn])

		b, err = c.open(kafka.BrokerConfig{Fsync: true})
		require.NoError(t, err)
		require.EqualValues(t, 1, kafka.Stored(b, "held.submissions", 0))
		require.NoFileExists(t, sequences, "a resend of what is gone is none of what is there")
		killed := &powerCut{dir: filepath.Join(t.TempDir(), "killed")}
		require.NoError(t, os.CopyFS(killed.dir, os.DirFS(c.dir)))
		require.NoError(t, b.Close())
		killed.holds(t, 1)
	}
}

// Without Fsync acknowledged records lie above the marks of a run that had it: they must be gone before the first of them.
func TestAStartWithoutFsyncRemovesTheMarks(t *testing.T) {
	t.Parallel()
	c := powerCutWith(t, 1, 2)
	require.FileExists(t, filepath.Join(c.dir, kafka.MarksFile))
	b, err := c.open(kafka.BrokerConfig{})
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(c.dir, kafka.MarksFile))
	killed := &powerCut{dir: filepath.Join(t.TempDir(), "killed")}
	require.NoError(t, os.CopyFS(killed.dir, os.DirFS(c.dir)))
	require.NoError(t, b.Close())
	batches := killed.batches(t)
	clear(batches[1])
	killed.write(t, "0", batches...)
	killed.refused(t, "and others follow it")
}

// A digit that rots must not have the scrub cut what was acknowledged.
func TestMarksThatAreNotWholeAreNotUsed(t *testing.T) {
	t.Parallel()
	c := powerCutWith(t, 2, 2)
	path := filepath.Join(c.dir, kafka.MarksFile)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(b), "[2,")
	require.NoError(t, os.WriteFile(path, bytes.Replace(b, []byte("[2,"), []byte("[1,"), 1), 0o600))
	batches := c.batches(t)
	clear(batches[2])
	c.write(t, "0", batches...)
	c.refused(t, "and others follow it")
}

// The marks follow what is written.
func TestTheMarksFollowTheLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := kafkatest.StartBroker(t, kafka.BrokerConfig{Dir: dir, Fsync: true})
	c := kafkatest.Connect(t, b)
	topics := kafka.Topics{Namespace: "held"}
	kafkatest.Create(t, c, topics.Base(1)...)
	p, err := kafka.NewProducer(c)
	require.NoError(t, err)
	defer p.Close()
	for range 3 {
		_, err = p.ProduceSync(t.Context(), events.Record{Topic: topics.Submissions(), Value: []byte("x")})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		marks, err := os.ReadFile(filepath.Join(dir, kafka.MarksFile))
		return err == nil && bytes.Contains(marks, []byte(`"ends":[3]`))
	}, stepWait, stepWait/1000)
}

// Any of the sectors that were not synced may be missing, of the log and of its index, and either may be shorter.
func TestWhateverAPowerCutLeavesIsNoDamage(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const told, untold, sector, indexEntry = 2, 6, 16, 15
	whole := powerCutWith(t, told, untold)
	batches := whole.batches(t)
	synced := map[string]int{"0.dat": len(batches[0]) + len(batches[1]), "0.idx": told * indexEntry}
	for range 60 {
		c := &powerCut{dir: filepath.Join(t.TempDir(), "copy")}
		require.NoError(t, os.CopyFS(c.dir, os.DirFS(whole.dir)))
		for name, from := range synced {
			path := filepath.Join(c.folder(), name)
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			for at := from; at < len(raw); at += sector {
				if random.IntN(4) == 0 {
					clear(raw[at:min(at+sector, len(raw))])
				}
			}
			if random.IntN(2) == 0 {
				raw = raw[:from+random.IntN(len(raw)-from+1)]
			}
			require.NoError(t, os.WriteFile(path, raw, 0o600))
		}
		b, err := c.open(kafka.BrokerConfig{Fsync: true})
		require.NoError(t, err)
		stored := kafka.Stored(b, "held.submissions", 0)
		require.GreaterOrEqual(t, stored, int64(told))
		require.LessOrEqual(t, stored, int64(told+untold))
		require.NoError(t, b.Close())
		kept := c.batches(t)
		require.Len(t, kept, int(stored))
		require.Equal(t, batches[:stored], kept)
	}
}
