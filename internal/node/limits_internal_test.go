package node

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// An answer to an apply is never an empty limit: if another request came between, it says so.
func TestAnAppliedLimitIsNeverEmpty(t *testing.T) {
	t.Parallel()
	bank := events.LimitDefinition{Limit: "bank", Max: 2}
	now, faults := appliedLimit(scheduler.LimitRecord{LimitDefinition: bank, Offset: 5}, 5)
	require.Empty(t, faults)
	require.Equal(t, bank, now.LimitDefinition)
	deleted := scheduler.LimitRecord{LimitDefinition: events.LimitDefinition{Limit: "bank"}, Offset: 6, Deleted: true}
	_, faults = appliedLimit(deleted, 5)
	require.Contains(t, faults[0].Message, "deleted by another request")
	for _, ignored := range []scheduler.LimitRecord{{}, deleted} {
		_, faults = appliedLimit(ignored, 7)
		require.Contains(t, faults[0].Message, "as many as it can have")
	}
}
