package cli

import (
	"encoding/json"
	"io"
	"net/url"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func limitCommand() *cobra.Command {
	list := output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the limits of concurrency for which tasks wait", Args: cobra.NoArgs,
		Long: "List the limits of concurrency for which tasks wait, those with the most waiting tasks first. HALTED counts the holders that are parked\n" +
			"or paused: what waits for their permits waits until an operator retries, resumes, cancels or terminates them.",
		Example: "  sagalog limit list --all",
		RunE:    client(func(s *session, _ []string) error { return s.limits() }),
	})
	list.Flags().Bool("all", false, "also the limits for which no task waits")
	g := group("limit", "Look at the limits of concurrency: who has a permit, and who waits for one", list,
		output(&cobra.Command{
			Use: "get WORKFLOW/KEY", Aliases: []string{"show"}, Short: "Read a limit: which tasks have its permits, and which wait", Args: cobra.ExactArgs(1),
			Example: "  sagalog limit get payment/c-17",
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
	g.Aliases = []string{"limits"}
	return g
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
	err = s.list(of.Limits, row{"LIMIT", "MAX", "HELD", "HALTED", "WAITING", "SINCE"}, rowOf(func(d api.LimitDocument) row {
		return row{d.Limit, strconv.Itoa(d.Max), strconv.Itoa(d.Held), strconv.Itoa(d.Halted), strconv.Itoa(d.Waiting), instant(d.Since)}
	}))
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
	rows := []row{{"LIMIT", d.Limit}, {"MAX", strconv.Itoa(d.Max)}, {"HELD", strconv.Itoa(d.Held)}, {"WAITING", strconv.Itoa(d.Waiting)}}
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
