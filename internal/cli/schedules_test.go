package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

func TestSchedulesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	e := setup(t)
	file := filepath.Join(t.TempDir(), "hourly.yaml")
	require.NoError(t, os.WriteFile(file, []byte("schedule: hourly\nworkflow: order\nevery: 1h\n"), 0o600))
	r := e.run("schedule", "apply", file)
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `hourly +yes +order +every 1h`, r.out)
	require.Regexp(t, `hourly +order +every 1h +waiting +2026-\S+ +0 +0 +0`, e.run("schedules", "list").out)

	e.ChangeSchedule("hourly", func(x *events.Schedule) {
		x.Paused, x.Fired = &events.Paused{By: "ada", Reason: "why"}, 1
		x.Fires = []events.ScheduleFire{{Due: 1000, Task: "hourly/1970-01-01T00:00:01Z", At: 5, State: "processed"}}
	})
	r = e.run("schedule", "get", "hourly")
	require.Regexp(t, `STATE +paused\nPAUSED +\S* ?ada why`, r.out)
	require.Contains(t, e.run("schedule", "next", "hourly").out, "hourly/1970-01-01T00:00:01Z  processed")

	// A trigger sends a submission. What becomes of it is not known when it answers, unless it is known already.
	e.ChangeSchedule("hourly", func(x *events.Schedule) {
		x.Fires = append(x.Fires, events.ScheduleFire{Due: 2000, Task: "hourly/b", At: 6, Request: "q1"},
			events.ScheduleFire{Due: 3000, Task: "hourly/c", At: 7, Request: "q2", State: events.EndRejected, Reason: "the input has no zone"})
	})
	r = e.run("schedule", "trigger", "hourly", "--request-id", "q1")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `submitted +1970-01-01T00:00:02.000Z +hourly/b`, r.out)
	require.NotContains(t, r.out, "fired")
	require.Contains(t, r.err, "accepts or rejects the task next; `sagalog schedule next hourly`")
	r = e.run("schedule", "trigger", "hourly", "--request-id", "q2")
	require.Equal(t, 4, r.code)
	require.Regexp(t, `rejected +1970-01-01T00:00:03.000Z +hourly/c +the input has no zone`, r.out)

	r = e.run("schedule", "backfill", "hourly", "--since", "90m", "--until", "2h")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "until: is before since", "both are this long ago")
	r = e.run("schedule", "backfill", "hourly", "--since", "1 hour", "--until", "1h")
	require.Contains(t, r.err, "since: is not an instant such as 2026-12-01T00:00:00Z")

	r = e.run("schedule", "delete", "hourly", "--yes")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "schedule hourly is deleted")
	require.Equal(t, 3, e.run("schedule", "get", "hourly").code)

	require.NoError(t, os.WriteFile(file, []byte("schedule: hourly\nworkflow: order\nevery: 1h\ncron: 0 25 * * *\n"), 0o600))
	r = e.run("schedule", "apply", file)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "nothing is applied: 2 faults")
}
