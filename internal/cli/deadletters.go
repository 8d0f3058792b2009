package cli

import (
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

	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func deadLetterCommand() *cobra.Command {
	list := output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List rejected inputs, newest first", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			q := url.Values{"limit": {s.flag("limit")}}
			if v := s.flag("cursor"); v != "" {
				q.Set("cursor", v)
			}
			return s.pages("/v1/dead-letters", q, "dead_letters", listing{none: "there are no dead letters", head: row{"ID", "TIME", "REASON", "KEY", "FROM", "DETAIL"}, cells: rowOf(func(d api.DeadLetterDocument) row {
				return row{d.ID, instant(d.Time), d.Reason, d.Key, fmt.Sprintf("%s/%d@%d", d.Topic, d.Partition, d.Offset), d.Detail}
			})})
		}),
	})
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
	redrive := output(&cobra.Command{
		Use: "redrive ID...", Short: "Send rejected inputs again, once their cause is fixed", Args: cobra.MinimumNArgs(1),
		Long: "Send rejected inputs again: the original bytes, as new records. A submission that would be rejected again is not sent;\n" +
			"its problem is printed instead.",
		Example: "  sagalog dlq redrive submissions-3-17",
		RunE:    client(func(s *session, args []string) error { return s.redrive(args) }),
	})
	g := group("dlq", "Look at dead letters and send them again", list, show, redrive)
	g.Aliases = []string{"dead-letters"}
	return g
}

func deadPath(id string) string { return "/v1/dead-letters/" + url.PathEscape(id) }

func showDeadLetter(w io.Writer, doc json.RawMessage) error {
	var d api.DeadLetterDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	rows := []row{{"ID", d.ID}, {"REASON", d.Reason}, {"DETAIL", d.Detail}, {"TIME", instant(d.Time)}, {"TOPIC", d.Topic},
		{"PARTITION", strconv.Itoa(int(d.Partition))}, {"OFFSET", strconv.FormatInt(d.Offset, 10)}, {"KEY", d.Key}}
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

// redrive sends each one; a failure does not stop the others.
func (s *session) redrive(ids []string) error {
	var docs []json.RawMessage
	var failed []error
	for _, id := range ids {
		_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodPost, path: deadPath(id) + "/redrive"})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", id, ofData(err)))
			continue
		}
		docs = append(docs, doc)
	}
	if len(docs) == 0 && s.format == formatTable {
		return errors.Join(failed...)
	}
	err := s.list(docs, listing{head: row{"TASK", "PARTITION", "OFFSET"}, cells: rowOf(func(r api.Receipt) row {
		return row{r.ID, strconv.Itoa(int(r.Partition)), number(r.Offset, "known")}
	})})
	return errors.Join(append(failed, err)...)
}
