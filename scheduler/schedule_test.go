package scheduler_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

const dailyReport = `
schedule: daily-report
workflow: report
cron: "0 2 * * MON-FRI"
time_zone: Europe/Vienna
overlap: queue_one
catch_up: 6h
jitter: 5m
input: {day: "${ schedule.due_date }", due: "${ schedule.due }", before: "${ schedule.previous_due }", n: 1}
labels: {team: finance}
priority: 3
deadline: 2h
`

func parseSchedule(t *testing.T, text string) *events.ScheduleDefinition {
	t.Helper()
	d, faults := scheduler.ParseSchedule("s.yaml", []byte(text))
	require.NotNil(t, d, "%v", faults)
	require.Empty(t, faults)
	return d
}

func TestASchedulesTasks(t *testing.T) {
	t.Parallel()
	d := parseSchedule(t, dailyReport)
	friday, err := time.Parse(time.RFC3339, "2026-03-27T12:00:00Z")
	require.NoError(t, err)
	due, err := scheduler.NextDue(d, events.At(friday))
	require.NoError(t, err)
	require.Equal(t, "2026-03-30T00:00:00.000Z", due.String(), "the clocks were set forward on Sunday")
	sub, err := scheduler.Occurrence(d, due, events.At(friday))
	require.NoError(t, err)
	b, err := events.Marshal(sub)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"daily-report/2026-03-30T00:00:00Z","workflow":"report","priority":3,"labels":{"team":"finance"},"deadline":"2h","schedule":"daily-report",
		"input":{"day":"2026-03-30","due":"2026-03-30T02:00:00+02:00","before":"2026-03-27T13:00:00+01:00","n":1}}`, string(b))
	at := scheduler.FireAt(d, due)
	require.Equal(t, at, scheduler.FireAt(d, due))
	require.True(t, at >= due && at < due.Add(5*time.Minute))

	every := parseSchedule(t, "schedule: s\nworkflow: w\nevery: 15m")
	require.Equal(t, []any{events.OverlapSkip, scheduler.DefaultCatchUp}, []any{every.Overlap, every.CatchUp})
	due, err = scheduler.NextDue(every, events.At(friday.Add(7*time.Minute)))
	require.NoError(t, err)
	require.Equal(t, "2026-03-27T12:15:00.000Z", due.String())
	require.Equal(t, due, scheduler.FireAt(every, due))
}

func TestFaultsOfSchedules(t *testing.T) {
	t.Parallel()
	const head = "schedule: s\nworkflow: w\n"
	for text, want := range map[string]string{
		"workflow: w\nevery: 1h":                       "schedule is missing",
		"schedule: s\nevery: 1h":                       "workflow is missing",
		head:                                           "cron or every is missing",
		head + "every: 1h\ncron: 0 2 * * *":            "cron or every, not both",
		head + "cron: 0 25 * * *":                      `hour: "25" is not a value from 0 to 23`,
		head + "every: 1ms":                            "is not between",
		head + "every: 1m\njitter: 2m":                 "is not shorter than every",
		head + "every: 1m\ntime_zone: Mars":            "is not a time zone",
		head + "every: 1m\noverlap: never":             "queue_one",
		head + "every: 1m\ncatch_up: 9000h":            "is longer than",
		head + `every: 1m` + "\ninput: ${ task.id }":   "task",
		head + "every: 1m\ninput: ${ schedule.later }": "schedule has no",
		head + "every: 1m\nlabels: {a: '${ input }'}":  "is a constant",
		head + "every: 1m\npriority: 5000":             "priority",
		head + "every: 1m\nsteps: {}":                  "steps",
	} {
		d, faults := scheduler.ParseSchedule("s.yaml", []byte(text))
		require.Nil(t, d, text)
		require.Contains(t, lines(faults), want, text)
	}
}

func TestThePublishedSchemaOfSchedules(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(scheduler.ScheduleSchema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("https://sagalog.dev/schema/schedule.schema.json", doc))
	s, err := c.Compile("https://sagalog.dev/schema/schedule.schema.json")
	require.NoError(t, err)
	require.NoError(t, s.Validate(load(t, dailyReport)))
	require.Error(t, s.Validate(load(t, dailyReport+"every: 1h")))
	var keys struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(scheduler.ScheduleSchema(), &keys))
	require.Equal(t, slices.Sorted(slices.Values(scheduler.ScheduleKeys)), slices.Sorted(maps.Keys(keys.Properties)))
}

// The latest record of a schedule counts, and one that cannot be used is ignored.
func TestSchedulesInTheDefinitions(t *testing.T) {
	t.Parallel()
	c := newJobCatalog(t)
	offset := int64(4)
	apply := func(r events.Record) error {
		offset++
		r.Offset = offset
		return c.Apply(&r)
	}
	record := func(text string) events.Record {
		r, err := scheduler.EncodeSchedule(parseSchedule(t, text), events.Subject{ID: "1", Source: "/test", Time: c.now})
		require.NoError(t, err)
		return r
	}
	require.EqualValues(t, -1, c.ScheduledUpTo())
	require.NoError(t, apply(record(dailyReport)))
	require.NoError(t, apply(record(strings.Replace(dailyReport, "priority: 3", "priority: 4", 1))))
	known := c.Schedules()["daily-report"]
	require.EqualValues(t, 6, known.Offset)
	require.Contains(t, string(known.Body), `"priority":4`)
	home := events.Home(events.ScheduleKey("daily-report"), 2)
	require.Equal(t, []scheduler.ScheduleRecord{known}, c.SchedulesOf(home, 2))
	require.Empty(t, c.SchedulesOf(1-home, 2))

	other := record(dailyReport)
	other.Key = []byte(events.ScheduleKey("other"))
	require.ErrorContains(t, apply(other), "and the object")
	broken := record(dailyReport)
	broken.Value = []byte(`{"schedule":"daily-report"}`)
	require.ErrorContains(t, apply(broken), "workflow is missing")
	require.Equal(t, known, c.Schedules()["daily-report"])

	require.Equal(t, 1, c.ScheduleCount())
	require.NoError(t, apply(scheduler.EncodeScheduleDeletion("daily-report", events.Subject{ID: "1", Source: "/test", Time: c.now})))
	require.Nil(t, c.Schedules()["daily-report"].Body)
	require.Zero(t, c.ScheduleCount())
	require.EqualValues(t, 9, c.ScheduledUpTo())
	require.Len(t, c.SchedulesOf(home, 2), 1, "owners learn of the deletion")
	require.NoError(t, apply(record(dailyReport)))
	require.NoError(t, apply(record(dailyReport)))
	list := c.SchedulesOf(home, 2)
	require.Len(t, list, 2)
	require.Equal(t, scheduler.ScheduleRecord{Schedule: "daily-report", Offset: 9}, list[0], "an owner that reads both at once does not go on with the deleted schedule")
	require.EqualValues(t, 11, list[1].Offset)
}
