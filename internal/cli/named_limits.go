package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

func applyLimitCommand() *cobra.Command {
	return output(&cobra.Command{
		Use: "apply FILE...", Short: "Apply named limits, in YAML or JSON", Args: cobra.MinimumNArgs(1),
		Long: "Apply named limits in YAML or JSON, such as {limit: bank, max: 20}; - is stdin. All are validated first, and none is applied if one has a fault. Steps of any\n" +
			"workflow name a limit: at most max attempts of them run at a time, and at most rate of them start in a time, such as 50/s. One of the two may be left out. A new max or\n" +
			"rate holds at once; a limit that is paused stays paused.",
		Example: "  sagalog limit apply bank.yaml",
		RunE:    client(func(s *session, args []string) error { return applyLimits(s, args) }),
	})
}

func deleteLimitCommand() *cobra.Command {
	return asksFirst("the limit", output(&cobra.Command{
		Use: "delete NAME", Short: "Delete a named limit that the current version of no workflow names", Args: cobra.ExactArgs(1),
		RunE: client(func(s *session, args []string) error {
			_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodDelete, path: limitPath(args[0])})
			if err != nil {
				return ofData(err)
			}
			return s.one(doc, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "limit %s is deleted\n", Printable(args[0]))
				return err
			})
		}),
	}))
}

func setLimitCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "set NAME", Short: "Set the max or the rate of a named limit", Args: cobra.ExactArgs(1),
		Long:    "Set the max or the rate of a named limit, which is made if it does not exist. What no flag names stays as it is. The new values hold at once.",
		Example: "  sagalog limit set bank --max 20\n  sagalog limit set bank --rate 50/s\n  sagalog limit set bank --rate ''",
		RunE:    client(func(s *session, args []string) error { return setLimit(s, args[0]) }),
	})
	c.Flags().Int("max", 0, "how many attempts may run at a time, from 1 to 100000; 0: only the rate limits them")
	c.Flags().String("rate", "", "how many attempts may start in a time, such as 50/s, 30/m or 5/h; empty: only the max limits them")
	return c
}

func setLimit(s *session, name string) error {
	f := s.cmd.Flags()
	if !f.Changed("max") && !f.Changed("rate") {
		return Usage("say --max, --rate or both")
	}
	now := events.LimitDefinition{Limit: name}
	doc, err := s.get(s.cmd.Context(), limitPath(name), nil)
	switch {
	case err == nil:
		var d api.LimitDocument
		if err := decode(doc, &d); err != nil {
			return err
		}
		now.Max, now.Rate = d.Max, d.Rate
	case Code(err) != ExitNotFound:
		return err
	}
	if f.Changed("max") {
		now.Max, _ = f.GetInt("max")
	}
	if f.Changed("rate") {
		now.Rate = s.flag("rate")
	}
	body, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if _, doc, err = s.do(s.cmd.Context(), request{method: http.MethodPut, path: limitPath(name), body: body, content: "application/json"}); err != nil {
		return err
	}
	return appliedLimits(s, []json.RawMessage{doc})
}

// appliedLimits prints limits that were applied.
func appliedLimits(s *session, docs []json.RawMessage) error {
	return s.list(docs, listing{head: row{"LIMIT", "CHANGED", "MAX", "RATE", "HELD", "WAITING"}, cells: rowOf(func(d api.LimitDocument) row {
		return row{d.Limit, yesNo(d.Changed), limitMax(&d), cmp.Or(d.Rate, "-"), strconv.Itoa(d.Held), strconv.Itoa(d.Waiting)}
	})})
}

func applyLimits(s *session, files []string) error {
	show := func(docs []json.RawMessage) error { return appliedLimits(s, docs) }
	return applyObjects(s, objects{"limit", parseLimit, limitPath, show}, files)
}

func parseLimit(file string, data []byte) (string, []scheduler.Fault) {
	d, faults := scheduler.ParseLimit(file, "", data)
	if d == nil {
		return "", faults
	}
	return d.Limit, faults
}
