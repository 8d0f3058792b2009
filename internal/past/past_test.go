package past_test

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/past"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

var instants = flag.Int("past.instants", 24, "how many moments are compared")

var topics = kafka.Topics{Namespace: "sim"}

// world is the log of a run of the simulator, with take-overs, kills and void records, on a broker.
type world struct {
	cluster *kafka.Cluster
	log     [][]events.Record
}

// worlds loads runs of the simulator whose logs begin at 0 and that this build can fold.
func worlds(t *testing.T, n int) (list []world) {
	t.Helper()
	for seed := uint64(1); len(list) < n; seed++ {
		run := sim.Record(seed, sim.Options{})
		log := run.Topics[topics.Events()]
		if run.Report.Violation != "" || len(slices.Concat(log...)) < 100 || !usual(log) {
			continue
		}
		w := world{kafkatest.Start(t), log}
		ctx := kafkatest.Within(t)
		require.NoError(t, kafka.EnsureTopics(ctx, w.cluster, topics.Base(int32(len(log)))...))
		p, err := kafka.NewProducer(w.cluster)
		require.NoError(t, err)
		for _, records := range append(run.Topics[topics.Definitions()], log...) {
			for i := range records { // as on a real broker
				if f, err := events.DecodeFact(&records[i]); err == nil {
					records[i].Timestamp = f.Time
				} else {
					records[i].Timestamp = 1000 // of the definitions
				}
			}
			if len(records) > 0 {
				_, err := p.ProduceSync(ctx, records...)
				require.NoError(t, err)
			}
		}
		p.Close()
		list = append(list, w)
	}
	return list
}

// usual says that a log begins at 0, has no gaps, and has no fact of a later level.
func usual(log [][]events.Record) bool {
	for _, records := range log {
		s := events.NewState(0, nil)
		for i, r := range records {
			if r.Offset != int64(i) || r.Control {
				return false
			}
			f, err := events.DecodeFact(&r)
			if err != nil {
				return false
			}
			if _, err := s.Apply(f, r.Offset); err != nil {
				return false
			}
		}
	}
	return true
}

// folded folds the first records of a partition, apart from any code of the copy.
func folded(t *testing.T, p int, records []events.Record) *events.State {
	t.Helper()
	s := events.NewState(int32(p), nil)
	for _, r := range records {
		f, err := events.DecodeFact(&r)
		require.NoError(t, err)
		_, err = s.Apply(f, r.Offset)
		require.NoError(t, err)
	}
	return s
}

// moment draws a moment: an instant between the first and the last fact, or a fact.
func (w world) moment(rnd *rand.Rand) (past.Moment, []int) {
	all := slices.Concat(w.log...)
	r := all[rnd.IntN(len(all))]
	m := past.Moment{Time: r.Timestamp}
	if rnd.IntN(2) == 0 {
		m = past.Moment{Fact: true, Partition: r.Partition, Offset: r.Offset, Before: rnd.IntN(2) == 0}
	}
	var ends []int
	for p, records := range w.log {
		end := slices.IndexFunc(records, func(x events.Record) bool { return x.Timestamp > r.Timestamp })
		if end < 0 {
			end = len(records)
		}
		switch {
		case m.Fact && m.Partition == int32(p) && m.Before:
			end = int(m.Offset)
		case m.Fact && m.Partition == int32(p):
			end = int(m.Offset) + 1
		}
		ends = append(ends, end)
	}
	return m, ends
}

// At any moment, the copy ends where it should, has the state that a fold of the facts until then has, and the very records.
func TestTheCopyIsThePast(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	list := worlds(t, 3)
	for i := range *instants {
		w := list[i%len(list)]
		m, ends := w.moment(rnd)
		dir := filepath.Join(t.TempDir(), "past")
		mark, err := past.Copy(t.Context(), past.Config{Cluster: w.cluster, Namespace: "sim", Moment: m, Dir: dir})
		require.NoError(t, err, m)
		for p, end := range ends {
			require.EqualValues(t, end, mark.Ends[p], "%v, partition %d", m, p)
			s := folded(t, p, w.log[p][:end])
			sum, err := s.Hash()
			require.NoError(t, err)
			require.Equal(t, sum, mark.Hashes[p], "%v, partition %d", m, p)
		}
		again, err := past.Open(dir)
		require.NoError(t, err)
		require.Equal(t, mark, again)
		onBroker(t, dir, func(c *kafka.Cluster) {
			for p, end := range ends {
				var got []events.Record
				require.NoError(t, c.ReadRange(t.Context(), topics.Events(), int32(p), 0, -1, func(r events.Record) error { got = append(got, r); return nil }))
				require.Len(t, got, end)
				for k := range got {
					require.Equal(t, w.log[p][k].Value, got[k].Value)
					require.Equal(t, w.log[p][k].Headers, got[k].Headers)
					require.Equal(t, w.log[p][k].Timestamp, got[k].Timestamp)
				}
			}
		})
		require.NoError(t, os.RemoveAll(dir))
	}
}

// A copy for one task has the partition of the task, and nothing of the others.
func TestTheCopyForATaskHasItsPartition(t *testing.T) {
	t.Parallel()
	w := worlds(t, 1)[0]
	var task string
	home := 0
	for p, records := range w.log {
		for _, r := range records {
			if f, err := events.DecodeFact(&r); err == nil && f.Body.Name() == events.NameSubmitted {
				task, home = f.Task, p
			}
		}
	}
	require.NotEmpty(t, task)
	end := past.Moment{Time: events.At(time.Now().AddDate(500, 0, 0))}
	dir := filepath.Join(t.TempDir(), "past")
	mark, err := past.Copy(t.Context(), past.Config{Cluster: w.cluster, Namespace: "sim", Moment: end, Dir: dir, Task: task})
	require.NoError(t, err)
	for p, records := range w.log {
		if p != home {
			records = nil
		}
		sum, err := folded(t, p, records).Hash()
		require.NoError(t, err)
		require.Equal(t, sum, mark.Hashes[p], "partition %d", p)
		require.EqualValues(t, len(records), mark.Ends[p])
	}
}

func onBroker(t *testing.T, dir string, do func(*kafka.Cluster)) {
	t.Helper()
	b, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, past.BrokerDir), LockFile: filepath.Join(dir, past.LockFile), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	c, err := kafka.Connect(b.ClusterConfig())
	require.NoError(t, err)
	do(c)
	c.Close()
	require.NoError(t, b.Close())
}

// tasks are the fields of all tasks of a copy.
func tasks(t *testing.T, dir, namespaceID string) map[string]past.Fields {
	t.Helper()
	store, err := projector.OpenIntact(filepath.Join(dir, past.StateDir), projector.Options{Namespace: namespaceID})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	list := map[string]past.Fields{}
	for _, p := range store.Partitions() {
		part := store.Partition(p)
		ids, err := part.Tasks("", 100_000)
		require.NoError(t, err)
		for _, id := range ids {
			task, ok, err := part.Task(id)
			require.NoError(t, err)
			require.True(t, ok)
			f, err := past.FieldsOf(task)
			require.NoError(t, err)
			list[id] = f
		}
	}
	return list
}

// The difference between two moments, applied to the tasks of the first, gives the tasks of the second.
func TestTheDifferenceLeadsFromOneMomentToTheOther(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(2, 2))
	changed, blamed := 0, 0
	list := worlds(t, 3)
	for i := range max(*instants/2, 1) {
		w := list[i%len(list)]
		from, fromEnds := w.moment(rnd)
		to, toEnds := w.moment(rnd)
		ordered := true
		for p := range fromEnds {
			ordered = ordered && fromEnds[p] <= toEnds[p]
		}
		id, _, err := past.Namespace(t.Context(), w.cluster, "sim")
		require.NoError(t, err)
		d, err := past.Diff(t.Context(), past.DiffConfig{Cluster: w.cluster, Namespace: "sim", From: from, To: to})
		if !ordered {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		fromDir, toDir := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
		for dir, m := range map[string]past.Moment{fromDir: from, toDir: to} {
			_, err := past.Copy(t.Context(), past.Config{Cluster: w.cluster, Namespace: "sim", Moment: m, Dir: dir})
			require.NoError(t, err)
		}
		before, after := tasks(t, fromDir, id), tasks(t, toDir, id)
		live := 0
		for _, f := range after {
			var s events.TaskState
			require.NoError(t, json.Unmarshal([]byte(f["state"]), &s))
			if !s.Ended() {
				live++
			}
		}
		sum := 0
		for _, n := range d.Live.To {
			sum += n
		}
		require.Equal(t, live, sum)
		require.Equal(t, len(after)-len(before), d.New-d.Forgotten)
		for _, c := range d.Changes {
			changed++
			f := before[c.Task]
			if f == nil {
				f = past.Fields{}
				before[c.Task] = f
			}
			require.Equal(t, f[c.Field], c.From, "%v", c)
			require.NotEqual(t, c.From, c.To)
			if f[c.Field] = c.To; c.To == "" {
				delete(f, c.Field)
			}
			require.NotNil(t, c.By)
			require.GreaterOrEqual(t, c.By.Offset, int64(fromEnds[c.By.Partition]))
			require.Less(t, c.By.Offset, int64(toEnds[c.By.Partition]))
			if c.Field == "input" && c.From == "" && before[c.Task]["workflow"] == "" {
				require.Contains(t, []events.Name{events.NameSubmitted, events.NameRunBegun}, c.By.Type)
			}
			if c.Field == "state" && c.To == `"processed"` {
				blamed++
				require.Equal(t, events.NameTaskProcessed, c.By.Type)
			}
		}
		maps.DeleteFunc(before, func(_ string, f past.Fields) bool { return len(f) == 0 })
		require.Equal(t, after, before)
	}
	require.Positive(t, changed)
	require.Positive(t, blamed)
}

// Of a log that was cut at a carry, the copy begins where the log begins, has the same states, and refuses what was before.
func TestTheCopyOfALogThatWasCut(t *testing.T) {
	t.Parallel()
	for _, w := range worlds(t, 20) {
		cuts := map[int32]int64{}
		for p, records := range w.log {
			begun := int64(-1)
			for _, r := range records {
				f, err := events.DecodeFact(&r)
				require.NoError(t, err)
				switch f.Body.Name() {
				case events.NameCarryBegun:
					begun = r.Offset
				case events.NameCarryEnded:
					cuts[int32(p)] = begun
				}
			}
		}
		if len(cuts) == 0 || !w.whole(t, cuts) {
			continue
		}
		_, err := kafka.DeleteRecords(t.Context(), w.cluster, kafka.Offsets{topics.Events(): cuts})
		require.NoError(t, err)
		end := past.Moment{Time: events.At(time.Now().AddDate(500, 0, 0))}
		dir := filepath.Join(t.TempDir(), "past")
		mark, err := past.Copy(t.Context(), past.Config{Cluster: w.cluster, Namespace: "sim", Moment: end, Dir: dir})
		require.NoError(t, err)
		for p, records := range w.log {
			sum, err := folded(t, p, records).Hash()
			require.NoError(t, err)
			require.Equal(t, sum, mark.Hashes[p])
		}
		onBroker(t, dir, func(c *kafka.Cluster) {
			for p, begin := range cuts {
				begins, err := c.StartOffset(t.Context(), topics.Events(), p)
				require.NoError(t, err)
				require.Equal(t, begin, begins)
			}
		})
		for p, begin := range cuts { // in the middle of the carry not all is known
			_, err = past.Copy(t.Context(), past.Config{Cluster: w.cluster, Namespace: "sim", Moment: past.Moment{Fact: true, Partition: p, Offset: begin}, Dir: filepath.Join(t.TempDir(), "z")})
			require.ErrorIs(t, err, past.ErrBeforeLog)
			_, err = past.Diff(t.Context(), past.DiffConfig{Cluster: w.cluster, Namespace: "sim", From: past.Moment{Fact: true, Partition: p, Offset: begin}, To: end})
			require.ErrorIs(t, err, past.ErrBeforeLog)
		}
		for p, begin := range cuts {
			if begin == 0 {
				continue
			}
			_, err = past.Copy(t.Context(), past.Config{Cluster: w.cluster, Namespace: "sim", Moment: past.Moment{Fact: true, Partition: p, Offset: begin - 1}, Dir: filepath.Join(t.TempDir(), "x")})
			require.ErrorIs(t, err, past.ErrBeforeLog)
			_, err = past.Copy(t.Context(), past.Config{Cluster: w.cluster, Namespace: "sim", Moment: past.Moment{Time: w.log[p][0].Timestamp}, Dir: filepath.Join(t.TempDir(), "y")})
			require.ErrorIs(t, err, past.ErrBeforeLog)
		}
		return
	}
	t.Fatal("no run has a carry")
}

// whole says that what follows the cuts leads to the same states: the carries are whole, and their epochs were not over.
func (w world) whole(t *testing.T, cuts map[int32]int64) bool {
	t.Helper()
	for p, cut := range cuts {
		s := events.NewState(p, nil)
		for _, r := range w.log[p][cut:] {
			f, err := events.DecodeFact(&r)
			require.NoError(t, err)
			if _, err := s.Apply(f, r.Offset); err != nil {
				return false
			}
		}
		got, err := s.Hash()
		require.NoError(t, err)
		want, err := folded(t, int(p), w.log[p]).Hash()
		require.NoError(t, err)
		if got != want || cut == 0 {
			return false
		}
	}
	return true
}

func TestACopyIsNotWrittenOverAnything(t *testing.T) {
	t.Parallel()
	w := worlds(t, 1)[0]
	dir := t.TempDir()
	cfg := past.Config{Cluster: w.cluster, Namespace: "sim", Moment: past.Moment{Time: events.At(time.Now().AddDate(500, 0, 0))}, Dir: dir}
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Progress = func(int64, int64) { cancel() } // the first batch has been read
	_, err := past.Copy(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
	_, err = past.Open(dir)
	require.ErrorContains(t, err, "half a copy")
	cfg.Progress = nil
	_, err = past.Copy(t.Context(), cfg)
	require.NoError(t, err, "half a copy is made again")
	_, err = past.Copy(t.Context(), cfg)
	require.ErrorIs(t, err, past.ErrOccupied)
	none, err := past.Open(t.TempDir())
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestMomentsThatTheLogDoesNotHave(t *testing.T) {
	t.Parallel()
	w := worlds(t, 1)[0]
	parts := len(w.log)
	for _, c := range []struct {
		m    past.Moment
		says string
	}{
		{past.Moment{Time: 1}, "did not exist at 1970"},
		{past.Moment{Fact: true, Partition: int32(parts)}, "there is no partition"},
		{past.Moment{Fact: true, Offset: 1 << 40}, "read the fact 0@"},
	} {
		_, err := past.Copy(t.Context(), past.Config{Cluster: w.cluster, Namespace: "sim", Moment: c.m, Dir: filepath.Join(t.TempDir(), "x")})
		require.ErrorContains(t, err, c.says)
	}
	now := time.Date(2026, 11, 29, 14, 0, 0, 0, time.UTC)
	for text, want := range map[string]past.Moment{
		"10m": {Time: events.At(now.Add(-10 * time.Minute))}, "0s": {Time: events.At(now)}, "3@12": {Fact: true, Partition: 3, Offset: 12}, "0@0": {Fact: true},
		"2026-11-29T13:00:00Z": {Time: events.At(now.Add(-time.Hour))},
	} {
		m, err := past.Parse(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, m)
	}
	for _, text := range []string{"", "yesterday", "-10m", "+1h", "3@", "@3", "x@1", "1@-2", "99999999999@1"} {
		_, err := past.Parse(text, now)
		require.Error(t, err, "%q", text)
	}
}
