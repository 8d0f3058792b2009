package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// twoOwners is the log of a partition that moved from node n to node m 3 s after n's last fact. One fact of n arrives
// late.
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

func TestAuditReportsOwners(t *testing.T) {
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

func TestAuditReportsHowLongDeliveriesWaited(t *testing.T) {
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

func TestAuditFindsAlertsWithoutAFact(t *testing.T) {
	t.Parallel()
	s := whole(t)
	id := map[events.Name]string{}
	for i := range s.records {
		id[events.Name(strings.TrimPrefix(s.records[i].Header(events.HeaderType), events.TypePrefix))] = s.records[i].Header(events.HeaderID)
	}
	s.alerts = []alert{{"a/0 at offset 0", id[events.NameTaskUndone]}, {"a/0 at offset 1", id[events.NameTaskUndone]}}
	sum, err := s.audit(auditFlags{})
	require.NoError(t, err, "%+v", sum.First)
	require.Equal(t, effectCounts{Records: 2, Repeats: 1}, sum.Effects["alerts"])

	void := twoOwners(t)
	void.node, void.epoch, void.seq = "n", events.Epoch{N: 1, ID: "a"}, 99
	void.fact("d2", &events.TaskUndone{})
	for says, harmed := range map[string]*scribe{id[events.NameStepStarted]: s, void.records[len(void.records)-1].Header(events.HeaderID): void} {
		harmed.alerts = []alert{{"a/0 at offset 0", says}}
		sum, err = harmed.audit(auditFlags{})
		require.Error(t, err)
		require.Contains(t, fmt.Sprint(sum.First), says)
	}
}
