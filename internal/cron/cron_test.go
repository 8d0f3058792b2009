package cron_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/cron"
)

// due returns the dues of an expression after an instant, in the time zone, as many as are wanted.
func due(t *testing.T, text, zone, after string, n int) (list []string) {
	t.Helper()
	e, err := cron.Parse(text)
	require.NoError(t, err)
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	at, err := time.Parse(time.RFC3339, after)
	require.NoError(t, err)
	for range n {
		at = e.Next(at, loc)
		if at.IsZero() {
			return list
		}
		list = append(list, at.In(loc).Format(time.RFC3339))
	}
	return list
}

// Both changes of the clock, in several zones: a time that does not exist is due at the next instant that does, and of one that exists
// twice the first is due.
func TestChangesOfTheClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, zone, after string
		want              []string
	}{
		{"30 2 * * *", "Europe/Vienna", "2026-03-28T00:00:00Z", []string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"0 3 * * *", "Europe/Vienna", "2026-03-28T12:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T03:00:00+02:00"}},
		{"*/30 * * * *", "Europe/Vienna", "2026-03-29T00:29:00Z", []string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"}},
		{"30 2 * * *", "Europe/Vienna", "2026-10-24T12:00:00Z", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"*/30 2,3 * * *", "Europe/Vienna", "2026-10-24T12:00:00Z", []string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T03:00:00+01:00"}},
		{"30 2 * * *", "Europe/Vienna", "2026-10-25T00:45:00Z", []string{"2026-10-26T02:30:00+01:00"}}, // between the two
		{"30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", []string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", []string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", []string{"2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"}}, // there is no midnight
		{"30 23 * * *", "America/Santiago", "2026-04-04T12:00:00Z", []string{"2026-04-04T23:30:00-03:00", "2026-04-05T23:30:00-04:00"}},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}}, // by half an hour
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", []string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", []string{"2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"}}, // a day that never was
		{"0 2 * * *", "Asia/Kolkata", "2026-03-28T12:00:00Z", []string{"2026-03-29T02:00:00+05:30"}},
	} {
		require.Equal(t, c.want, due(t, c.text, c.zone, c.after, len(c.want)), "%s in %s", c.text, c.zone)
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"0 2 * * MON-FRI":      {"2026-11-26T02:00:00Z", "2026-11-27T02:00:00Z", "2026-11-30T02:00:00Z"},
		"0 2 * * fri-sun":      {"2026-11-27T02:00:00Z", "2026-11-28T02:00:00Z", "2026-11-29T02:00:00Z", "2026-12-04T02:00:00Z"},
		"0 2 * * 7":            {"2026-11-29T02:00:00Z", "2026-12-06T02:00:00Z"},
		"0 2 1 * MON":          {"2026-11-30T02:00:00Z", "2026-12-01T02:00:00Z", "2026-12-07T02:00:00Z"}, // one of the two
		"0 2 */2 * MON":        {"2026-12-07T02:00:00Z", "2026-12-21T02:00:00Z"},                         // both
		"0 0 29 2 *":           {"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"},
		"0 0 29 2 */6":         {"2032-02-29T00:00:00Z", "2048-02-29T00:00:00Z"},
		"5-20/5,50 6 * jan *":  {"2027-01-01T06:05:00Z", "2027-01-01T06:10:00Z", "2027-01-01T06:15:00Z", "2027-01-01T06:20:00Z", "2027-01-01T06:50:00Z"},
		"40/10 6 1 1 *":        {"2027-01-01T06:40:00Z", "2027-01-01T06:50:00Z", "2028-01-01T06:40:00Z"},
		"0 12 31 * *":          {"2026-12-31T12:00:00Z", "2027-01-31T12:00:00Z", "2027-03-31T12:00:00Z"},
		"0  12   *  6-8\t1,3 ": {"2027-06-02T12:00:00Z", "2027-06-07T12:00:00Z"},
	} {
		require.Equal(t, want, due(t, text, "UTC", "2026-11-25T20:00:00Z", len(want)), text)
	}
	for text, want := range map[string]string{
		"":                "five fields",
		"@daily":          "five fields",
		"0 2 * *":         "this has 4",
		"60 2 * * *":      `minute: "60" is not a value from 0 to 59`,
		"0 2 0 * *":       `day of month: "0" is not a value from 1 to 31`,
		"0 2 * foo *":     `month: "foo" is not a value from 1 to 12`,
		"0 2 * * FRI-TUE": `"FRI-TUE" ends before it begins`,
		"0/0 2 * * *":     `"0" is not a step`,
		"0 2 30 2 *":      "never due",
		", 2 * * *":       `minute: "" is not a value`,
	} {
		_, err := cron.Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}
