package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// Each reason for which a log is not cut is enough, although a carry that is old enough is complete and all effects are settled.
func TestALogIsNotCutInDoubt(t *testing.T) {
	t.Parallel()
	const at = events.Instant(1_000_000_000_000)
	old, late := events.Position{Epoch: events.Epoch{N: 1, ID: "a"}, Sequence: 5}, events.Position{Epoch: events.Epoch{N: 1, ID: "a"}, Sequence: 9}
	partition := func() *events.PartitionState {
		return &events.PartitionState{
			Epoch: old.Epoch, Settings: events.Settings{KeepLog: events.Duration(time.Hour)},
			Carried: []events.Carried{{Begun: old, At: at.Add(-2 * time.Hour)}, {Begun: late, At: at.Add(-time.Minute)}},
		}
	}
	snapshot := func() *events.Snapshot {
		return &events.Snapshot{Next: 20, Carries: []events.CarryOffset{{Begun: old, Offset: 6}, {Begun: late, Offset: 10}}}
	}
	offset, ok := snapshot().Cut(partition(), at)
	require.True(t, ok)
	require.EqualValues(t, 6, offset, "where the latest carry that is old enough begins")
	for reason, change := range map[string]func(*events.PartitionState, *events.Snapshot){
		"all facts are kept": func(p *events.PartitionState, _ *events.Snapshot) { p.Settings.KeepLog = 0 },
		"the state is not complete": func(p *events.PartitionState, _ *events.Snapshot) {
			p.Carry = &events.Carrying{Begun: late, Loading: true}
		},
		"the time has just jumped": func(p *events.PartitionState, _ *events.Snapshot) {
			p.JumpedAt = at.Add(time.Millisecond - events.SweepAfterJump)
		},
		"no carry is old enough":       func(p *events.PartitionState, _ *events.Snapshot) { p.Carried = p.Carried[1:] },
		"nobody knows where it begins": func(_ *events.PartitionState, s *events.Snapshot) { s.Carries = s.Carries[1:] },
		"an effect is owed": func(_ *events.PartitionState, s *events.Snapshot) {
			s.Runs = []events.Run{{Epoch: old.Epoch, Sequence: 4, Offset: 5, Count: 9}}
		},
	} {
		p, s := partition(), snapshot()
		change(p, s)
		_, ok := s.Cut(p, at)
		require.False(t, ok, reason)
	}
	for reason, change := range map[string]func(*events.PartitionState){
		"a carry of a complete state is under way": func(p *events.PartitionState) { p.Carry = &events.Carrying{Begun: late} },
		"the time jumped some time ago":            func(p *events.PartitionState) { p.JumpedAt = at.Add(-events.SweepAfterJump) },
	} {
		p := partition()
		change(p)
		offset, ok := snapshot().Cut(p, at)
		require.True(t, ok && offset == 6, reason)
	}
}
