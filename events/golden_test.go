package events_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the goldens of testdata")

const goldenLog = "log.jsonl"

// line is a line of the golden log: a record as kcat -J prints it, and the result of folding it.
type line struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Headers   []string `json:"headers"`
	Key       *string  `json:"key"`
	Payload   string   `json:"payload"`
	Fate      string   `json:"fate"`
	// Hash is the state hash after the record.
	Hash string `json:"state_hash"`
}

func (l *line) record() events.Record {
	r := events.Record{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, Value: []byte(l.Payload)}
	if l.Key != nil {
		r.Key = []byte(*l.Key)
	}
	for i := 0; i < len(l.Headers); i += 2 {
		r.Headers = append(r.Headers, events.Header{Key: l.Headers[i], Value: []byte(l.Headers[i+1])})
	}
	return r
}

func lineOf(e entry, hash events.Hash) line {
	r := e.record
	l := line{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Payload: string(r.Value), Fate: fateName(e.fate), Hash: hash.String()}
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, h.Key, string(h.Value))
	}
	if r.Key != nil {
		k := string(r.Key)
		l.Key = &k
	}
	return l
}

func fateName(f events.Fate) string {
	if f == events.FateAccepted {
		return "accepted"
	}
	return "void"
}

// golden compares got with the file in testdata, or writes the file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test -rewrite")
	require.Equal(t, string(want), string(got), "%s; rewrite it only if you can explain each changed line", path)
}

func readGoldenLog(t *testing.T) []line {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", goldenLog))
	require.NoError(t, err, "run go test -rewrite")
	var lines []line
	for l := range bytes.Lines(b) {
		var v line
		require.NoError(t, json.Unmarshal(l, &v))
		lines = append(lines, v)
	}
	return lines
}

// TestTheGoldenLogHasTheseBytes checks that an owner's records have exactly these bytes, and that the live fold has exactly
// these hashes (INV2).
func TestTheGoldenLogHasTheseBytes(t *testing.T) {
	w := story(t)
	s := events.NewState(testPartition, nil)
	var b bytes.Buffer
	seen := map[events.Name]bool{}
	for _, e := range w.log {
		fate, err := s.Apply(e.fact, e.record.Offset)
		require.NoError(t, err)
		require.Equal(t, e.fate, fate)
		d, err := s.Flush(nil)
		require.NoError(t, err)
		out, err := events.Marshal(lineOf(e, d.Sum))
		require.NoError(t, err)
		b.Write(out)
		b.WriteByte('\n')
		seen[e.fact.Body.Name()] = seen[e.fact.Body.Name()] || fate == events.FateAccepted
	}
	for n := range documentedFacts(t) {
		if n != events.NameNamespaceCreated { // it is in the topic of definitions
			require.True(t, seen[n], "no accepted %s in the golden log", n)
		}
	}
	golden(t, goldenLog, b.Bytes())
}

// TestEachReplayFindsTheRecordedHashes folds the golden log from its file and expects the recorded hash after every record (INV2): from
// scratch, with a state that is reopened after each record, with one that evicts every task that it can, and with one that never flushes.
func TestEachReplayFindsTheRecordedHashes(t *testing.T) {
	t.Parallel()
	lines := readGoldenLog(t)
	replays := map[string]func(t *testing.T) replay{
		"in memory":          func(t *testing.T) replay { return replay{state: events.NewState(testPartition, nil)} },
		"without flushing":   func(t *testing.T) replay { return replay{state: events.NewState(testPartition, nil), lazy: true} },
		"evicting":           func(t *testing.T) replay { return storedReplay(false) },
		"closed and opened":  func(t *testing.T) replay { return storedReplay(true) },
		"in memory, a twin":  func(t *testing.T) replay { return replay{state: events.NewState(testPartition, nil)} },
		"evicting, a second": func(t *testing.T) replay { return storedReplay(false) },
	}
	for name, open := range replays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			for _, l := range lines {
				fate, hash := r.fold(t, l.record())
				require.Equal(t, l.Fate, fateName(fate), "offset %d", l.Offset)
				require.Equal(t, l.Hash, hash.String(), "offset %d", l.Offset)
			}
		})
	}
}

// replay is one way to fold a log.
type replay struct {
	state *events.State
	store *store // nil if everything is in memory
	lazy  bool
	close bool
}

func storedReplay(closing bool) replay {
	st := newStore()
	return replay{state: events.NewState(testPartition, st.load), store: st, close: closing}
}

func (r *replay) fold(t tester, rec events.Record) (events.Fate, events.Hash) {
	t.Helper()
	f, err := events.DecodeFact(&rec)
	require.NoError(t, err)
	fate, err := r.state.Apply(f, rec.Offset)
	require.NoError(t, err)
	if r.lazy {
		h, err := r.state.Hash()
		require.NoError(t, err)
		return fate, h
	}
	d, err := r.state.Flush(nil)
	require.NoError(t, err)
	if r.store != nil {
		r.store.commit(t, d)
		r.rest(t, d)
	}
	return fate, d.Sum
}

// rest evicts the tasks that the store holds.
func (r *replay) rest(t tester, d *events.Delta) {
	t.Helper()
	if r.close {
		s, err := events.OpenState(testPartition, r.store.snapshot(), r.store.load)
		require.NoError(t, err)
		r.state = s
		return
	}
	for _, row := range d.Tasks {
		r.state.Evict(row.ID)
	}
	require.Zero(t, r.state.InMemory())
}
