package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"
)

// deadLetter is what a table shows of a dead letter.
type deadLetter struct {
	ID        string            `json:"id"`
	Reason    string            `json:"reason"`
	Detail    string            `json:"detail"`
	Topic     string            `json:"topic"`
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Time      string            `json:"time"`
	Key       string            `json:"key"`
	Headers   map[string]string `json:"headers"`
	Value     *string           `json:"value"`
	Base64    string            `json:"value_base64"`
}

func deadLetterCommand() *cobra.Command {
	list := output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List rejected inputs, the newest first", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			q := url.Values{"limit": {s.flag("limit")}}
			if v := s.flag("cursor"); v != "" {
				q.Set("cursor", v)
			}
			return s.pages("/v1/dead-letters", q, "dead_letters", row{"ID", "TIME", "REASON", "KEY", "FROM", "DETAIL"},
				func(doc json.RawMessage) (row, error) {
					var d deadLetter
					err := decode(doc, &d)
					return row{d.ID, d.Time, d.Reason, d.Key, fmt.Sprintf("%s/%d@%d", d.Topic, d.Partition, d.Offset), d.Detail}, err
				})
		}),
	})
	list.Flags().Int("limit", 100, "dead letters a page, up to 1000")
	list.Flags().String("cursor", "", "go on behind an earlier page")
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
		Use: "redrive ID...", Short: "Send rejected inputs again, once their cause is mended", Args: cobra.MinimumNArgs(1),
		Long: "Send rejected inputs again: the original bytes, as new records. A submission that would be rejected again is not sent;\n" +
			"its problem is told instead.",
		Example: "  sagalog dlq redrive submissions-3-17",
		RunE:    client(func(s *session, args []string) error { return s.redrive(args) }),
	})
	g := group("dlq", "Look at dead letters and send them again", list, show, redrive)
	g.Aliases = []string{"dead-letters"}
	return g
}

func deadPath(id string) string { return "/v1/dead-letters/" + url.PathEscape(id) }

func showDeadLetter(w io.Writer, doc json.RawMessage) error {
	var d deadLetter
	if err := decode(doc, &d); err != nil {
		return err
	}
	rows := []row{{"ID", d.ID}, {"REASON", d.Reason}, {"DETAIL", d.Detail}, {"TIME", d.Time}, {"TOPIC", d.Topic},
		{"PARTITION", strconv.Itoa(int(d.Partition))}, {"OFFSET", strconv.FormatInt(d.Offset, 10)}, {"KEY", d.Key}}
	for _, k := range sortedKeys(d.Headers) {
		rows = append(rows, row{"HEADER", k + ": " + d.Headers[k]})
	}
	if d.Value != nil {
		rows = append(rows, row{"VALUE", *d.Value})
	} else {
		rows = append(rows, row{"VALUE (BASE64)", d.Base64})
	}
	return table(w, nil, rows)
}

// redrive sends each; one that fails does not keep the others back.
func (s *session) redrive(ids []string) error {
	var docs []json.RawMessage
	var failed []error
	for _, id := range ids {
		_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodPost, path: deadPath(id) + "/redrive"})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", id, err))
			continue
		}
		docs = append(docs, doc)
	}
	err := s.list(docs, row{"TASK", "PARTITION", "OFFSET"}, func(doc json.RawMessage) (row, error) {
		var r receipt
		err := decode(doc, &r)
		offset := "known"
		if r.Offset != nil {
			offset = strconv.FormatInt(*r.Offset, 10)
		}
		return row{r.ID, strconv.Itoa(int(r.Partition)), offset}, err
	})
	return errors.Join(append(failed, err)...)
}
