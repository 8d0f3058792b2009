package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// The latest acknowledgement of an alert counts, one that is over is forgotten, and of too many the oldest are forgotten.
func TestAcknowledgementsAreBounded(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	at := int64(0)
	apply := func(a events.AlertAcknowledgement) error {
		r, err := scheduler.EncodeAcknowledgement(&a, events.Subject{ID: "1", Source: "/test"})
		require.NoError(t, err)
		r.Offset, at = at, at+1
		return c.Apply(&r)
	}
	require.Error(t, apply(events.AlertAcknowledgement{}))
	for i := range scheduler.MaxAcknowledged {
		require.NoError(t, apply(events.AlertAcknowledgement{Alert: fmt.Sprint("parked:a", i, "@1"), Note: "first"}))
	}
	require.NoError(t, apply(events.AlertAcknowledgement{Alert: "parked:a0@1", Note: "second", By: "ada"}))
	require.Equal(t, "second", c.Acknowledged()["parked:a0@1"].Note)
	require.NoError(t, apply(events.AlertAcknowledgement{Alert: "parked:more@1"}))
	require.Len(t, c.Acknowledged(), scheduler.MaxAcknowledged)
	require.Contains(t, c.Acknowledged(), "parked:a0@1", "it was acknowledged again since")
	require.NotContains(t, c.Acknowledged(), "parked:a1@1")
	require.NoError(t, apply(events.AlertAcknowledgement{Alert: "parked:a0@1", Over: true}))
	require.NotContains(t, c.Acknowledged(), "parked:a0@1")
}
