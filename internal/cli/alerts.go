package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/spf13/cobra"
)

const (
	// watchEvery is how often `alert watch` looks.
	watchEvery = 2 * time.Second
	// watchedPages bounds the pages of each look: more open alerts than that are not for a person to read one by one.
	watchedPages = 10
)

func alertCommand() *cobra.Command {
	list := output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List open alerts", Args: cobra.NoArgs,
		Long: "List the open alerts: parked tasks, missing agents, tasks past their deadline or remind_after, blocked schedules and limits. They are derived\n" +
			"from the current state. Acknowledged alerts come last. With --open=false, list the newest records of the topic of alerts instead, whether or\n" +
			"not they still apply; these have further kinds, such as undone and permanent_failure.",
		Example: "  sagalog alert list --kind agent_missing",
		RunE:    alertClient(func(s alertCaller, _ []string) error { return s.listed() }),
	})
	alertFlags(list)
	list.Flags().Bool("open", true, "list the open alerts; --open=false lists the records of the topic of alerts")
	list.Flags().Int("limit", 100, "alerts a page, up to 1000")
	list.Flags().String("cursor", "", "continue after an earlier page")
	list.Flags().Bool("all", false, "all pages")
	watch := output(&cobra.Command{
		Use: "watch", Short: "Print open alerts and then new ones, until Ctrl-C", Args: cobra.NoArgs,
		Long: "Print the alerts that are open now, and then each new one, one a line. The command asks every two seconds, and keeps trying while the engine does\nnot answer.",
		RunE: alertClient(func(s alertCaller, _ []string) error { return s.watch() }),
	})
	alertFlags(watch)
	ack := output(&cobra.Command{
		Use: "ack ID...", Aliases: []string{"acknowledge"}, Short: "Acknowledge open alerts", Args: cobra.MinimumNArgs(1),
		Long: "Record that somebody takes care of open alerts. `alert list` shows the IDs. An alert stays open until its cause is gone; lists show it last,\nwith the reason. " +
			"An ID names the kind of the alert, what it is about, and when it\nbegan: copy it from `alert list`. The exit code is 4 if one of them is not open.",
		Example: "  sagalog alert ack parked:order-9@mihfw0o1 --reason 'the bank looks into it'",
		RunE:    alertClient(func(s alertCaller, args []string) error { return s.acknowledge(args) }),
	})
	ack.Flags().String("reason", "", "what is being done about it, for others who see the alert")
	ack.Flags().String("by", "", "who takes care of it, for the record")
	g := group("alert", "List, watch and acknowledge alerts", list, watch, ack)
	g.Aliases = []string{"alerts"}
	return g
}

func alertFlags(c *cobra.Command) {
	c.Flags().String("kind", "", "only alerts of this kind: "+strings.Join(api.OpenKinds, ", "))
	suggest(c, "kind", api.AlertKinds...)
}

// alertCaller is a session that is about alerts.
type alertCaller struct{ *session }

func alertClient(run func(s alertCaller, args []string) error) func(*cobra.Command, []string) error {
	return client(func(s *session, args []string) error { return run(alertCaller{s}, args) })
}

// query returns the parameters of the flags that lists and watches share.
func (s alertCaller) query() url.Values {
	q := url.Values{}
	if kind := s.flag("kind"); kind != "" {
		q.Set("kind", kind)
	}
	return q
}

func (s alertCaller) listed() error {
	q := s.query()
	q.Set("limit", s.flag("limit"))
	if v := s.flag("cursor"); v != "" {
		q.Set("cursor", v)
	}
	which := ""
	if kind := s.flag("kind"); kind != "" {
		which = " of the kind " + kind
	}
	if open, _ := s.cmd.Flags().GetBool("open"); !open {
		q.Set("open", "false")
		return s.pages("/v1/alerts", q, "alerts", listing{none: "the topic of alerts holds no alert" + which, head: row{"KIND", "ABOUT", "TIME", "REASON"}, cells: rowOf(func(a api.Alert) row {
			return row{a.Kind, aboutAlert(&a), instant(a.Time), a.Reason}
		})})
	}
	noteStopped(s.session)
	return s.pages("/v1/alerts", q, "alerts", listing{none: "no alert" + which + " is open", head: row{"KIND", "ABOUT", "SINCE", "REASON", "ACKNOWLEDGED", "ID"}, cells: rowOf(func(a api.Alert) row {
		return row{a.Kind, aboutAlert(&a), instant(a.Since), a.Reason, seenText(a.Acknowledged), a.ID}
	})})
}

// aboutAlert names what an alert is about.
func aboutAlert(a *api.Alert) string {
	switch {
	case a.Agent != "":
		return strings.TrimSpace(a.Agent + " " + a.Operation)
	case a.Schedule != "":
		return a.Schedule
	case a.Limit != "":
		return a.Limit
	}
	return strings.TrimSpace(a.Task + " " + a.Step)
}

func seenText(seen *api.Acknowledgement) string {
	if seen == nil {
		return ""
	}
	text := cmp.Or(seen.By, "yes")
	if seen.Note != "" {
		text += ": " + seen.Note
	}
	return text
}

// watch prints each open alert once, until the context ends.
func (s alertCaller) watch() error {
	ctx := s.cmd.Context()
	known, failing := map[string]bool{}, false
	for first := true; ; first = false {
		docs, whole, err := s.readOpen()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		if err != nil && !failing {
			s.note("the alerts cannot be read; trying again: %s", oneLineOf(err))
		}
		if failing = err != nil; !failing {
			if known, err = s.printNew(docs, known, whole); err != nil {
				return err
			}
		}
		if !pause.For(ctx, watchEvery) {
			return nil
		}
	}
}

func oneLineOf(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// readOpen reads the open alerts, up to watchedPages pages. whole says that these are all.
func (s alertCaller) readOpen() (docs []json.RawMessage, whole bool, err error) {
	q := s.query()
	q.Set("limit", strconv.Itoa(api.MaxLimit))
	for range watchedPages {
		p, err := s.page("/v1/alerts", q, "alerts")
		if err != nil {
			return nil, false, err
		}
		docs = append(docs, p.items...)
		if p.next == "" || len(p.missing) > 0 {
			return docs, len(p.missing) == 0, nil
		}
		q.Set("cursor", p.next)
	}
	return docs, false, nil
}

// printNew prints the alerts that are not known, and returns those that are known now. It forgets those that are over only if it has seen all.
func (s alertCaller) printNew(docs []json.RawMessage, known map[string]bool, whole bool) (map[string]bool, error) {
	now := map[string]bool{}
	for _, doc := range docs {
		var a api.Alert
		if err := decode(doc, &a); err != nil {
			return nil, err
		}
		if now[a.ID] = true; known[a.ID] {
			continue
		}
		if s.format != formatTable {
			if err := s.line(doc); err != nil {
				return nil, err
			}
			continue
		}
		if _, err := fmt.Fprintf(s.out, "%s %s\n", instant(a.Since), Printable(fmt.Sprintf("%s %s: %s (%s)", a.Kind, aboutAlert(&a), a.Reason, a.ID))); err != nil {
			return nil, err
		}
	}
	if !whole && len(known) < watchedPages*api.MaxLimit {
		for id := range known {
			now[id] = true
		}
	}
	return now, nil
}

// acknowledge acknowledges each alert; one that is not open does not stop the others. The exit code is that of the first failure.
func (s alertCaller) acknowledge(ids []string) error {
	var docs []json.RawMessage
	code, bad := ExitOK, 0
	for _, id := range ids {
		doc, err := s.change(s.cmd.Context(), http.MethodPost, "/v1/alerts/"+url.PathEscape(id)+"/acknowledge", api.AcknowledgeBody{Reason: s.flag("reason"), By: s.flag("by")})
		if p, ok := err.(*Problem); ok && p.Status < http.StatusInternalServerError && len(ids) > 1 {
			s.note("%s: %s", id, oneLineOf(p))
			code, bad = cmp.Or(code, p.exitCode()), bad+1
			continue
		}
		if err != nil {
			return err
		}
		if err := s.noteEarlier(doc); err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	err := s.list(docs, listing{head: row{"ID", "CHANGED", "ACKNOWLEDGED"}, cells: rowOf(func(a api.AcknowledgedAlert) row { return row{a.ID, yesNo(a.Changed), seenText(a.Acknowledged)} })})
	if err != nil || bad == 0 {
		return err
	}
	return exit(code, "%d of %s were not acknowledged", bad, Counted(len(ids), "alert"))
}

// noteEarlier says that somebody had acknowledged an alert before: that acknowledgement stays, so the reason of this one is not recorded.
func (s alertCaller) noteEarlier(doc json.RawMessage) error {
	var a api.AcknowledgedAlert
	if err := decode(doc, &a); err != nil || a.Changed || a.Acknowledged == nil {
		return err
	}
	text := "alert " + a.ID + " was acknowledged before, at " + instant(a.Acknowledged.At)
	if a.Acknowledged.By != "" {
		text += " by " + a.Acknowledged.By
	}
	text += because(a.Acknowledged.Note)
	if s.flag("reason") != "" {
		text += " (that stays: your reason is not recorded)"
	}
	s.note("%s", Printable(text))
	return nil
}
