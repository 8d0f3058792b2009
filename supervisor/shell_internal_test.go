package supervisor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The log says that the brokers take nothing when they had a minute for it. A standstill of the process, after which an old effect is still to be
// sent, is not theirs.
func TestTheBrokersAreNotBlamedForAStandstill(t *testing.T) {
	t.Parallel()
	now := events.Instant(1_000_000_000)
	s := &Shell{status: Status{Oldest: Unanswered{Topic: "work.a", Since: now - 339_000}}}
	require.Zero(t, unanswered(s, now), "another node may send it")
	s.status.Owning = true
	require.Zero(t, unanswered(s, now), "it was decided before the start")
	require.Equal(t, time.Minute, unanswered(s, now+60_000))
	s.status.Oldest.Since = now + 30_000
	require.Equal(t, 30*time.Second, unanswered(s, now+60_000))
	s.status.Oldest = Unanswered{}
	require.Zero(t, unanswered(s, now+60_000))
	s.status.Owning = false
	require.Zero(t, unanswered(s, now+60_000))
	s.status = Status{Owning: true, Oldest: Unanswered{Since: now}}
	require.Zero(t, unanswered(s, now+90_000), "the partition was elsewhere")
}
