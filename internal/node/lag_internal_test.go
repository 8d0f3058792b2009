package node

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestALagCountsFromTheFirstEndThatIsNotPassed(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	var e seenEnds
	for s, end := range []int64{10, 10, 12, 20} {
		e.see(end, at(s))
	}
	records, since := e.behind(10, at(5))
	require.Equal(t, int64(10), records)
	require.Equal(t, 3*time.Second, since)
	records, since = e.behind(20, at(6))
	require.Zero(t, records)
	require.Zero(t, since)
	for i := range int64(5 * maxSeen) {
		e.see(100+i, at(int(i)))
	}
	require.LessOrEqual(t, len(e.list), maxSeen)
	_, since = e.behind(50, at(5*maxSeen))
	require.Equal(t, 5*maxSeen*time.Second, since, "the oldest is never forgotten")
}

func TestTheCauseOfATakeOver(t *testing.T) {
	t.Parallel()
	now, long := time.Now(), time.Now().Add(-time.Minute)
	beat := func(at time.Time, p events.Presence) seenHeartbeat { return seenHeartbeat{Presence: p, at: at} }
	l := &liveness{seen: map[string]seenHeartbeat{
		"node/gone": beat(long, events.Presence{}), "node/silent": beat(long, events.Presence{StartedAt: 1}),
		"node/ill": beat(now, events.Presence{StartedAt: 1, Unable: []int32{3}}), "node/well": beat(now, events.Presence{StartedAt: 1}),
	}}
	for name, want := range map[string]struct {
		cause string
		at    time.Time
	}{
		"gone": {causeStopped, long}, "silent": {causeSilent, long}, "ill": {causeFault, time.Time{}}, "well": {causeStopped, time.Time{}}, "unknown": {causeSilent, time.Time{}},
	} {
		cause, at := l.lastSign(name, 3)
		require.Equal(t, want.cause, cause, name)
		require.Equal(t, want.at, at, name)
	}
}
