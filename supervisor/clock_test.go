package supervisor_test

import (
	"testing"
	"time"
	"unsafe"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// reading returns a time whose wall clock and monotonic clock differ from the base by the given amounts. Only a real
// machine's clocks can drift apart, so the test writes the monotonic reading into the second word of the time.Time.
func reading(base time.Time, wall, monotonic time.Duration) time.Time {
	t := base.Add(monotonic)
	ext := (*[3]uint64)(unsafe.Pointer(&t))[1]
	moved := base.Add(wall)
	(*[3]uint64)(unsafe.Pointer(&moved))[1] = ext
	return moved
}

func TestTheClockReadingsOfTheTestAreRight(t *testing.T) {
	t.Parallel()
	base := time.Now()
	r := reading(base, time.Hour, time.Second)
	require.Equal(t, time.Second, r.Sub(base))
	require.Equal(t, time.Hour, r.Round(0).Sub(base.Round(0)))
}

func TestASteadyClockIsTrusted(t *testing.T) {
	t.Parallel()
	base := time.Now()
	c := supervisor.NewClock(base)
	for i := range 100 {
		d := time.Duration(i) * 20 * time.Minute
		now, turned := c.Read(reading(base, d+time.Duration(i)*40*time.Millisecond, d), false)
		require.False(t, turned, "a clock that drifts by less than its limit is no jump")
		require.Equal(t, events.At(base.Add(d+time.Duration(i)*40*time.Millisecond)), now)
	}
}

func TestAJumpForwardIsSuspectedUntilItIsReversed(t *testing.T) {
	t.Parallel()
	base := time.Now()
	c := supervisor.NewClock(base)
	c.Read(reading(base, time.Second, time.Second), false)
	now, turned := c.Read(reading(base, time.Hour, 2*time.Second), false)
	require.True(t, turned)
	require.True(t, c.Suspect())
	require.Equal(t, events.At(base.Add(time.Second)), now, "no fact gets the new time")
	require.InDelta(t, int64(time.Hour), int64(c.Jump()), float64(3*time.Second), "the size of the jump")
	now, turned = c.Read(reading(base, time.Hour+time.Second, 3*time.Second), false)
	require.False(t, turned)
	require.Equal(t, events.At(base.Add(time.Second)), now)
	now, turned = c.Read(reading(base, 4*time.Second, 4*time.Second), false)
	require.True(t, turned)
	require.False(t, c.Suspect())
	require.Equal(t, events.At(base.Add(4*time.Second)), now)
}

func TestAJumpThatStaysIsTrustedAfterAMinute(t *testing.T) {
	t.Parallel()
	base := time.Now()
	c := supervisor.NewClock(base)
	c.Read(reading(base, time.Hour, time.Second), false)
	_, turned := c.Read(reading(base, time.Hour+50*time.Second, 51*time.Second), false)
	require.False(t, turned)
	now, turned := c.Read(reading(base, time.Hour+62*time.Second, 63*time.Second), false)
	require.True(t, turned)
	require.False(t, c.Suspect())
	require.Equal(t, events.At(base.Add(time.Hour+62*time.Second)), now, "after a sleep the wall clock is right")
	_, turned = c.Read(reading(base, time.Hour+90*time.Second, 91*time.Second), false)
	require.False(t, turned)
	_, turned = c.Read(reading(base, 2*time.Hour, 92*time.Second), false)
	require.True(t, turned, "a second jump is suspected too")
}

func TestAClockThatWasSetBackAdvancesAtHalfSpeed(t *testing.T) {
	t.Parallel()
	base := time.Now()
	c := supervisor.NewClock(base)
	last, _ := c.Read(reading(base, time.Second, time.Second), false)
	for i := range 1000 { // readings closer together than a millisecond
		d := time.Second + time.Duration(i+1)*300*time.Microsecond
		now, turned := c.Read(reading(base, d-time.Hour, d), false)
		require.False(t, turned)
		require.GreaterOrEqual(t, now, last, "time never goes backwards")
		last = now
	}
	require.InDelta(t, int64(events.At(base.Add(1150*time.Millisecond))), int64(last), 2)
	now, _ := c.Read(reading(base, 61*time.Minute, 121*time.Minute), false)
	require.InDelta(t, int64(events.At(base.Add(61*time.Minute))), int64(now), 500, "two hours later the wall clock has caught up")
	_, turned := c.Read(reading(base, 122*time.Minute, 121*time.Minute+time.Second), false)
	require.True(t, turned, "an hour forward is a jump, even after an hour back")
}
