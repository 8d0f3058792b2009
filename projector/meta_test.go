package projector

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

func TestMetaRowsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := meta{
			Next: rapid.Int64Min(0).Draw(t, "next"), Sum: events.Hash{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")},
			Due: rapid.Int64().Draw(t, "due"), Wake: rapid.Int64().Draw(t, "wake"), Unplanned: rapid.Int64().Draw(t, "unplanned"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "runs") {
			m.Runs = append(m.Runs, events.Run{
				Epoch:    events.Epoch{N: rapid.Uint64().Draw(t, "n"), ID: rapid.String().Draw(t, "id")},
				Sequence: rapid.Uint64().Draw(t, "sequence"), Offset: rapid.Int64Min(0).Draw(t, "offset"), Count: rapid.Int64Min(0).Draw(t, "count"),
			})
		}
		if rapid.Bool().Draw(t, "anchored") {
			m.Anchor = Anchor{TopicID: TopicID{1, 2, 255}, Offset: rapid.Int64().Draw(t, "at"), LeaderEpoch: rapid.Int32().Draw(t, "leader"), Hash: rapid.String().Draw(t, "hash")}
		}
		for _, c := range []*counts{&m.States, &m.Ready, &m.Waits, &m.Live} {
			for _, name := range rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "names") {
				c.add(name, rapid.SampledFrom([]string{"", "do", "undo"}).Draw(t, "operation"), rapid.Int64Range(-9, 9).Draw(t, "n"))
			}
			if len(*c) == 0 {
				*c = nil
			}
		}
		b := m.append(nil)
		got, err := decodeMeta(b)
		require.NoError(t, err)
		require.Equal(t, m, got)
		_, err = decodeMeta(append(b, 0))
		require.ErrorIs(t, err, ErrDamaged)
		_, err = decodeMeta(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")])
		require.ErrorIs(t, err, ErrDamaged)
	})
}

func TestHistoriesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := histories{at: map[string]int{}}
		rows, want := map[string][]byte{}, map[string][]int64{}
		offset := int64(0)
		for range rapid.IntRange(0, 4).Draw(t, "commits") {
			var facts []events.History
			for range rapid.IntRange(0, 6).Draw(t, "facts") {
				task := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "task")
				facts = append(facts, events.History{Task: task, Offset: offset})
				want[task] = append(want[task], offset)
				offset += rapid.Int64Range(1, 300).Draw(t, "gap")
			}
			h.take(facts)
			for i := range h.pieces {
				rows[h.pieces[i].task] = h.append(rows[h.pieces[i].task], i)
			}
			h.reset()
		}
		for task, row := range rows {
			var got []int64
			require.NoError(t, eachOffset(row, func(o int64) bool { got = append(got, o); return true }))
			require.Equal(t, want[task], got)
			require.True(t, slices.IsSorted(got))
		}
		require.Len(t, rows, len(want))
	})
}

func FuzzHistoryRow(f *testing.F) {
	f.Add([]byte{5, 2, 1, 1, 200, 1, 0})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, b []byte) {
		last := int64(-1)
		n := 0
		err := eachOffset(b, func(o int64) bool {
			require.Greater(t, o, last)
			last = o
			n++
			return true
		})
		require.LessOrEqual(t, n, len(b))
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
	})
}

func FuzzMetaRow(f *testing.F) {
	m := meta{Next: 7, Anchor: Anchor{Hash: "x"}, States: counts{{"pending", "", 2}}, Ready: counts{{"stock", "do", 1}}, Runs: []events.Run{{Epoch: events.Epoch{N: 1, ID: "y"}, Count: 3}}}
	f.Add(m.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return
		}
		again, err := decodeMeta(m.append(nil))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
