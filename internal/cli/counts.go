package cli

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func countCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "count", Short: "Count tasks in groups: by reason, state, workflow, step, error code or label", Args: cobra.NoArgs,
		Long: "Count the tasks that match, in groups, the largest first: for example, one line for all that are parked for the same reason. With step, error_code and\n" +
			"waiting_for, a task may be in several groups. With a filter, each node looks at its newest 50,000 tasks that match. OLDEST is the earliest time at which\n" +
			"a task of the group last changed. While some partitions cannot be read, the exit code is 7.",
		Example: "  sagalog task count --by reason --state parked\n  sagalog task count --by label:tenant --state parked --workflow order",
		RunE:    client(func(s *session, _ []string) error { return countTasks(s) }),
	})
	filterFlags(c)
	c.Flags().String("by", "state", "what the tasks of a group have in common: "+strings.Join(groupings, ", ")+" or label:KEY")
	suggest(c, "by", groupings...)
	return c
}

var groupings = []string{"state", "workflow", "step", "error_code", "reason", "waiting_for"}

func countTasks(s *session) error {
	q, err := s.filter()
	if err != nil {
		return err
	}
	q.Set("by", s.flag("by"))
	doc, err := s.get(s.cmd.Context(), "/v1/counts", q)
	if err != nil {
		return err
	}
	var d api.CountsDocument
	if err := decode(doc, &d); err != nil {
		return err
	}
	if err := s.one(doc, func(w io.Writer) error { return showCounts(w, &d, s.flag("by")) }); err != nil {
		return err
	}
	if d.Partial {
		s.note("there are more tasks than were looked at: the counts are minimums")
	}
	if len(d.Missing) > 0 {
		return incomplete(listPage{missing: d.Missing})
	}
	return nil
}

func showCounts(w io.Writer, d *api.CountsDocument, by string) error {
	var rows []row
	for _, c := range d.Counts {
		rows = append(rows, row{strconv.FormatInt(c.Count, 10), cmp.Or(instant(c.Oldest), "-"), cmp.Or(c.Key, "-")})
	}
	return table(w, row{"TASKS", "OLDEST", strings.ToUpper(strings.ReplaceAll(by, "_", " "))}, rows)
}
