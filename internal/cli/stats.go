package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func statsCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "stats", Short: "Show how many tasks or attempts started and ended lately, and how long they took", Args: cobra.NoArgs,
		Example: "  sagalog stats\n  sagalog stats --workflow drone-delivery --step '*' --since 10m --every 10m",
		RunE: client(func(s *session, _ []string) error {
			q := url.Values{}
			for _, name := range []string{"workflow", "step", "since", "every"} {
				if v := s.flag(name); v != "" {
					q.Set(name, v)
				}
			}
			doc, err := s.get(s.cmd.Context(), "/v1/stats", q)
			if err != nil {
				return err
			}
			var of struct {
				Rows []json.RawMessage `json:"rows"`
				api.StatsDocument
			}
			if err := decode(doc, &of); err != nil {
				return err
			}
			head := row{"AT", "WORKFLOW", "STEP", "STARTED", "COMPLETED", "FAILED", "TIMED OUT", "UNDONE", "PARKED", "P50", "P95", "P99", "QUEUE P95"}
			if err := s.list(of.Rows, listing{none: "nothing is counted in this time", head: head, cells: rowOf(statRow)}); err != nil {
				return err
			}
			text := fmt.Sprintf("durations are estimates; nodes have counted since %s", instant(of.Since))
			if of.Partial {
				text += ", and some counts are missing"
			}
			s.note("%s", text)
			return nil
		}),
	})
	f := c.Flags()
	apiFlags(f)
	f.String("workflow", "", "only this workflow")
	f.String("step", "", "count the attempts of this step instead of tasks; * for each step")
	f.String("since", "1h", "the beginning: an instant, or how long ago")
	f.String("every", "1m", "the length of the interval that each row counts, in whole minutes")
	return c
}

func statRow(r api.StatRow) row {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	seconds := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatFloat(*v, 'g', 3, 64) + " s"
	}
	return row{
		instant(r.At), r.Workflow, r.Step, n(r.Started), n(r.Completed), n(r.Failed), n(r.TimedOut), n(r.Undone), n(r.Parked),
		seconds(r.P50), seconds(r.P95), seconds(r.P99), seconds(r.Queue),
	}
}
