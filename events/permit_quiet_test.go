package events_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The clock of a task's owner may have been ahead. A permit is kept for what was left of the quiet time, and not for what the clock was wrong.
func TestAQuietTimeLastsAsLongWhateverTheClock(t *testing.T) {
	t.Parallel()
	const now, day = events.Instant(1_000_000), events.Instant(86_400_000)
	for name, c := range map[string]struct{ quiet, sent, want events.Instant }{
		"at once":                     {now + 5_000, now, now + 5_000},
		"late":                        {now + 5_000, now - 3_000, now + 5_000},
		"over":                        {now - 1_000, now - 3_000, now - 1_000},
		"the limit's clock is behind": {now + 5_000, now + 3_000, now + 5_000},
		"the clock was a day ahead":   {now + day + 5_000, now + day, now + 5_000},
	} {
		m := &events.PermitMessage{QuietAt: c.quiet}
		require.Equal(t, c.want, m.QuietFrom(c.sent, now), name)
	}
	require.Less(t, new(events.PermitMessage).QuietFrom(now+day, now), now, "without a quiet time")
	link := events.Link{Task: "t", Incarnation: "i", Run: 1, N: 1}
	m := &events.PermitMessage{Limit: "l", Link: link}
	ended := &events.Task{ID: "t", Incarnation: "i", EndedAt: now + day, QuietAt: now + day + 5_000}
	require.Equal(t, now+5_000, events.ReturnPermit(ended, m, now).QuietAt)
	ended.EndedAt, ended.QuietAt = now-1_000, now+5_000
	require.Equal(t, now+5_000, events.ReturnPermit(ended, m, now).QuietAt)
	ended.Incarnation = "another"
	require.Zero(t, events.ReturnPermit(ended, m, now).QuietAt)
	require.Zero(t, events.ReturnPermit(nil, m, now).QuietAt)
}
