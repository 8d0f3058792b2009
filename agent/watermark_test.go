package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever is read, finished, given away and read again in whatever order: what may be committed never passes a
// request that is unfinished and not expired, never falls, and in the end reaches all.
func TestTheLowWaterMarkNeverPassesAnUnfinishedRequest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMarks()
		now := time.Unix(1000, 0)
		type entry struct {
			by   time.Time
			open bool
		}
		model := map[place]entry{}
		next := map[int32]int64{}
		committed := map[int32]int64{}
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				p := rapid.Int32Range(0, 2).Draw(t, "partition")
				at := place{p, 1, next[p]}
				next[p] += rapid.Int64Range(1, 3).Draw(t, "gap") // control records and trimmed ones leave gaps
				by := now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "left")) * time.Second)
				m.adopt(p, Assigned{Mark: Mark{Assignment: 1}})
				require.True(t, m.begin(at, by))
				model[at] = entry{by, true}
			},
			"read again": func(t *rapid.T) {
				for at, e := range model {
					require.Equal(t, e.open, m.begin(at, e.by), "what is finished is not begun again")
				}
			},
			"finish": func(t *rapid.T) {
				var open []place
				for at, e := range model {
					if e.open {
						open = append(open, at)
					}
				}
				if len(open) == 0 {
					t.Skip("nothing is open")
				}
				at := open[0]
				for _, o := range open { // maps have no order; the seed must decide
					if o.partition*1000+int32(o.offset) < at.partition*1000+int32(at.offset) == rapid.Bool().Draw(t, "lower") {
						at = o
					}
				}
				m.finish(at)
				model[at] = entry{model[at].by, false}
			},
			"time passes": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second) },
			"commit": func(t *rapid.T) {
				low := m.low(now)
				m.commit(low)
				for p, l := range low {
					require.Greater(t, l.Next, committed[p], "a mark only rises")
					committed[p] = l.Next
				}
			},
			"": func(t *rapid.T) {
				for p, l := range m.low(now) {
					for at, e := range model {
						if at.partition == p && (at.offset < l.Next || covers(decodeDone(l.Next, l.Metadata), at.offset)) {
							require.False(t, e.open && now.Before(e.by), "mark %v of partition %d covers %d", l, p, at.offset)
						}
					}
				}
			},
		})
		for at := range model {
			m.finish(at)
		}
		m.commit(m.low(now))
		for p, q := range m.partitions {
			require.Equal(t, q.next, q.committed.Next, "partition %d", p)
			require.Empty(t, q.open)
		}
	})
}

func TestMarksOfAPartitionGivenAwayAreForgotten(t *testing.T) {
	t.Parallel()
	m := newMarks()
	by := time.Unix(10, 0)
	for p := range int32(3) {
		m.adopt(p, Assigned{Mark: Mark{Assignment: 1}})
		require.True(t, m.begin(place{p, 1, 5}, by))
	}
	m.keep(func() []int32 { return []int32{0, 2} })
	m.adopt(0, Assigned{Mark: Mark{Assignment: 2, Next: 5}})
	require.True(t, m.begin(place{0, 2, 5}, by), "given away and back: another may have had it")
	for p := range int32(3) {
		m.finish(place{p, 1, 5})
	}
	low := m.low(time.Unix(0, 0))
	require.Equal(t, Mark{Assignment: 1, Next: 6}, low[2])
	require.Equal(t, Mark{Assignment: 2, Next: 5}, low[0])
	require.NotContains(t, low, int32(1))
}

// Offsets that were lost are given again, to requests that nobody has read.
func TestMarksDoNotCoverWhatTookThePlaceOfLostRequests(t *testing.T) {
	t.Parallel()
	m := newMarks()
	by := time.Unix(10, 0)
	require.True(t, m.adopt(0, Assigned{Mark: Mark{Assignment: 1}}))
	for o := range int64(10) {
		require.True(t, m.begin(place{0, 1, o}, by))
		m.finish(place{0, 1, o})
	}
	require.False(t, m.begin(place{0, 1, 7}, by), "read again")
	lost := Assigned{Mark: Mark{Assignment: 2, Next: 3}, Shared: 10, Lost: true, LostFrom: 6}
	require.True(t, m.adopt(0, lost))
	require.False(t, m.adopt(0, lost))
	for o := int64(3); o < 10; o++ {
		require.Equal(t, o >= 6, m.begin(place{0, 2, o}, by), o)
	}
	require.False(t, m.exclusive([]place{{0, 2, 7}}), "another instance may have read it")
	require.Equal(t, Mark{Assignment: 2, Next: 6}, m.low(time.Unix(0, 0))[0])
}
