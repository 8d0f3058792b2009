package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

func limitCommand() *cobra.Command {
	list := output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List named limits, and the concurrency limits that tasks wait for or that are paused", Args: cobra.NoArgs,
		Long: "List all named limits, and the concurrency limits that tasks wait for or that are paused. Those with the most waiting tasks come first. HALTED counts the holders that are parked\n" +
			"or paused: tasks that wait for their permits wait until an operator retries, resumes, cancels or terminates them.",
		Example: "  sagalog limit list --all",
		RunE:    client(func(s *session, _ []string) error { return s.limits() }),
	})
	list.Flags().Bool("all", false, "also the concurrency limits that no task waits for and that are not paused")
	g := group("limit", "Apply, read, pause and delete limits of what runs at a time", list, applyLimitCommand(), setLimitCommand(), deleteLimitCommand(),
		limitVerb("pause", "Pause a limit: it gives no further permit", "Pause a limit: it gives no further permit until it is resumed; what has one goes on. A limit may be paused before any task needs it."),
		limitVerb("resume", "Resume a paused limit", "Resume a paused limit: what waits for it gets the permits that are free."),
		output(&cobra.Command{
			Use: "get NAME|WORKFLOW/KEY", Aliases: []string{"show"}, Short: "Read a limit: what has its permits, and what waits", Args: cobra.ExactArgs(1),
			Example: "  sagalog limit get bank\n  sagalog limit get payment/c-17",
			RunE: client(func(s *session, args []string) error {
				doc, err := s.get(s.cmd.Context(), limitPath(args[0]), nil)
				if err != nil {
					return err
				}
				var d api.LimitDocument
				if err := decode(doc, &d); err != nil {
					return err
				}
				return s.one(doc, func(w io.Writer) error { return showLimit(w, &d) })
			}),
		}),
	)
	g.AddCommand(limitWaitingCommand(), validateCommand("limit", "Find every fault in named limits, without an engine", "bank.yaml",
		func(file string, data []byte) []scheduler.Fault { _, faults := parseLimit(file, data); return faults }))
	g.Aliases = []string{"limits"}
	return g
}

func limitWaitingCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "waiting NAME|WORKFLOW/KEY", Short: "List what waits for a permit, in the order in which it gets one", Args: cobra.ExactArgs(1),
		Example: "  sagalog limit waiting bank\n  sagalog limit waiting payment/c-17 --all -o jsonl",
		RunE: client(func(s *session, args []string) error {
			q := url.Values{"limit": {s.flag("limit")}}
			if s.isSet("all") {
				q.Set("limit", "1000") // the engine reads the whole limit for each page
			}
			if v := s.flag("cursor"); v != "" {
				q.Set("cursor", v)
			}
			return s.pages(limitPath(args[0])+"/waiting", q, "waiters", listing{none: "nothing waits for limit " + args[0], head: row{"TASK", "STEP", "UNDO", "PRIORITY", "STATE", "SINCE"}, cells: rowOf(func(x api.LimitLink) row {
				return row{x.Task, cmp.Or(x.Step, "-"), yesNo(x.Undo), strconv.Itoa(x.Priority), cmp.Or(x.Halted, string(x.State), "-"), instant(x.Since)}
			})})
		}),
	})
	c.Flags().Int("limit", 100, "links a page, up to 1000")
	c.Flags().String("cursor", "", "continue after an earlier page")
	c.Flags().Bool("all", false, "all pages")
	return c
}

// limitVerb is the command of a request about a limit.
func limitVerb(verb, short, long string) *cobra.Command {
	c := output(&cobra.Command{
		Use: verb + " NAME|WORKFLOW/KEY", Short: short, Long: long, Args: cobra.ExactArgs(1),
		Example: "  sagalog limit " + verb + " bank --reason 'the bank is closed'\n  sagalog limit " + verb + " payment/c-17",
		RunE:    client(func(s *session, args []string) error { return s.askLimit(verb, args[0]) }),
	})
	f := c.Flags()
	f.String("reason", "", "why, for the record")
	f.String("by", "", "who asks, for the record")
	f.String("request-id", "", "the request's ID (default: a new one)")
	f.Duration("wait-for", judgedWithin, "how long to wait until the request is judged, at most 1m")
	return c
}

func (s *session) askLimit(verb, name string) error {
	within, _ := s.cmd.Flags().GetDuration("wait-for")
	if within <= 0 || within > api.MaxWait {
		return Usage("--wait-for must be above 0 and at most 1m")
	}
	body, err := json.Marshal(api.ScheduleBody{Reason: s.flag("reason"), By: s.flag("by")})
	if err != nil {
		return err
	}
	status, doc, err := s.do(s.cmd.Context(), request{
		method: http.MethodPost, path: limitPath(name) + "/" + verb, body: body, content: "application/json",
		header: map[string]string{"Idempotency-Key": cmp.Or(s.flag("request-id"), uuid.Must(uuid.NewV7()).String())}, query: url.Values{"wait": {within.String()}}, wait: within,
	})
	if err != nil {
		return err
	}
	if status == http.StatusAccepted {
		if err := s.one(doc, func(io.Writer) error { return nil }); err != nil {
			return err
		}
		return exit(ExitStillRunning, "the request was not judged within %s; `sagalog limit get %s` shows the limit", within, Printable(name))
	}
	return s.one(doc, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "limit %s: %s is granted\n", Printable(name), verb)
		return err
	})
}

func limitState(d *api.LimitDocument) string {
	if d.Paused != nil {
		return "paused"
	}
	return "open"
}

// limitMax is how many permits a limit has, "-" if only its rate bounds them.
func limitMax(d *api.LimitDocument) string {
	if d.Max == 0 && d.Rate != "" {
		return "-"
	}
	return strconv.Itoa(d.Max)
}

func limitPath(name string) string { return "/v1/limits/" + url.PathEscape(name) }

func (s *session) limits() error {
	q := url.Values{}
	if s.isSet("all") {
		q.Set("all", "true")
	}
	doc, err := s.get(s.cmd.Context(), "/v1/limits", q)
	if err != nil {
		return err
	}
	var of struct {
		Limits  []json.RawMessage
		More    int
		Missing []api.MissingPartition
	}
	if err := decode(doc, &of); err != nil {
		return err
	}
	none := "there are no named limits, and no task waits for a permit"
	switch {
	case len(of.Missing) > 0:
		none = ""
	case s.isSet("all"):
		none = "there are no limits"
	}
	err = s.list(of.Limits, listing{none: none, head: row{"LIMIT", "STATE", "MAX", "RATE", "HELD", "HALTED", "WAITING", "SINCE"}, cells: rowOf(func(d api.LimitDocument) row {
		return row{d.Limit, limitState(&d), limitMax(&d), cmp.Or(d.Rate, "-"), strconv.Itoa(d.Held), strconv.Itoa(d.Halted), strconv.Itoa(d.Waiting), instant(d.Since)}
	})})
	if err != nil {
		return err
	}
	if of.More > 0 {
		s.note("%s left out", Counted(of.More, "limit"))
	}
	if len(of.Missing) > 0 {
		return incomplete(listPage{missing: of.Missing})
	}
	return nil
}

func showLimit(w io.Writer, d *api.LimitDocument) error {
	rows := []row{{"LIMIT", d.Limit}, {"MAX", limitMax(d)}, {"RATE", cmp.Or(d.Rate, "-")}, {"HELD", strconv.Itoa(d.Held)}, {"WAITING", strconv.Itoa(d.Waiting)}}
	if d.Paused != nil {
		rows = append(rows, row{"PAUSED", strings.TrimSpace(instant(d.Paused.Since)+" "+d.Paused.By) + because(d.Paused.Reason)})
	}
	for _, x := range d.Holders {
		rows = append(rows, row{"HOLDER", linkText(&x)})
	}
	for _, x := range d.Waiters {
		rows = append(rows, row{"WAITER", linkText(&x)})
	}
	return table(w, nil, rows)
}

// linkText says which task has a permit or waits for one, and what is known of it.
func linkText(x *api.LimitLink) string {
	text := x.Task
	if x.Undo {
		text += ", undo of"
	} else if x.Step != "" {
		text += ","
	}
	if x.Step != "" {
		text += " step " + x.Step
	}
	add := func(what string, at events.Instant) {
		if at != 0 {
			text += ", " + what + " " + instant(at)
		}
	}
	if x.Priority != 0 {
		text += ", priority " + strconv.Itoa(x.Priority)
	}
	add("since", x.Since)
	add(x.Halted+" since", x.HaltedAt)
	add("given back, free at", x.FreeAt)
	return text
}
