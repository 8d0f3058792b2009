package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// twoOwners is a partition that went from node n to node m 3 s after n's last fact; a fact of n comes late.
func twoOwners(t *testing.T) *scribe {
	s := newScribe(t)
	s.claim("a", "")
	s.processed("d1")
	s.time += 2000
	s.node = "m"
	old, seq := s.epoch, s.seq
	s.claim("b", "a")
	s.time += 997
	s.processed("d2")
	s.node = "n"
	now, next := s.epoch, s.seq
	s.epoch, s.seq = old, seq
	s.fact("d2", &events.StepStarted{Step: "package", Agent: "package", Attempt: 2})
	s.node, s.epoch, s.seq = "m", now, next
	return s
}

func TestAuditTellsWhoOwnedWhat(t *testing.T) {
	t.Parallel()
	s := twoOwners(t)
	sum, err := s.audit(auditFlags{epochs: true}, "d1", "d2")
	require.NoError(t, err, "%+v", sum.First)
	require.Equal(t, map[string]int{"n": 1, "m": 1}, sum.Ownership.Owners)
	require.Equal(t, 1, sum.Ownership.Late)
	require.Equal(t, figures{Count: 1, P50: 2999, P99: 2999, Max: 2999}, sum.Ownership.Gaps)
	require.Len(t, sum.Ownership.Partitions, 1)
	old, now := sum.Ownership.Partitions[0].Epochs[0], sum.Ownership.Partitions[0].Epochs[1]
	require.Equal(t, "1-a", old.Epoch)
	require.Equal(t, 1, old.Late)
	require.Equal(t, 1, old.Void)
	require.Equal(t, "m", now.Owner)
	require.Equal(t, 2001*time.Millisecond, now.Claimed.Sub(old.Last))
	require.Equal(t, now.ClaimOffset, old.LastOffset+1)

	sum, err = s.audit(auditFlags{}, "d1", "d2")
	require.NoError(t, err)
	require.Empty(t, sum.Ownership.Partitions)
}

func TestAuditTellsHowLongDeliveriesWaited(t *testing.T) {
	t.Parallel()
	s := newScribe(t)
	s.claim("a", "")
	s.processed("d1")
	s.fact("d2", &events.Submitted{Workflow: "w", Version: 1, Hash: "h", Content: "c"})
	s.time += 499
	s.step("d2", "package", false)
	s.time += 1999
	s.fact("d2", &events.TaskProcessed{})
	sum, err := s.audit(auditFlags{}, "d1", "d2")
	require.NoError(t, err, "%+v", sum.First)
	require.InDelta(t, 500, sum.Waits.Started.Max, 0)
	require.InDelta(t, 2000, sum.Waits.Silent.Max, 0)
	require.InDelta(t, 2501, sum.Waits.Whole.Max, 0)
	require.Equal(t, "d2", sum.Waits.Longest.Task)
	require.Equal(t, events.NameStepCompleted, sum.Waits.Longest.Behind)
	require.Equal(t, events.NameTaskProcessed, sum.Waits.Longest.Before)
}

func TestAuditFindsTwoOwnersOfAnEpoch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		harm func(s *scribe)
		says string
	}{
		"a fact of another node": {func(s *scribe) { s.node = "n"; s.processed("d3") }, `which node "m" owned, and node "n" wrote it`},
		"a void one of another node": {func(s *scribe) {
			s.node = "x"
			s.seq += 7
			s.fact("d2", &events.TaskUndone{})
			s.processed("d3")
		}, `which node "m" owned, and node "x" wrote it`},
		"a claim of another node": {func(s *scribe) {
			s.add(&events.Fact{Body: &events.PartitionClaimed{ID: "c", Prev: "b", Owner: "x"}})
		}, `is for node "x", and node "m" wrote it`},
		"an epoch of nobody": {func(s *scribe) {
			s.epoch = events.Epoch{N: 9, ID: "z"}
			s.fact("d2", &events.TaskUndone{})
		}, "is of epoch 9-z, which nobody had yet"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := twoOwners(t)
			tt.harm(s)
			sum, err := s.audit(auditFlags{})
			require.Error(t, err)
			require.Contains(t, fmt.Sprint(sum.First), tt.says)
		})
	}
}

func TestAuditFindsEffectsOfNothing(t *testing.T) {
	t.Parallel()
	s := twoOwners(t)
	accepted := map[string]string{}
	for i := range s.records {
		if r := &s.records[i]; r.Header(events.HeaderType) == events.TypePrefix+string(events.NameStepStarted) {
			accepted[string(r.Key)] = r.Header(events.HeaderID)
		}
	}
	void := s.records[len(s.records)-1].Header(events.HeaderID)
	s.effects = []effect{{kind: effectWork, place: "w/0 at offset 0", of: accepted["d1"]}, {kind: effectWork, place: "w/0 at offset 1", of: accepted["d1"]}}
	sum, err := s.audit(auditFlags{}, "d1", "d2")
	require.NoError(t, err, "%+v", sum.First)
	require.Equal(t, effectCounts{Records: 2, Repeats: 1, Unsent: 3}, *sum.Effects[effectWork])

	for says, of := range map[string]string{"which is void: partition 0 at offset": void, "which the log does not hold": "0/7-x/1"} {
		s.effects = []effect{{kind: effectWork, place: "w/0 at offset 0", of: of}}
		sum, err = s.audit(auditFlags{}, "d1", "d2")
		require.Error(t, err)
		require.Contains(t, fmt.Sprint(sum.First), says)
	}
	s.effects = []effect{{kind: effectAlert, place: "a/0 at offset 0", of: accepted["d1"]}}
	_, err = s.audit(auditFlags{}, "d1", "d2")
	require.Error(t, err, "of a fact that has another effect")
}
