package api_test

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/stretchr/testify/require"
)

func TestASchedulesDocument(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("GET", "/v1/schedules/hourly", "")
	require.Equal(t, 404, r.status)
	require.Contains(t, r.body, `There is no schedule \"hourly\"`)
	r = w.do("PUT", "/v1/schedules/hourly", "bad")
	require.Equal(t, 422, r.status)
	require.Contains(t, r.body, `"pointer":"/cron"`)
	r = w.do("PUT", "/v1/schedules/hourly", "schedule: hourly")
	require.Equal(t, 200, r.status, r.body)
	d := into[api.ScheduleDocument](t, r)
	require.True(t, d.Changed)
	require.Len(t, d.Next, 5)
	require.False(t, into[api.ScheduleDocument](t, w.do("PUT", "/v1/schedules/hourly", "schedule: hourly")).Changed)

	w.engine.ChangeSchedule("hourly", func(x *events.Schedule) {
		x.Paused = &events.Paused{By: "ada"}
		x.Fires = []events.ScheduleFire{{Due: 2000, Task: "hourly/b", At: 5, State: "processed"}, {Due: 1000, Task: "hourly/a", At: 6}}
		x.Running, x.Fired, x.Missed = x.Fires[1:], 2, 3
	})
	d = into[api.ScheduleDocument](t, w.do("GET", "/v1/schedules/hourly", ""))
	require.Empty(t, d.Next)
	require.Equal(t, "hourly/a", d.Last.Task)
	require.Equal(t, []any{"ada", 1, int64(2), int64(3)}, []any{d.Paused.By, len(d.Running), d.Fired, d.Missed})
	fires := into[struct{ Fires []api.ScheduleFire }](t, w.do("GET", "/v1/schedules/hourly/fires", "")).Fires
	require.Len(t, fires, 7)
	require.Equal(t, "hourly/a", fires[0].Task)
	require.Equal(t, 422, w.do("GET", "/v1/schedules/hourly/fires?until=soon", "").status)
	require.Contains(t, w.do("GET", "/v1/schedules", "").body, `"schedule":"hourly"`)

	require.Equal(t, 200, w.do("DELETE", "/v1/schedules/hourly", "").status)
	require.Equal(t, 404, w.do("DELETE", "/v1/schedules/hourly", "").status)
}

// The requests of a backfill are one for each due time, and the answer says what became of each.
func TestABackfillAsksForEachDueTime(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/schedules/hourly", "schedule: hourly")
	const body = `{"since":"2026-11-20T01:00:00Z","until":"2026-11-20T03:30:00Z","reason":"why","by":"ada"}`
	r := w.do("POST", "/v1/schedules/hourly/backfill", body, "Idempotency-Key", "b1")
	require.Equal(t, 202, r.status, r.body)
	asked := w.engine.Inputs(events.Reports)
	require.Len(t, asked, 3)
	require.JSONEq(t, `{"id":"b1/0","schedule":"hourly","due":"2026-11-20T01:00:00.000Z","overlap":"allow","reason":"why","by":"ada"}`, string(asked[0].Value))
	require.Equal(t, "schedule/hourly", string(asked[0].Key))
	for body, want := range map[string]string{
		`{}`: "no since or no until", `{"since":"2026-11-20T01:00:00Z","until":"2026-11-19T01:00:00Z"}`: "is before since",
		`{"since":"2026-11-20T01:00:00Z","until":"2096-11-19T01:00:00Z"}`:                   "is in the future",
		`{"since":"2026-10-20T01:00:00Z","until":"2026-11-19T01:00:00Z"}`:                   "More than 100 due times",
		`{"since":"x","until":"2026-11-19T01:00:00Z"}`:                                      "is not an instant",
		`{"since":"2026-11-20T01:00:00Z","until":"2026-11-20T03:00:00Z","overlap":"never"}`: "is not one of skip",
	} {
		r := w.do("POST", "/v1/schedules/hourly/backfill", body)
		require.GreaterOrEqual(t, r.status, 400)
		require.Contains(t, r.body, want, body)
	}
	require.Len(t, w.engine.Inputs(events.Reports), 3)
}

func TestOnlyTheEngineSubmitsForASchedule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.do("PUT", "/v1/tasks/a", `{"workflow":"order","input":{"item":"x"},"schedule":"hourly"}`)
	require.Equal(t, 422, r.status)
	require.Contains(t, r.body, "trigger the schedule instead")
}
