package offsets

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/agent/transport"
)

func TestFinishedRunsSurviveTheCommit(t *testing.T) {
	t.Parallel()
	require.Equal(t, "sagalog-done-1 3+2,1+40", encodeMetadata(10, []span{{13, 15}, {16, 56}}))
	rapid.Check(t, func(t *rapid.T) {
		next := rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "next")
		at := next
		var runs []span
		for range rapid.IntRange(0, 9).Draw(t, "runs") {
			s := span{first: at + rapid.Int64Range(0, 1<<40).Draw(t, "gap")}
			s.end = s.first + rapid.Int64Range(1, 1<<40).Draw(t, "length")
			runs, at = append(runs, s), s.end
		}
		require.Equal(t, runs, decodeMetadata(next, encodeMetadata(next, runs)))
	})
	for _, foreign := range []string{
		"", "member-1", "sagalog-done-2 1+1", "sagalog-done-1 ", "sagalog-done-1 1", "sagalog-done-1 -1+2", "sagalog-done-1 1+0",
		"sagalog-done-1 1+2,", "sagalog-done-1 x+2", "sagalog-done-1 1+9223372036854775807",
	} {
		require.Empty(t, decodeMetadata(5, foreign), foreign)
	}
}

// Requests are read, finished and lost in any order, and some commits fail. Once SettleDurable has confirmed a request, no
// later instance starts it.
func TestADurablyFinishedRequestNeverBeginsAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := NewTracker()
		now, by := time.Unix(1000, 0), time.Unix(2000, 0)
		assignment, end := int64(1), int64(0)
		stored := transport.Position{Assignment: 1}
		covered := map[int64]bool{}
		at := func(o int64) Place { return Place{0, assignment, o} }
		m.Assign(0, transport.Assigned{Position: stored})
		open := func(t *rapid.T) int64 {
			var out []int64
			for o := range end {
				if _, ok := m.partitions[0].open[o]; ok {
					out = append(out, o)
				}
			}
			if len(out) == 0 {
				t.Skip("nothing is open")
			}
			return rapid.SampledFrom(out).Draw(t, "offset")
		}
		commit := func(t *rapid.T, durable ...Place) {
			m.FinishDurably(durable)
			low := m.Due(now)
			arrived, answered := rapid.Bool().Draw(t, "arrived"), rapid.Bool().Draw(t, "answered")
			if s, ok := low[0]; ok && arrived {
				stored = s
				if answered {
					m.Acknowledge(low)
				}
			}
			if m.SettleDurable(durable, by) {
				for _, p := range durable {
					covered[p.Offset] = true
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				end += rapid.Int64Range(1, 2).Draw(t, "gap")
				m.Begin(at(end-1), by)
			},
			"finish":         func(t *rapid.T) { m.Finish(at(open(t))) },
			"finish durably": func(t *rapid.T) { commit(t, at(open(t))) },
			"commit":         func(t *rapid.T) { commit(t) },
			"crash": func(t *rapid.T) {
				assignment++
				from := stored
				from.Assignment = assignment
				m = NewTracker()
				m.Assign(0, transport.Assigned{Position: from})
				for o := from.Next; o < end; o++ {
					if m.Begin(at(o), by) {
						require.False(t, covered[o], "%d was covered, but starts again from %+v", o, from)
					}
					if rapid.IntRange(0, 9).Draw(t, "stop") == 0 {
						end = o + 1 // the rest is read later
					}
				}
			},
			"": func(t *rapid.T) {
				runs := decodeMetadata(stored.Next, stored.Metadata)
				for o := range covered {
					require.True(t, o < stored.Next || covers(runs, o), "%d was covered, but %+v is stored", o, stored)
				}
			},
		})
	})
}

// If there are more runs than fit, as many durable finishes are covered as there is room for, and none that was already covered
// is dropped.
func TestMetadataIsBoundedAndKeepsWhatItCovers(t *testing.T) {
	t.Parallel()
	m := NewTracker()
	m.Assign(0, transport.Assigned{Position: transport.Position{Assignment: 1}})
	now, by := time.Unix(1000, 0), time.Unix(2000, 0)
	var covered []Place
	refused := 0
	for o := range int64(4500) {
		at := Place{0, 1, o}
		require.True(t, m.Begin(at, by))
		switch {
		case o%2 == 0 || o < 3: // stays open, so that every other one is a separate run
		case o%4 == 1:
			m.Finish(at)
		default:
			m.FinishDurably([]Place{at})
			low := m.Due(now)
			require.LessOrEqual(t, len(low[0].Metadata), metadataLimit)
			m.Acknowledge(low)
			if m.SettleDurable([]Place{at}, by) {
				covered = append(covered, at)
			} else {
				refused++
			}
		}
	}
	require.NotEmpty(t, covered)
	require.NotZero(t, refused)
	require.True(t, m.SettleDurable(covered, by), "it covers all of them")
}
