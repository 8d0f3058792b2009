package node_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// report is a workflow without an agent.
const report = `
workflow: report
input: {type: object, required: [day]}
steps:
  make: {sleep: 10s}
`

// schedule applies a schedule.
func (w *world) schedule(p *process, name, text string) api.Schedule {
	w.t.Helper()
	s, changed, faults, err := p.Schedules().ApplySchedule(w.t.Context(), api.Draft{Name: name, Source: []byte(text)})
	require.NoError(w.t, err)
	require.Empty(w.t, faults)
	require.True(w.t, changed)
	return s
}

// scheduled waits until a schedule is as it should be.
func (w *world) scheduled(p *process, name string, is func(x *events.Schedule) bool) *events.Schedule {
	w.t.Helper()
	var x *events.Schedule
	for begun := time.Now(); time.Since(begun) < patience; <-time.After(50 * time.Millisecond) {
		var err error
		x, err = p.Schedules().ScheduleState(w.t.Context(), name)
		require.NoError(w.t, err)
		if x != nil && is(x) {
			return x
		}
	}
	w.t.Fatalf("schedule %s stays %+v", name, x)
	return nil
}

// askSchedule asks something about a schedule.
func (w *world) askSchedule(kind string, q events.ScheduleRequest) {
	w.t.Helper()
	r, err := events.EncodeScheduleRequest(q, kind, events.Subject{ID: uuid.NewString(), Source: "/test", Time: events.At(time.Now())})
	require.NoError(w.t, err)
	w.produce(w.topics.Reports(), -1, r)
}

// seriesOf returns the series whose names begin so, and checks their names.
func seriesOf(t *testing.T, r *prometheus.Registry, prefix string) (list []string) {
	families, err := r.Gather()
	require.NoError(t, err)
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), prefix) })
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			list = append(list, fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","), m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	slices.Sort(list)
	return list
}

// The example of the documentation is applied, fires, is paused, resumed and deleted.
func TestTheDailyReport(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/schedules/daily-report.yaml")
	require.NoError(t, err)
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		r := prometheus.NewPedanticRegistry()
		n := w.node(t.TempDir(), func(c *node.Config) { c.Registry = r })
		_, _, faults, err := n.Schedules().ApplySchedule(t.Context(), api.Draft{Name: "daily-report", Source: text})
		require.NoError(t, err)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0].Message, "apply it first")
		w.apply(n, report)
		w.schedule(n, "daily-report", string(text))
		_, changed, _, err := n.Schedules().ApplySchedule(t.Context(), api.Draft{Name: "daily-report", Source: text})
		require.NoError(t, err)
		require.False(t, changed)
		x := w.scheduled(n, "daily-report", func(*events.Schedule) bool { return true })
		require.Equal(t, "2000-01-03T01:00:00.000Z", x.Next.String(), "the bubble begins on a Saturday")

		due := events.At(time.Now())
		w.askSchedule(events.TypeScheduleTrigger, events.ScheduleRequest{ID: "t1", Schedule: "daily-report", Due: due, By: "ada"})
		x = w.scheduled(n, "daily-report", func(x *events.Schedule) bool { return len(x.Fires) == 1 && x.Fires[0].State != "" })
		require.Equal(t, []string{"processed", events.ScheduleTask("daily-report", due)}, []string{x.Fires[0].State, x.Fires[0].Task})
		require.Equal(t, []string{
			`sagalog_schedule_fires_total{result="failed",schedule="daily-report"} 0`, `sagalog_schedule_fires_total{result="fired",schedule="daily-report"} 1`,
			`sagalog_schedule_fires_total{result="missed",schedule="daily-report"} 0`, `sagalog_schedule_fires_total{result="skipped",schedule="daily-report"} 0`,
			`sagalog_schedule_next_timestamp_seconds{schedule="daily-report"} 9.468612e+08`,
		}, seriesOf(t, r, "sagalog_schedule_"), "the due time of a trigger is no lag")
		task := w.watch.task(x.Fires[0].Task)
		require.JSONEq(t, `{"day":"2000-01-01"}`, string(task.Input))
		require.Equal(t, map[string]string{"team": "finance"}, task.Labels)
		require.Equal(t, "daily-report", task.Schedule)

		w.askSchedule(events.TypeSchedulePause, events.ScheduleRequest{Schedule: "daily-report"})
		w.scheduled(n, "daily-report", func(x *events.Schedule) bool { return x.Paused != nil })
		w.askSchedule(events.TypeScheduleResume, events.ScheduleRequest{Schedule: "daily-report"})
		w.scheduled(n, "daily-report", func(x *events.Schedule) bool { return x.Paused == nil })

		deleted, err := n.Schedules().DeleteSchedule(t.Context(), "daily-report")
		require.NoError(t, err)
		require.True(t, deleted)
		w.soon("the schedule is gone", func() bool {
			x, err := n.Schedules().ScheduleState(t.Context(), "daily-report")
			return err == nil && x == nil
		})
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}

// A schedule is refused whose tasks would be, with the place of the fault.
func TestAScheduleIsCheckedAgainstItsWorkflow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		n := w.node(t.TempDir())
		w.apply(n, "workflow: report\ninput: {type: object, required: [day], properties: {day: {type: string}}}\nsteps:\n  make: {sleep: 10s}\n")
		for input, want := range map[string]api.Fault{
			"{day: 3}": {Pointer: "/input/day", Line: 4, Column: 9, Message: "number"},
			"{}":       {Pointer: "/input", Line: 4, Column: 1, Message: "day"},
			"{day: '${ schedule.due == schedule.due }'}":          {Pointer: "/input/day", Line: 4, Column: 9, Message: "boolean"},
			"{day: '${ schedule.previous_due }'}":                 {Pointer: "/input/day", Line: 4, Column: 9, Message: "null"},
			"{day: '${ schedule.previous_due[0:10] }'}":           {Pointer: "/input", Line: 4, Column: 1, Message: "the input"},
			"{day: '${ schedule.previous_due ?? schedule.due }'}": {},
			"{day: '${ schedule.due_date }'}":                     {},
		} {
			_, _, faults, err := n.Schedules().ApplySchedule(t.Context(), api.Draft{Name: "daily", Source: []byte("schedule: daily\ncron: 0 2 * * *\nworkflow: report\ninput: " + input + "\n")})
			require.NoError(t, err, input)
			if want.Message == "" {
				require.Empty(t, faults, input)
				continue
			}
			require.Len(t, faults, 1, input)
			require.Contains(t, faults[0].Message, want.Message, input)
			require.Contains(t, faults[0].Message, " due at 2000-01-0", input)
			want.Message = faults[0].Message
			require.Equal(t, want, faults[0], input)
		}
	})
}

// An apply says which schedules give an input that the new version refuses: otherwise that shows at their next due times.
func TestAnApplyWarnsOfSchedulesThatItsVersionRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, report)
		for name, more := range map[string]string{"daily": "", "pinned": "version: 1\n", "wide": "", "other": ""} {
			input := "{day: \"{{ schedule.due_date }}\"}"
			if name == "wide" {
				input = "{day: \"{{ schedule.previous_due }}\", zone: utc}"
			}
			w.schedule(n, name, "schedule: "+name+"\ncron: 0 2 * * *\nworkflow: report\n"+more+"input: "+input+"\n")
			if name == "other" {
				deleted, err := n.Schedules().DeleteSchedule(t.Context(), name)
				require.NoError(t, err)
				require.True(t, deleted)
			}
		}
		wider := api.Draft{Name: "report", Source: []byte(strings.Replace(report, "[day]", "[day, zone]", 1))}
		for _, apply := range []func() (api.Applied, []api.Fault, error){
			func() (api.Applied, []api.Fault, error) { return n.Definitions().Check(t.Context(), wider) },
			func() (api.Applied, []api.Fault, error) { return n.Definitions().Apply(t.Context(), wider) },
		} {
			a, faults, err := apply()
			require.NoError(t, err)
			require.Empty(t, faults)
			require.Len(t, a.Warnings, 1, "%+v", a.Warnings)
			require.Contains(t, a.Warnings[0].Message, `the tasks of schedule "daily" will be rejected`)
			require.Contains(t, a.Warnings[0].Message, "zone")
		}
		back, _, err := n.Definitions().Apply(t.Context(), api.Draft{Name: "report", Source: []byte(report)})
		require.NoError(t, err)
		require.Empty(t, back.Warnings)
		require.NoError(t, n.stop())
	})
}
