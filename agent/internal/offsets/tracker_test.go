package offsets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/agent/transport"
)

// Requests are read, finished and read again in any order. The position to commit never passes a request that is unfinished and
// not expired, never falls, and finally reaches the end of the partition.
func TestAPositionNeverPassesAnUnfinishedRequest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := NewTracker()
		now := time.Unix(1000, 0)
		type entry struct {
			by   time.Time
			open bool
		}
		model := map[Place]entry{}
		next := map[int32]int64{}
		committed := map[int32]int64{}
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				p := rapid.Int32Range(0, 2).Draw(t, "partition")
				at := Place{p, 1, next[p]}
				next[p] += rapid.Int64Range(1, 3).Draw(t, "gap") // control records and trimmed ones leave gaps
				by := now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "left")) * time.Second)
				m.Assign(p, transport.Assigned{Position: transport.Position{Assignment: 1}})
				require.True(t, m.Begin(at, by))
				model[at] = entry{by, true}
			},
			"read again": func(t *rapid.T) {
				for at, e := range model {
					require.Equal(t, e.open, m.Begin(at, e.by), "a finished request does not begin again")
				}
			},
			"finish": func(t *rapid.T) {
				var open []Place
				for at, e := range model {
					if e.open {
						open = append(open, at)
					}
				}
				if len(open) == 0 {
					t.Skip("nothing is open")
				}
				at := open[0]
				for _, o := range open { // maps have no order, but the seed must determine the run
					if o.Partition*1000+int32(o.Offset) < at.Partition*1000+int32(at.Offset) == rapid.Bool().Draw(t, "lower") {
						at = o
					}
				}
				m.Finish(at)
				model[at] = entry{model[at].by, false}
			},
			"time passes": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second) },
			"commit": func(t *rapid.T) {
				low := m.Due(now)
				m.Acknowledge(low)
				for p, l := range low {
					require.Greater(t, l.Next, committed[p], "a position only rises")
					committed[p] = l.Next
				}
			},
			"": func(t *rapid.T) {
				for p, l := range m.Due(now) {
					for at, e := range model {
						if at.Partition == p && (at.Offset < l.Next || covers(decodeMetadata(l.Next, l.Metadata), at.Offset)) {
							require.False(t, e.open && now.Before(e.by), "position %v of partition %d covers %d", l, p, at.Offset)
						}
					}
				}
			},
		})
		for at := range model {
			m.Finish(at)
		}
		m.Acknowledge(m.Due(now))
		for p, q := range m.partitions {
			require.Equal(t, q.next, q.committed.Next, "partition %d", p)
			require.Empty(t, q.open)
		}
	})
}

func TestARevokedPartitionIsForgotten(t *testing.T) {
	t.Parallel()
	m := NewTracker()
	by := time.Unix(10, 0)
	for p := range int32(3) {
		m.Assign(p, transport.Assigned{Position: transport.Position{Assignment: 1}})
		require.True(t, m.Begin(Place{p, 1, 5}, by))
	}
	m.Retain(func() []int32 { return []int32{0, 2} })
	m.Assign(0, transport.Assigned{Position: transport.Position{Assignment: 2, Next: 5}})
	require.True(t, m.Begin(Place{0, 2, 5}, by), "it was assigned to another instance in between")
	for p := range int32(3) {
		m.Finish(Place{p, 1, 5})
	}
	low := m.Due(time.Unix(0, 0))
	require.Equal(t, transport.Position{Assignment: 1, Next: 6}, low[2])
	require.Equal(t, transport.Position{Assignment: 2, Next: 5}, low[0])
	require.NotContains(t, low, int32(1))
}

// The broker reuses the offsets of lost records for requests that nobody has read.
func TestRequestsThatReplaceLostOnesAreBegun(t *testing.T) {
	t.Parallel()
	m := NewTracker()
	by := time.Unix(10, 0)
	require.True(t, m.Assign(0, transport.Assigned{Position: transport.Position{Assignment: 1}}))
	for o := range int64(10) {
		require.True(t, m.Begin(Place{0, 1, o}, by))
		m.Finish(Place{0, 1, o})
	}
	require.False(t, m.Begin(Place{0, 1, 7}, by), "read again")
	lost := transport.Assigned{Position: transport.Position{Assignment: 2, Next: 3}, Shared: 10, Lost: true, LostFrom: 6}
	require.True(t, m.Assign(0, lost))
	require.False(t, m.Assign(0, lost))
	for o := int64(3); o < 10; o++ {
		require.Equal(t, o >= 6, m.Begin(Place{0, 2, o}, by), o)
	}
	require.False(t, m.Exclusive([]Place{{0, 2, 7}}), "another instance may have read it")
	require.Equal(t, transport.Position{Assignment: 2, Next: 6}, m.Due(time.Unix(0, 0))[0])
}
