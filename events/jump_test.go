package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// A claim can move the time of a log as far as a fact.
func TestTheFoldNotesJumpsOfTheTime(t *testing.T) {
	t.Parallel()
	w := owned(t)
	require.Zero(t, w.state.Partition.JumpedAt, "the first claim is no jump")
	w.now = w.now.Add(events.TimeJump) - w.step
	w.write("", &events.InputsPassed{})
	require.Zero(t, w.state.Partition.JumpedAt, "an hour is no jump")
	w.now = w.state.Partition.Time.Add(events.TimeJump + time.Second)
	w.write("", &events.InputsPassed{})
	at := w.state.Partition.JumpedAt
	require.Equal(t, w.state.Partition.Time, at)
	w.now = w.now.Add(10 * time.Minute)
	w.write("", &events.InputsPassed{})
	require.Equal(t, at, w.state.Partition.JumpedAt)
	w.now = w.now.Add(2 * time.Hour)
	w.claim("next", w.epoch.ID)
	require.Equal(t, w.state.Partition.Time, w.state.Partition.JumpedAt)
}
