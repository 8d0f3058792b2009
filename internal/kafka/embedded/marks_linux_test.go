package embedded_test

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
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// powerCut is a data directory as a power cut leaves it. Partition 0 holds batches that were acknowledged and marked (acked of them), and
// batches that were written afterwards (unacked), while the disk was busy.
type powerCut struct {
	dir string
	log bytes.Buffer
}

func powerCutWith(t *testing.T, acked, unacked int) *powerCut {
	t.Helper()
	w := held(t)
	var ps []*kafka.Producer
	for range max(acked, unacked) {
		p, err := kafka.NewProducer(w.Cluster)
		require.NoError(t, err)
		t.Cleanup(p.Close)
		w.disk.let(func() {
			_, err := p.ProduceSync(t.Context(), w.record(1)) // this gives the producer its ID
			require.NoError(t, err)
			if len(ps) < acked {
				_, err = p.ProduceSync(t.Context(), w.record(0))
				require.NoError(t, err)
			}
		})
		ps = append(ps, p)
	}
	w.disk.let(func() { require.NoError(t, embedded.MarkNow(w.broker)) })
	acks := make(chan error, unacked)
	for i, p := range ps[:unacked] {
		p.Produce(t.Context(), w.record(0), func(_ int32, _ int64, err error) { acks <- err })
		if i == 0 {
			<-w.disk.began
		}
	}
	require.Eventually(t, func() bool {
		return embedded.Stored(w.broker, w.topics.Submissions(), 0) == int64(acked+unacked)
	}, kafkatest.StepWait, kafkatest.StepWait/1000)
	require.Empty(t, acks, "none is acknowledged")
	c := &powerCut{dir: filepath.Join(t.TempDir(), "copy")}
	require.NoError(t, os.CopyFS(c.dir, os.DirFS(embedded.DataDir(w.broker))))
	w.disk.free.Store(true)
	if unacked > 0 {
		w.disk.end <- nil
	}
	return c
}

func (c *powerCut) folder() string { return filepath.Join(c.dir, "partitions", "held.submissions-0") }

func (c *powerCut) file(base string) string { return filepath.Join(c.folder(), base+".dat") }

// batches returns the log's batches.
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

func (c *powerCut) open(cfg embedded.Config) (*embedded.Broker, error) {
	cfg.Dir, cfg.Logger = c.dir, slog.New(slog.NewTextHandler(&c.log, nil))
	return embedded.Open(cfg)
}

// holds opens the directory twice, the second time after a clean stop, and writes to the partition in between.
func (c *powerCut) holds(t *testing.T, records int64) {
	t.Helper()
	for range 2 {
		b, err := c.open(embedded.Config{Fsync: true})
		require.NoError(t, err)
		require.Equal(t, records, embedded.Stored(b, "held.submissions", 0))
		cluster := kafkatest.Connect(t, b)
		p, err := kafka.NewProducer(cluster)
		require.NoError(t, err)
		offsets, err := p.ProduceSync(t.Context(), events.Record{Topic: "held.submissions", Value: []byte("y")})
		require.NoError(t, err)
		require.Equal(t, []int64{records}, offsets)
		p.Close()
		require.NoError(t, b.Close())
		require.NoFileExists(t, filepath.Join(c.dir, embedded.MarksFile), "a clean stop leaves no marks")
		records++
	}
}

func (c *powerCut) refused(t *testing.T, what string) {
	t.Helper()
	for _, fsync := range []bool{true, false} {
		before := snapshotOf(t, c.dir)
		_, err := c.open(embedded.Config{Fsync: fsync})
		require.ErrorAs(t, err, new(*embedded.DamageError))
		require.ErrorContains(t, err, what)
		require.Equal(t, before, snapshotOf(t, c.dir), "a refused start changes nothing")
	}
}

// Several batches wait in the page cache, and a later one reaches the disk before an earlier one.
func TestAPowerCutAmongUnsyncedBatchesDoesNotStopTheBroker(t *testing.T) {
	t.Parallel()
	for acked := range 3 {
		for hole := range 3 {
			c := powerCutWith(t, acked, 3)
			batches := c.batches(t)
			clear(batches[acked+hole])
			c.write(t, "0", batches...)
			c.holds(t, int64(acked+hole))
			require.Contains(t, c.log.String(), "everything acknowledged more than a second before is intact")
			require.Contains(t, c.log.String(), "topic=held.submissions partition=0")
		}
	}
}

// The part that was lost may be one that no checksum covers.
func TestAPowerCutThatTakesThePlaceOfABatch(t *testing.T) {
	t.Parallel()
	c := powerCutWith(t, 1, 2)
	batches := c.batches(t)
	clear(batches[1][:8])
	c.write(t, "0", batches...)
	c.holds(t, 1)
}

func TestAHoleBelowTheMarkIsRefused(t *testing.T) {
	t.Parallel()
	for hole := range 2 {
		c := powerCutWith(t, 2, 2)
		batches := c.batches(t)
		clear(batches[hole])
		c.write(t, "0", batches...)
		c.refused(t, "and others follow it")
	}
	// The last one too.
	c := powerCutWith(t, 2, 0)
	batches := c.batches(t)
	clear(batches[1])
	c.write(t, "0", batches...)
	c.refused(t, "its records were on the disk")
}

// The broker begins a new segment before the last one is synced.
func TestAPowerCutAtTheRollOfASegment(t *testing.T) {
	t.Parallel()
	// The old segment is torn, lacks whole batches, or is empty. The new segments are intact.
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

// The power is cut while the broker stops: the files that it writes at a stop are on the disk, but the records that
// they list are not.
func TestAPowerCutInTheMiddleOfAStop(t *testing.T) {
	t.Parallel()
	for _, torn := range []int{0, 20} {
		c := powerCutWith(t, 1, 2)
		path := filepath.Join(c.dir, embedded.MarksFile)
		marks, err := os.ReadFile(path)
		require.NoError(t, err)
		b, err := c.open(embedded.Config{Fsync: true})
		require.NoError(t, err)
		require.EqualValues(t, 3, embedded.Stored(b, "held.submissions", 0))
		require.NoError(t, b.Close())
		sequences := filepath.Join(c.dir, "seq_windows.json")
		require.FileExists(t, sequences)
		require.NoError(t, os.Remove(filepath.Join(c.dir, "sums.json")))
		require.NoError(t, os.WriteFile(path, marks, 0o600))
		batches := c.batches(t)
		c.write(t, "0", batches[0], batches[1][:torn])

		b, err = c.open(embedded.Config{Fsync: true})
		require.NoError(t, err)
		require.EqualValues(t, 1, embedded.Stored(b, "held.submissions", 0))
		require.NoFileExists(t, sequences, "a lost record that is sent again is not a duplicate")
		killed := &powerCut{dir: filepath.Join(t.TempDir(), "killed")}
		require.NoError(t, os.CopyFS(killed.dir, os.DirFS(c.dir)))
		require.NoError(t, b.Close())
		killed.holds(t, 1)
	}
}

// Without Fsync, acknowledged records may lie above the marks of an earlier run with Fsync, so the marks must be
// removed before the first record.
func TestAStartWithoutFsyncRemovesTheMarks(t *testing.T) {
	t.Parallel()
	c := powerCutWith(t, 1, 2)
	require.FileExists(t, filepath.Join(c.dir, embedded.MarksFile))
	b, err := c.open(embedded.Config{})
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(c.dir, embedded.MarksFile))
	killed := &powerCut{dir: filepath.Join(t.TempDir(), "killed")}
	require.NoError(t, os.CopyFS(killed.dir, os.DirFS(c.dir)))
	require.NoError(t, b.Close())
	batches := killed.batches(t)
	clear(batches[1])
	killed.write(t, "0", batches...)
	killed.refused(t, "and others follow it")
}

// A changed digit in the marks must not make the scrub cut off acknowledged records.
func TestDamagedMarksAreNotUsed(t *testing.T) {
	t.Parallel()
	c := powerCutWith(t, 2, 2)
	path := filepath.Join(c.dir, embedded.MarksFile)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(b), "[2,")
	require.NoError(t, os.WriteFile(path, bytes.Replace(b, []byte("[2,"), []byte("[1,"), 1), 0o600))
	batches := c.batches(t)
	clear(batches[2])
	c.write(t, "0", batches...)
	c.refused(t, "and others follow it")
}

// The marks follow the ends of the logs.
func TestTheMarksFollowTheLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := kafkatest.StartBroker(t, embedded.Config{Dir: dir, Fsync: true})
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
		marks, err := os.ReadFile(filepath.Join(dir, embedded.MarksFile))
		return err == nil && bytes.Contains(marks, []byte(`"ends":[3]`))
	}, kafkatest.StepWait, kafkatest.StepWait/1000)
}

// Any unsynced sector of the log and its index may be missing, and either file may be shorter.
func TestNoPowerCutLeavesDamage(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const acked, unacked, sector, indexEntry = 2, 6, 16, 15
	whole := powerCutWith(t, acked, unacked)
	batches := whole.batches(t)
	synced := map[string]int{"0.dat": len(batches[0]) + len(batches[1]), "0.idx": acked * indexEntry}
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
		b, err := c.open(embedded.Config{Fsync: true})
		require.NoError(t, err)
		stored := embedded.Stored(b, "held.submissions", 0)
		require.GreaterOrEqual(t, stored, int64(acked))
		require.LessOrEqual(t, stored, int64(acked+unacked))
		require.NoError(t, b.Close())
		kept := c.batches(t)
		require.Len(t, kept, int(stored))
		require.Equal(t, batches[:stored], kept)
	}
}
