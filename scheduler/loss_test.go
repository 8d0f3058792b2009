package scheduler_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// The latest record of an input's partition counts; one that cannot be a loss changes nothing.
func TestTheLatestAcceptedLossOfAnInputCounts(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	for offset, x := range []struct {
		loss events.AcceptedLoss
		ok   bool
	}{
		{events.AcceptedLoss{Input: events.Submissions, Partition: 1, From: 3, To: 9}, true},
		{events.AcceptedLoss{Input: events.Reports, Partition: 1, From: 0, To: 2}, true},
		{events.AcceptedLoss{Input: events.Submissions, Partition: 1, From: 9, To: 9, Reason: "retention", By: "ada"}, true},
		{events.AcceptedLoss{Input: events.Submissions, Partition: 1, From: 9, To: 8}, false},
		{events.AcceptedLoss{Input: "other", Partition: 1, From: 9, To: 18}, false},
		{events.AcceptedLoss{Input: events.Submissions, Partition: -1, From: 9, To: 18}, false},
	} {
		r, err := scheduler.EncodeLoss(&x.loss, events.Subject{ID: "1", Source: "/test"})
		require.NoError(t, err)
		r.Offset = int64(offset)
		require.Equal(t, x.ok, c.Apply(&r) == nil, offset)
	}
	got, ok := c.AcceptedLoss(events.Submissions, 1)
	require.True(t, ok)
	require.Equal(t, scheduler.LossRecord{AcceptedLoss: events.AcceptedLoss{Input: events.Submissions, Partition: 1, From: 9, To: 9, Reason: "retention", By: "ada"}, Offset: 2}, got)
	_, ok = c.AcceptedLoss(events.Submissions, 0)
	require.False(t, ok)
	require.Len(t, c.LossesAfter(2), 1)
	require.Len(t, c.LossesAfter(0), 2)
}
