package agent

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRunsThatAreDoneSurviveTheCommit(t *testing.T) {
	t.Parallel()
	require.Equal(t, "sagalog-done-1 3+2,1+40", encodeDone(10, []span{{13, 15}, {16, 56}}))
	rapid.Check(t, func(t *rapid.T) {
		next := rapid.Int64Range(0, math.MaxInt64/2).Draw(t, "next")
		at := next
		var done []span
		for range rapid.IntRange(0, 9).Draw(t, "runs") {
			s := span{first: at + rapid.Int64Range(0, 1<<40).Draw(t, "gap")}
			s.end = s.first + rapid.Int64Range(1, 1<<40).Draw(t, "length")
			done, at = append(done, s), s.end
		}
		require.Equal(t, done, decodeDone(next, encodeDone(next, done)))
	})
	for _, foreign := range []string{
		"", "member-1", "sagalog-done-2 1+1", "sagalog-done-1 ", "sagalog-done-1 1", "sagalog-done-1 -1+2", "sagalog-done-1 1+0",
		"sagalog-done-1 1+2,", "sagalog-done-1 x+2", "sagalog-done-1 1+9223372036854775807",
	} {
		require.Empty(t, decodeDone(5, foreign), foreign)
	}
}

// Whatever is read, finished, promised, and lost in whatever order, and whether the commits arrive or not: a request of
// which was said that its end is recorded is begun by no later instance.
func TestWhatWasKeptIsNeverBegunAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMarks()
		now, by := time.Unix(1000, 0), time.Unix(2000, 0)
		assignment, end := int64(1), int64(0)
		stored := Mark{Assignment: 1}
		kept := map[int64]bool{}
		at := func(o int64) place { return place{0, assignment, o} }
		m.adopt(0, Assigned{Mark: stored})
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
		commit := func(t *rapid.T, promises ...place) {
			m.promise(promises)
			low := m.low(now)
			arrived, answered := rapid.Bool().Draw(t, "arrived"), rapid.Bool().Draw(t, "answered")
			if s, ok := low[0]; ok && arrived {
				stored = s
				if answered {
					m.commit(low)
				}
			}
			if m.kept(promises, by) {
				for _, p := range promises {
					kept[p.offset] = true
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				end += rapid.Int64Range(1, 2).Draw(t, "gap")
				m.begin(at(end-1), by)
			},
			"finish":  func(t *rapid.T) { m.finish(at(open(t))) },
			"promise": func(t *rapid.T) { commit(t, at(open(t))) },
			"commit":  func(t *rapid.T) { commit(t) },
			"crash": func(t *rapid.T) {
				assignment++
				from := stored
				from.Assignment = assignment
				m = newMarks()
				m.adopt(0, Assigned{Mark: from})
				for o := from.Next; o < end; o++ {
					if m.begin(at(o), by) {
						require.False(t, kept[o], "%d was kept, and begins again from %+v", o, from)
					}
					if rapid.IntRange(0, 9).Draw(t, "stop") == 0 {
						end = o + 1 // the rest is read later
					}
				}
			},
			"": func(t *rapid.T) {
				done := decodeDone(stored.Next, stored.Metadata)
				for o := range kept {
					require.True(t, o < stored.Next || covers(done, o), "%d was kept, and %+v is stored", o, stored)
				}
			},
		})
	})
}

// More runs than fit: what is promised is kept as far as it fits, and nothing that was kept is lost.
func TestMetadataThatWouldNotFitKeepsNoPromise(t *testing.T) {
	t.Parallel()
	m := newMarks()
	m.adopt(0, Assigned{Mark: Mark{Assignment: 1}})
	now, by := time.Unix(1000, 0), time.Unix(2000, 0)
	var kept []place
	refused := 0
	for o := range int64(4500) {
		at := place{0, 1, o}
		require.True(t, m.begin(at, by))
		switch {
		case o%2 == 0 || o < 3: // stays open, so that each other one is a run of its own
		case o%4 == 1:
			m.finish(at)
		default:
			m.promise([]place{at})
			low := m.low(now)
			require.LessOrEqual(t, len(low[0].Metadata), doneLimit)
			m.commit(low)
			if m.kept([]place{at}, by) {
				kept = append(kept, at)
			} else {
				refused++
			}
		}
	}
	require.NotEmpty(t, kept)
	require.NotZero(t, refused)
	require.True(t, m.kept(kept, by), "all of them, to the end")
}
