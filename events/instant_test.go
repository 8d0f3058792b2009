package events_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

const (
	yearZero  = events.Instant(-62167219200000)
	year10000 = events.Instant(253402300800000)
)

// Each text that is written is read back, over all instants that a text can name.
func TestInstantText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		i := events.Instant(rapid.Int64Range(int64(yearZero), int64(year10000)-1).Draw(t, "instant"))
		b, err := json.Marshal(i)
		require.NoError(t, err)
		var got events.Instant
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, i, got)
		require.Equal(t, i, events.At(i.Time()))
	})
	require.Equal(t, "2026-11-21T14:00:00.000Z", testStart.String())
	require.Equal(t, testStart, events.At(testStart.Time().Add(999*time.Microsecond)))
	require.Zero(t, events.At(time.Time{}))
	require.Empty(t, events.Instant(0).String())
	require.True(t, events.Instant(0).Time().IsZero())
	require.Equal(t, testStart+1500, testStart.Add(1500*time.Millisecond+999))
	require.Equal(t, 2*time.Second, testStart.Sub(testStart-2000))
}

func TestParseInstant(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]events.Instant{
		"2026-11-21T14:00:00Z": testStart, "2026-11-21T15:00:00.0009+01:00": testStart, "2026-11-21T13:59:59.5-00:00": testStart - 500,
		"0000-01-01T00:00:00Z": yearZero, "9999-12-31T23:59:59.9999Z": year10000 - 1,
	} {
		got, err := events.ParseInstant(in)
		require.NoError(t, err)
		require.Equal(t, want, got, in)
	}
	// Instants outside these years could be read once, but not after they were written: a fact that held one would stop its
	// partition.
	for _, in := range []string{"", "2026-11-21", "2026-11-21T14:00:00", "1795269600000", "9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01"} {
		_, err := events.ParseInstant(in)
		require.Error(t, err, in)
		var i events.Instant
		if in != "" {
			require.Error(t, i.UnmarshalText([]byte(in)))
		}
	}
	var i events.Instant
	require.NoError(t, json.Unmarshal([]byte(`""`), &i))
	require.Zero(t, i)
}

func TestDurationText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := events.Duration(rapid.Int64().Draw(t, "duration"))
		got, err := events.ParseDuration(d.String())
		require.NoError(t, err)
		require.Equal(t, d, got)
	})
	for in, want := range map[string]string{
		"600s": "10m", "3600s": "1h", "90m": "1h30m", "3605s": "1h0m5s", "500ms": "500ms", "0": "0s", "1.5h": "1h30m", "20m": "20m", "10s": "10s", "-60s": "-1m", "100h": "100h",
	} {
		d, err := events.ParseDuration(in)
		require.NoError(t, err)
		require.Equal(t, want, d.String(), in)
	}
	_, err := events.ParseDuration("5")
	require.EqualError(t, err, `"5" is a duration without a unit: write 5s or 5ms`)
	for _, in := range []string{"", "s", "5 m", "1e3", "Inf", "NaN", "1d"} {
		_, err := events.ParseDuration(in)
		require.Error(t, err, in)
	}
	var d events.Duration
	require.Error(t, json.Unmarshal([]byte(`5`), &d))
	require.Error(t, json.Unmarshal([]byte(`"5"`), &d))
	require.NoError(t, json.Unmarshal([]byte(`"5s"`), &d))
	require.Equal(t, 5*time.Second, d.Std())
}
