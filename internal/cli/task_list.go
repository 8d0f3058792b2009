package cli

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func listCommand(log Log) *cobra.Command {
	ask := client(func(s *session, _ []string) error { return s.listTasks() })
	c := output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tasks, newest first", Args: cobra.NoArgs,
		Long: "List tasks, newest first. While some partitions cannot be read, the tasks of the others are printed, a warning names what is missing, and the\n" +
			"exit code is 7. The printed cursor continues there later. FAILURES counts every failed attempt of every step and undo, even if a later\n" +
			"attempt succeeded. REASON says why a task is parked or undone, and what it waits for; task get shows it in full.\n" +
			"If an operator skipped the undo of a step, the STATE of the task ends in (effect left); task get names the steps.\n" +
			"With --at the command lists all tasks as they were then. It needs no engine: it folds the log on --brokers, or in --data, up to that moment\n" +
			"in a temporary directory. To query the same moment more than once, use sagalog replay.",
		Example: "  sagalog task list --state parked\n  sagalog task list --workflow drone-delivery --label region:north --since 24h --all -o jsonl\n" +
			"  sagalog task list --agent card --waiting-for capacity\n  sagalog task list --parent trip-7\n" +
			"  sagalog task list --at 10m --state error --brokers k1:9092",
		RunE: func(cmd *cobra.Command, args []string) error {
			if log != nil && cmd.Flags().Changed("at") {
				return inThePast(log, ask)(cmd, args)
			}
			if err := engineOnly(cmd, log, "--at"); err != nil {
				return err
			}
			return ask(cmd, args)
		},
	})
	filterFlags(c)
	f := c.Flags()
	kinds := waitingKinds()
	f.String("waiting-for", "", "what a step, or the task as a whole, waits for: "+strings.Join(kinds, ", "))
	f.String("agent", "", "an agent that a step waits for, be it missing, busy or paused")
	f.String("parent", "", "list only the children of this task")
	suggest(c, "waiting-for", kinds...)
	f.Int("limit", 100, "tasks a page, up to 1000")
	f.String("cursor", "", "continue after an earlier page")
	f.Bool("all", false, "all pages")
	if log != nil {
		pastFlags(f, "list the tasks as they were")
		log.Flags(f)
	}
	return c
}

func waitingKinds() (names []string) {
	for _, k := range events.Waitings() {
		names = append(names, string(k))
	}
	return names
}

func (s *session) listTasks() error {
	q, err := s.filter()
	if err != nil {
		return err
	}
	none := "there are no tasks"
	if s.filtered() {
		none = "no task matches"
	}
	for _, name := range []string{"waiting-for", "agent", "parent", "limit", "cursor"} {
		if v := s.flag(name); v != "" {
			q.Set(strings.ReplaceAll(name, "-", "_"), v)
		}
	}
	if q.Has("waiting_for") || q.Has("agent") || q.Has("parent") {
		none = "no task matches"
	}
	if s.format == formatTable { // only what the table shows, so that large tasks are not read
		q.Set("fields", "id,workflow,version,state,failure_count,submitted_at,updated_at,reason,paused,waiting_for,left")
	}
	shown := listing{none: none, head: row{"ID", "WORKFLOW", "STATE", "FAILURES", "SUBMITTED", "UPDATED", "REASON"}, cells: rowOf(func(t api.TaskDocument) row {
		state := t.State
		if t.Paused != nil {
			state += ", paused"
		}
		if t.Left {
			state += " (effect left)"
		}
		return row{t.ID, t.Workflow + " v" + strconv.Itoa(t.Version), state, strconv.Itoa(t.FailureCount), instant(t.SubmittedAt), instant(t.UpdatedAt), whyText(&t)}
	})}
	err = s.pages("/v1/tasks", q, "tasks", shown)
	if p, ok := errors.AsType[*Problem](err); ok && p.Status == http.StatusUnprocessableEntity && strings.HasSuffix(q.Get("fields"), ",left") {
		q.Set("fields", strings.TrimSuffix(q.Get("fields"), ",left")) // a node of the release before does not know it
		err = s.pages("/v1/tasks", q, "tasks", shown)
	}
	return err
}
