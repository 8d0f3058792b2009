package verify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
)

// TestHeadersSayWhatTheFactSays reads a log with a late claim, a fact of an old epoch and a gap, once by its facts and
// once by their headers.
func TestHeadersSayWhatTheFactSays(t *testing.T) {
	t.Parallel()
	a, b := events.Epoch{N: 1, ID: "a"}, events.Epoch{N: 2, ID: "b"}
	ended := func(e events.Epoch, sequence uint64) *events.Fact {
		return &events.Fact{Epoch: e, Sequence: sequence, Task: "t", Time: 1, Body: &events.TaskProcessed{}}
	}
	claimOf := func(id, prev string, level int) *events.Fact {
		return &events.Fact{Time: 1, Body: &events.PartitionClaimed{ID: id, Prev: prev, Owner: "n", Reader: level}}
	}
	claim := func(id, prev string) *events.Fact { return claimOf(id, prev, 1) }
	c := events.Epoch{N: 3, ID: "c"}
	barrier := func(e events.Epoch, sequence uint64) *events.Fact {
		return &events.Fact{Epoch: e, Sequence: sequence, Time: 1, Body: &events.VersionBarrier{Reader: 2}}
	}
	var byFact, byHeaders verify.Rule
	for i, x := range []struct {
		fact *events.Fact
		void string
	}{
		{ended(a, 0), verify.VoidEpoch},
		{claim("a", ""), ""},
		{ended(a, 0), ""},
		{ended(a, 0), verify.VoidGap},
		{claim("b", "a"), ""},
		{claim("c", "a"), verify.VoidClaim},
		{claim("b", "b"), verify.VoidClaim},
		{ended(a, 1), verify.VoidEpoch},
		{ended(b, 0), ""},
		{ended(b, 2), verify.VoidGap},
		{ended(b, 1), verify.VoidGap},
		{barrier(b, 3), verify.VoidGap},
		{claim("c", "b"), ""},
		{barrier(c, 0), ""},
		{claim("d", "c"), verify.VoidOlder},
		{ended(c, 1), ""},
		{claimOf("d", "c", 2), ""},
		{claim("e", "d"), verify.VoidOlder},
	} {
		r, err := events.EncodeFact(x.fact, 0, "/sagalog/events/0/n")
		require.NoError(t, err)
		void, err := byHeaders.JudgeRecord(&r)
		require.NoError(t, err)
		require.Equal(t, x.void, void, "record %d", i)
		require.Equal(t, x.void, byFact.Judge(x.fact), "record %d", i)
		require.Equal(t, byFact, byHeaders, "record %d", i)
	}
	_, err := byHeaders.JudgeRecord(&events.Record{Offset: 7})
	require.ErrorContains(t, err, "offset 7")
}
