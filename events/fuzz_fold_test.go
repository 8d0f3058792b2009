package events_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// foldMost bounds the records of one fuzzed log. Longer logs take more time and reach no further code.
const foldMost = 128

// hashNow as the value of a StateHash is replaced by the current hash of the state, because the times differ from the golden
// log.
const hashNow = "now"

// script is a log that a fuzzer can change. A line is "<place><kind>[@<cause>]", task and value, separated by tabs. The place is '='
// for the next sequence in the current epoch, '!' for a sequence after a gap, '<' for a sequence that was folded already, and '*'
// for an epoch that never existed.
func script(lines []line) []byte {
	var b bytes.Buffer
	for _, l := range lines {
		r := l.record()
		place := "="
		if l.Fate != "accepted" {
			place = "*"
		}
		fmt.Fprintf(&b, "%s%s", place, strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix))
		if c := r.Header(events.HeaderCause); c != "" {
			b.WriteString("@" + c)
		}
		value := r.Value
		if strings.HasSuffix(r.Header(events.HeaderType), string(events.NameStateHash)) {
			value = []byte(hashNow)
		}
		fmt.Fprintf(&b, "\t%s\t%s\n", r.Key, value)
	}
	return b.Bytes()
}

// scripted returns the record of a line for the current position of the state.
func scripted(t *testing.T, s *events.State, text []byte, n int) (events.Record, bool) {
	t.Helper()
	head, rest, _ := bytes.Cut(text, []byte("\t"))
	task, value, _ := bytes.Cut(rest, []byte("\t"))
	if len(head) < 2 {
		return events.Record{}, false
	}
	kind, cause, _ := strings.Cut(string(head[1:]), "@")
	if string(value) == hashNow {
		value = []byte(asJSON(t, &events.StateHash{Hash: hashOf(t, s)}))
	}
	p := s.Partition
	if b := new(events.TimeCorrected); kind == string(b.Name()) && json.Unmarshal(value, b) == nil {
		if b.To = p.Correcting; b.To == 0 {
			b.To = p.Time.Add(-2 * events.TimeCorrectable)
		}
		value = []byte(asJSON(t, b))
	}
	sequence := p.NextSequence
	switch head[0] {
	case '!':
		sequence += 2
	case '<':
		sequence = max(sequence, 1) - 1
	case '*':
		p.Epoch.ID += "x"
	}
	return events.Record{Offset: s.Next, Partition: testPartition, Key: task, Value: value, Headers: headers(
		events.HeaderType, events.TypePrefix+kind, events.HeaderID, fmt.Sprintf("%d/%s/%d", testPartition, p.Epoch, sequence), events.HeaderCause, cause,
		events.HeaderTime, (testStart + events.Instant(1000*n)).String(),
	)}, true
}

// FuzzFold folds an arbitrary log of decodable facts. It never panics, a void record changes nothing, and a state that refused
// a fact returns only errors. Five ways to fold (in memory, with evictions, reopening after each record, without flushing, and
// from scratch at the end) agree on the hash, which equals a hash counted from the rows.
func FuzzFold(f *testing.F) {
	golden := script(goldenLines(f))
	f.Add(golden)
	lines := bytes.SplitAfter(golden, []byte("\n"))
	for i := 8; i < len(lines); i += 8 {
		f.Add(bytes.Join(lines[:i], nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		state := events.NewState(testPartition, nil)
		replays := []replay{storedReplay(false), storedReplay(true), {state: events.NewState(testPartition, nil), lazy: true}}
		var log []events.Record
		for n, text := range bytes.Split(data, []byte("\n")) {
			r, ok := scripted(t, state, text, n)
			if !ok {
				continue
			}
			if len(log) == foldMost {
				break
			}
			fact, err := events.DecodeFact(&r)
			if err != nil {
				continue
			}
			before, broken := hashOf(t, state), state.Partition.Broken
			fate, err := state.Apply(fact, r.Offset)
			if err != nil {
				require.False(t, bytes.Equal(data, golden), "the golden log must fold without an error: %v", err)
				refused(t, state)
				break
			}
			after := hashOf(t, state)
			if fate == events.FateVoid && broken == state.Partition.Broken {
				require.Equal(t, before, after, "a void record changed the state")
			}
			log = append(log, r)
			for i := range replays {
				again, hash := replays[i].fold(t, r)
				require.Equal(t, fate, again)
				require.Equal(t, after, hash, "way %d, behind %s", i, text)
			}
		}
		if len(log) == 0 {
			return
		}
		scratch := events.NewState(testPartition, nil)
		for i := range log {
			fact, err := events.DecodeFact(&log[i])
			require.NoError(t, err)
			_, err = scratch.Apply(fact, log[i].Offset)
			require.NoError(t, err)
		}
		d, err := scratch.Flush(nil)
		require.NoError(t, err)
		require.Equal(t, d.Sum, replays[0].state.Sum())
		require.Equal(t, d.Sum, counted(replays[0].store))
		require.Equal(t, counted(replays[0].store), counted(replays[1].store))
	})
}

func hashOf(t *testing.T, s *events.State) events.Hash {
	t.Helper()
	h, err := s.Hash()
	require.NoError(t, err)
	return h
}

// refused checks that a state that refused a fact can neither be stored nor fold more, since it may be half changed.
func refused(t *testing.T, s *events.State) {
	t.Helper()
	_, err := s.Flush(nil)
	require.Error(t, err, "a state that refused a fact is not stored")
	_, err = s.Apply(&events.Fact{Body: &events.PartitionClaimed{ID: "another", Prev: s.Partition.Epoch.ID}}, s.Next)
	require.Error(t, err, "a state that refused a fact folds no other")
}

// counted sums the hashes of the rows as FORMAT.md says, independently of the code that maintains the sum.
func counted(s *store) (sum events.Hash) {
	add := func(kind events.Kind, id string, encoding []byte) {
		d := sha256.Sum256([]byte(string(kind) + "\x00" + id + "\x00" + string(encoding)))
		sum = sum.Add(events.Hash{Hi: binary.BigEndian.Uint64(d[:8]), Lo: binary.BigEndian.Uint64(d[8:16])})
	}
	for id, row := range s.tasks {
		add(events.KindTask, id, row.Encoding)
		for _, r := range s.rows[id] {
			add(r.Kind, r.ID, r.Encoding)
		}
	}
	for _, row := range s.parts {
		add(row.Kind, row.ID, row.Encoding)
	}
	return sum
}

// FuzzReplay folds facts that fit the state, chosen by the fuzzer. It gets deeper into the life of a task than random bytes
// would.
func FuzzReplay(f *testing.F) {
	for seed := range byte(8) { // each is a long log already
		story := make([]byte, 8<<10)
		if _, err := rand.NewChaCha8([32]byte{seed}).Read(story); err != nil {
			f.Fatal(err)
		}
		f.Add(story)
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		d := newDriver(t)
		ways := []replay{storedReplay(false), storedReplay(true)}
		for range rapid.IntRange(1, 40).Draw(t, "facts") {
			d.step()
		}
		for _, e := range d.log {
			_, want := ways[0].fold(t, e.record)
			_, got := ways[1].fold(t, e.record)
			require.Equal(t, want, got)
		}
		require.Equal(t, ways[0].state.Sum(), counted(ways[0].store))
		live, err := d.state.Hash()
		require.NoError(t, err)
		require.Equal(t, live, counted(ways[1].store))
	}))
}
