package events_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestARateIsReadAsTheTimeForEachTask(t *testing.T) {
	t.Parallel()
	for text, each := range map[string]time.Duration{"": 0, "100/s": 10 * time.Millisecond, "30/m": 2 * time.Second, "1/h": time.Hour, "1000000/s": time.Microsecond} {
		got, err := events.ParseRate(text)
		require.NoError(t, err, text)
		require.Equal(t, each, got, text)
	}
	for _, text := range []string{"100", "0/s", "-1/s", "1000001/s", "1/d", "/s", "1/", "x/s", "1.5/s"} {
		_, err := events.ParseRate(text)
		require.Error(t, err, text)
	}
}

func TestTheTasksOfAJobWereSubmittedBeforeIt(t *testing.T) {
	t.Parallel()
	opened := events.At(time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC))
	window := func(since, until string) (events.Instant, events.Instant) {
		a, b, err := (&events.JobFilter{Since: since, Until: until}).Window(opened)
		require.NoError(t, err)
		return a, b
	}
	a, b := window("", "")
	require.Equal(t, []events.Instant{0, opened}, []events.Instant{a, b})
	a, b = window("2h", "2026-11-21T13:00:00Z")
	require.Equal(t, []events.Instant{opened.Add(-2 * time.Hour), opened.Add(-time.Hour)}, []events.Instant{a, b})
	_, b = window("", "2099-01-01T00:00:00Z")
	require.Equal(t, opened, b)
	_, b = window("", "1970-01-01T00:00:00Z")
	require.Negative(t, b, "no task was submitted before this instant, and zero would be no bound")
}
