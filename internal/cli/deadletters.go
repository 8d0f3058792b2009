package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func deadLetterCommand() *cobra.Command {
	list := output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List rejected inputs, newest first", Args: cobra.NoArgs,
		Long: "List rejected inputs, newest first, with what was done about them. --open leaves out those that are redriven or dismissed.",
		RunE: letterClient(func(s letterCaller, _ []string) error {
			q := s.letterQuery()
			q.Set("limit", s.flag("limit"))
			if v := s.flag("cursor"); v != "" {
				q.Set("cursor", v)
			}
			if s.isSet("open") {
				q.Set("open", "true")
			}
			if v := s.flag("key"); v != "" {
				q.Set("key", v)
			}
			none := "there are no dead letters"
			if s.isSet("open") || s.flag("rejected-for") != "" || s.flag("key") != "" {
				none = "no dead letter matches"
			}
			return s.pages(deadLettersPath, q, "dead_letters", listing{none: none, head: row{"ID", "TIME", "REASON", "KEY", "FROM", "MARK", "DETAIL"}, cells: rowOf(func(d api.DeadLetterDocument) row {
				return row{d.ID, instant(d.Time), d.Reason, d.Key, fmt.Sprintf("%s/%d@%d", d.Topic, d.Partition, d.Offset), markText(d.Mark), d.Detail}
			})})
		}),
	})
	letterFlags(list)
	list.Flags().Bool("open", false, "only open ones: neither redriven nor dismissed")
	list.Flags().String("key", "", "only those whose record has this key, which is usually the ID of a task")
	WithoutVariable(list.Flags(), "key")
	list.Flags().Int("limit", 100, "dead letters a page, up to 1000")
	list.Flags().String("cursor", "", "continue after an earlier page")
	list.Flags().Bool("all", false, "all pages")
	show := output(&cobra.Command{
		Use: "show ID", Short: "Read a rejected input with its reason and its bytes", Args: cobra.ExactArgs(1),
		RunE: client(func(s *session, args []string) error {
			doc, err := s.get(s.cmd.Context(), deadPath(args[0]), nil)
			if err != nil {
				return err
			}
			return s.one(doc, func(w io.Writer) error { return showDeadLetter(w, doc) })
		}),
	})
	g := group("dlq", "Look at dead letters, and redrive or dismiss them", list, show, redriveCommand(), dismissCommand(), reopenCommand())
	g.Aliases = []string{"dead-letters", "dead-letter"}
	return g
}

const deadLettersPath = "/v1/dead-letters"

func deadPath(id string) string { return deadLettersPath + "/" + url.PathEscape(id) }

// letterCaller is a session that is about dead letters.
type letterCaller struct{ *session }

func letterClient(run func(s letterCaller, args []string) error) func(*cobra.Command, []string) error {
	return client(func(s *session, args []string) error { return run(letterCaller{s}, args) })
}

func letterFlags(c *cobra.Command) {
	c.Flags().String("rejected-for", "", "only those that were rejected for this reason, such as unknown_workflow")
	WithoutVariable(c.Flags(), "rejected-for")
}

// letterQuery returns the parameters of the flags that choose dead letters.
func (s letterCaller) letterQuery() url.Values {
	q := url.Values{}
	if v := s.flag("rejected-for"); v != "" {
		q.Set("reason", v)
	}
	return q
}

// markText says in a cell what somebody has done about a dead letter.
func markText(m *api.DeadLetterMark) string {
	switch {
	case m == nil:
		return ""
	case m.Task != "":
		return m.Mark + " as " + m.Task
	}
	return m.Mark
}

func showDeadLetter(w io.Writer, doc json.RawMessage) error {
	var d api.DeadLetterDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	rows := []row{{"ID", d.ID}, {"REASON", d.Reason}, {"DETAIL", d.Detail}, {"TIME", instant(d.Time)}, {"TOPIC", d.Topic},
		{"PARTITION", strconv.Itoa(int(d.Partition))}, {"OFFSET", strconv.FormatInt(d.Offset, 10)}, {"KEY", d.Key}}
	if m := d.Mark; m != nil {
		text := markText(m) + " at " + instant(m.At)
		if m.By != "" {
			text += " by " + m.By
		}
		if m.Reason != "" {
			text += ": " + m.Reason
		}
		rows = append(rows, row{"MARK", text})
	}
	for _, k := range slices.Sorted(maps.Keys(d.Headers)) {
		rows = append(rows, row{"HEADER", k + ": " + d.Headers[k]})
	}
	if d.Value != nil {
		rows = append(rows, row{"VALUE", *d.Value})
	} else {
		rows = append(rows, row{"VALUE (BASE64)", base64.StdEncoding.EncodeToString(d.Base64)})
	}
	return table(w, nil, rows)
}

// letterWithin bounds the look for the dead letter of a task that is not known.
const letterWithin = 5 * time.Second

// orDeadLetter adds to the error that a task is not known the newest rejected input that has its ID as the key, if there is one. The task may be
// unknown because of that.
func (s *session) orDeadLetter(task string, err error) error {
	unknown, ok := errors.AsType[*Problem](err)
	if !ok || unknown.Status != http.StatusNotFound {
		return err
	}
	ctx, cancel := context.WithTimeout(s.cmd.Context(), letterWithin)
	defer cancel()
	doc, failed := s.get(ctx, deadLettersPath, url.Values{"key": {task}, "limit": {"1"}})
	var of struct {
		Letters []api.DeadLetterDocument `json:"dead_letters"`
	}
	if failed != nil || decode(doc, &of) != nil || len(of.Letters) == 0 {
		return err
	}
	d := &of.Letters[0]
	p := *unknown
	if p.Letter != "" {
		p.Detail = "No task with this ID is known." // the engine says the same in terms of HTTP
	}
	p.Detail += fmt.Sprintf(" But an input with this key was rejected as %s", d.Reason)
	if d.Time != 0 {
		p.Detail += " at " + instant(d.Time)
	}
	p.Detail = events.Sentence(p.Detail + because(d.Detail))
	if d.Mark != nil {
		p.Detail += fmt.Sprintf(" It is %s.", markText(d.Mark))
	}
	p.Detail += fmt.Sprintf(" `sagalog dlq show %s` shows it, and `sagalog dlq redrive %s` sends it again once the cause is removed.", d.ID, d.ID)
	return &p
}
