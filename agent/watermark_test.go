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
				at := place{p, next[p]}
				next[p] += rapid.Int64Range(1, 3).Draw(t, "gap") // control records and trimmed ones leave gaps
				by := now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "left")) * time.Second)
				m.begin(at, by)
				model[at] = entry{by, true}
			},
			"read again": func(t *rapid.T) {
				p := rapid.Int32Range(0, 2).Draw(t, "partition")
				from := committed[p]
				for at, e := range model {
					if at.partition == p && at.offset >= from {
						m.begin(at, e.by)
						model[at] = entry{e.by, true}
					}
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
					require.Greater(t, l, committed[p], "a mark only rises")
					committed[p] = l
				}
			},
			"": func(t *rapid.T) {
				for p, l := range m.low(now) {
					for at, e := range model {
						if at.partition == p && at.offset < l {
							require.False(t, e.open && now.Before(e.by), "mark %d of partition %d passes %d", l, p, at.offset)
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
			require.Equal(t, q.next, q.committed, "partition %d", p)
			require.Empty(t, q.open)
		}
	})
}

func TestMarksOfAPartitionGivenAwayAreForgotten(t *testing.T) {
	t.Parallel()
	m := newMarks()
	by := time.Unix(10, 0)
	m.begin(place{1, 5}, by)
	m.begin(place{2, 5}, by)
	m.keep([]int32{2})
	m.finish(place{1, 5})
	m.finish(place{2, 5})
	require.Equal(t, map[int32]int64{2: 6}, m.low(time.Unix(0, 0)))
}
