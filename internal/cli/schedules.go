package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

func scheduleCommand() *cobra.Command {
	g := group("schedule", "Apply, read, pause, trigger and delete schedules, which start tasks at certain times",
		output(&cobra.Command{
			Use: "apply FILE...", Short: "Apply schedules, in YAML or JSON", Args: cobra.MinimumNArgs(1),
			Long: "Apply schedules in YAML or JSON; - is stdin. All are validated first, and none is applied if one has a fault. A schedule that was applied\n" +
				"before gets the new definition; if it is paused, it stays paused.",
			Example: "  sagalog schedule apply daily-report.yaml",
			RunE:    scheduleClient(func(s scheduleCaller, args []string) error { return s.apply(args) }),
		}),
		validateCommand("schedule", "Find every fault in schedules, without an engine", "daily-report.yaml",
			func(file string, data []byte) []scheduler.Fault {
				_, faults := parseSchedule(file, data)
				return faults
			}),
		output(&cobra.Command{
			Use: "list", Aliases: []string{"ls"}, Short: "List schedules", Args: cobra.NoArgs,
			RunE: client(func(s *session, _ []string) error {
				return s.whole("/v1/schedules", "schedules", listing{none: "there are no schedules", head: row{"SCHEDULE", "WORKFLOW", "DUE", "STATE", "UPCOMING", "LAST", "FIRED", "SKIPPED", "MISSED", "FAILED"}, cells: rowOf(scheduleRow)})
			}),
		}),
		output(&cobra.Command{
			Use: "get NAME", Aliases: []string{"show"}, Short: "Read a schedule", Args: cobra.ExactArgs(1),
			RunE: scheduleClient(func(s scheduleCaller, args []string) error {
				doc, err := s.get(s.cmd.Context(), schedulePath(args[0]), nil)
				return s.shown(doc, err)
			}),
		}),
		nextCommand(),
		scheduleVerb("pause", "Pause a schedule: no due time leads to a task", "", nil),
		scheduleVerb("resume", "Resume a schedule from its next due time", "", nil),
		scheduleVerb("trigger", "Start a task of a schedule now", "", nil),
		backfillCommand(),
		asksFirst("the schedule", output(&cobra.Command{
			Use: "delete NAME", Short: "Delete a schedule: its tasks go on", Args: cobra.ExactArgs(1),
			RunE: scheduleClient(func(s scheduleCaller, args []string) error {
				_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodDelete, path: schedulePath(args[0])})
				if err != nil {
					return ofData(err)
				}
				return s.one(doc, func(w io.Writer) error { _, err := fmt.Fprintf(w, "schedule %s is deleted\n", args[0]); return err })
			}),
		})),
	)
	g.Aliases = []string{"schedules"}
	return g
}

func nextCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "next NAME", Short: "List the due times of a schedule, past and future", Args: cobra.ExactArgs(1),
		Example: "  sagalog schedule next daily-report --until 2026-12-24T00:00:00Z",
		RunE: scheduleClient(func(s scheduleCaller, args []string) error {
			path := schedulePath(args[0]) + "/fires"
			if until := s.flag("until"); until != "" {
				path += "?" + url.Values{"until": {until}}.Encode()
			}
			doc, err := s.get(s.cmd.Context(), schedulePath(args[0]), nil)
			if err != nil {
				return err
			}
			var d api.ScheduleDocument
			if err := decode(doc, &d); err != nil {
				return err
			}
			if d.Paused != nil {
				s.note("the schedule is paused: none of the future due times starts a task until it is resumed")
			}
			return s.whole(path, "fires", listing{none: "the schedule has no due times", head: fireHead, cells: rowOf(fireRow)})
		}),
	})
	c.Flags().String("until", "", "list future due times up to this instant (default: the next five)")
	return c
}

func backfillCommand() *cobra.Command {
	c := scheduleVerb("backfill", "Start the tasks of past due times",
		"Start the tasks of the due times from --since to --until, up to 100. Those that have led to a task before are listed as already; to do one of\nthese again, submit its input with another ID.",
		map[string]string{
			"since": "the first due time, or an instant before it, such as 2026-11-20T00:00:00Z, or this long ago (168h)",
			"until": "the last due time, or an instant after it, or this long ago", "overlap": "skip, queue_one or allow (default: allow, all start at once)",
		})
	suggest(c, "overlap", "skip", "queue_one", "allow")
	return c
}

// scheduleVerb is the command of a request about a schedule; members are the flags whose values go into its body.
func scheduleVerb(verb, short, long string, members map[string]string) *cobra.Command {
	example := fmt.Sprintf("  sagalog schedule %s daily-report --reason 'the database was down'", verb)
	if members != nil {
		example += " --since 2026-11-20T00:00:00Z --until 2026-11-25T00:00:00Z"
	}
	c := output(&cobra.Command{
		Use: verb + " NAME", Short: short, Long: cmp.Or(long, short+"."), Args: cobra.ExactArgs(1), Example: example,
		RunE: scheduleClient(func(s scheduleCaller, args []string) error {
			body := map[string]string{}
			for _, name := range []string{"reason", "by", "since", "until", "overlap"} {
				if s.cmd.Flags().Lookup(name) != nil && s.flag(name) != "" {
					body[name] = s.flag(name)
				}
			}
			for _, name := range []string{"since", "until"} {
				if ago, err := events.ParseDuration(body[name]); err == nil {
					body[name] = events.At(time.Now().Add(-ago.Std())).String()
				}
			}
			return s.ask(verb, args[0], body)
		}),
	})
	f := c.Flags()
	f.String("reason", "", "why, for the record")
	f.String("by", "", "who asks, for the record")
	f.String("request-id", "", "the request's ID; repeating a request with the same ID changes nothing (default: a new one)")
	f.Duration("wait-for", judgedWithin, "how long to wait until the request is judged, at most 1m")
	for name, use := range members {
		f.String(name, "", use)
	}
	return c
}

// scheduleCaller is a session that is about schedules.
type scheduleCaller struct{ *session }

func scheduleClient(run func(s scheduleCaller, args []string) error) func(*cobra.Command, []string) error {
	return client(func(s *session, args []string) error { return run(scheduleCaller{s}, args) })
}

func schedulePath(name string) string { return "/v1/schedules/" + url.PathEscape(name) }

func (s scheduleCaller) apply(files []string) error {
	show := func(docs []json.RawMessage) error {
		return s.list(docs, listing{head: row{"SCHEDULE", "CHANGED", "WORKFLOW", "DUE", "UPCOMING"}, cells: rowOf(func(d api.ScheduleDocument) row {
			return row{d.Schedule, yesNo(d.Changed), d.Workflow, dueText(&d), nextText(&d)}
		})})
	}
	return applyObjects(s.session, objects{"schedule", parseSchedule, schedulePath, show}, files)
}

func parseSchedule(file string, data []byte) (string, []scheduler.Fault) {
	d, faults := scheduler.ParseSchedule(file, data)
	if d == nil {
		return "", faults
	}
	return d.Schedule, faults
}

// ask sends a request about a schedule, and prints what became of it.
func (s scheduleCaller) ask(verb, name string, members map[string]string) error {
	within, _ := s.cmd.Flags().GetDuration("wait-for")
	if within <= 0 || within > api.MaxWait {
		return Usage("--wait-for must be above 0 and at most 1m")
	}
	body, err := json.Marshal(members)
	if err != nil {
		return err
	}
	id := cmp.Or(s.flag("request-id"), uuid.Must(uuid.NewV7()).String())
	status, doc, err := s.do(s.cmd.Context(), request{
		method: http.MethodPost, path: schedulePath(name) + "/" + verb, body: body, content: "application/json",
		header: map[string]string{"Idempotency-Key": id}, query: url.Values{"wait": {within.String()}}, wait: within,
	})
	if err != nil {
		return err
	}
	var r api.ScheduleReceipt
	if err := decode(doc, &r); err != nil {
		return err
	}
	if err := s.one(doc, func(w io.Writer) error { return showScheduleReceipt(w, &r, verb) }); err != nil {
		return err
	}
	switch {
	case status == http.StatusAccepted:
		return exit(ExitStillRunning, "the request was not judged within %s; `sagalog schedule get %s` shows the schedule", within, name)
	case slices.ContainsFunc(r.Fired, func(f api.ScheduleFire) bool { return f.State == events.EndRejected }):
		return exit(ExitConflict, "the task was rejected; correct the schedule and apply it again")
	case slices.ContainsFunc(r.Fired, func(f api.ScheduleFire) bool { return f.State == "" }):
		s.note("submitted: the engine accepts or rejects the task next; `sagalog schedule next %s` shows which, and why", Printable(name))
	}
	if len(r.Refused) > 0 {
		return exit(ExitConflict, "%s refused", Counted(len(r.Refused), "due time"))
	}
	return nil
}

func showScheduleReceipt(w io.Writer, r *api.ScheduleReceipt, verb string) error {
	if r.Result == "" {
		return nil
	}
	var rows []row
	for _, f := range r.Fired {
		rows = append(rows, row{cmp.Or(f.State, "submitted"), instant(f.Due), strings.TrimSpace(f.Task + "  " + f.Reason)})
	}
	for _, due := range r.Queued {
		rows = append(rows, row{"queued", instant(due), events.ScheduleTask(r.Schedule, due)})
	}
	for _, f := range r.Already {
		rows = append(rows, row{"already", instant(f.Due), f.Task})
	}
	for _, x := range r.Refused {
		rows = append(rows, row{"refused", instant(x.Due), x.Reason})
	}
	if len(rows) > 0 {
		return table(w, row{"RESULT", "DUE", "TASK"}, rows)
	}
	if verb == "backfill" {
		_, err := fmt.Fprintln(w, "there is no due time between --since and --until")
		return err
	}
	_, err := fmt.Fprintf(w, "schedule %s: %s is granted\n", r.Schedule, verb)
	return err
}

func dueText(d *api.ScheduleDocument) string {
	if d.Every != "" {
		return "every " + d.Every
	}
	return d.Cron + " " + cmp.Or(d.TimeZone, "UTC")
}

func nextText(d *api.ScheduleDocument) string {
	if len(d.Next) == 0 {
		return ""
	}
	return instant(d.Next[0])
}

func scheduleState(d *api.ScheduleDocument) string {
	switch {
	case d.Paused != nil:
		return "paused"
	case len(d.Running) > 0:
		return "running"
	}
	return "waiting"
}

func scheduleRow(d api.ScheduleDocument) row {
	last := ""
	if d.Last != nil {
		last = cmp.Or(d.Last.State, "running")
	}
	return row{d.Schedule, d.Workflow, dueText(&d), scheduleState(&d), nextText(&d), last, count(d.Fired), count(d.Skipped), count(d.Missed), count(d.Failed)}
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

var fireHead = row{"DUE", "TASK", "STATE", "REASON"}

func fireRow(f api.ScheduleFire) row {
	state := f.State
	if f.At != 0 {
		state = cmp.Or(state, "running")
	}
	return row{instant(f.Due), f.Task, state, f.Reason}
}

// shown prints a schedule.
func (s scheduleCaller) shown(doc json.RawMessage, err error) error {
	if err != nil {
		return err
	}
	var d api.ScheduleDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	return s.one(doc, func(w io.Writer) error { return showSchedule(w, &d) })
}

func showSchedule(w io.Writer, d *api.ScheduleDocument) error {
	labels, err := json.Marshal(d.Labels)
	if err != nil {
		return err
	}
	if len(d.Labels) == 0 {
		labels = nil
	}
	all := []row{
		{"SCHEDULE", d.Schedule}, {"WORKFLOW", d.Workflow}, {"DUE", dueText(d)}, {"OVERLAP", string(d.Overlap)}, {"CATCH UP", d.CatchUp}, {"JITTER", d.Jitter},
		{"INPUT", string(d.Input)}, {"LABELS", string(labels)}, {"STATE", scheduleState(d)},
	}
	if d.Paused != nil {
		all = append(all, row{"PAUSED", instant(d.Paused.Since) + " " + d.Paused.By + " " + d.Paused.Reason})
	}
	for _, due := range d.Next {
		all = append(all, row{"UPCOMING", instant(due)})
	}
	for _, f := range d.Running {
		all = append(all, row{"RUNNING", f.Task})
	}
	if d.Last != nil {
		all = append(all, row{"LAST", d.Last.Task + " " + d.Last.State})
	}
	all = append(all, row{"QUEUED", instant(d.Queued)}, row{"FIRED", count(d.Fired)}, row{"SKIPPED", count(d.Skipped)}, row{"MISSED", count(d.Missed)}, row{"FAILED", count(d.Failed)})
	rows := all[:0]
	for _, r := range all {
		if r[1] != "" {
			rows = append(rows, r)
		}
	}
	return table(w, nil, rows)
}
