package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

const matchingHelp = `

With filter flags instead of IDs, a job makes the request for all tasks that match. The command shows ten of them and asks you first, unless you give
--yes; --dry-run only shows what matches. The job goes on if you interrupt the command. The exit code is 4 if a task refused, 6 if the job was stopped.`

func matchingExample(u requestUse) string {
	text := "\n  sagalog task " + u.kind
	if u.named != "" {
		text += " approval"
	}
	text += " --state parked --workflow order --dry-run"
	if u.step && u.kind != "retry" {
		text += " --step charge"
	}
	return text
}

// jobNames are the flags that only make sense with a filter, and singleNames those that only make sense with IDs.
var (
	jobNames    = []string{"yes", "dry-run", "rate", "limit", "job-id", "by"}
	singleNames = []string{"request-id", "wait", "wait-for"}
)

func matchingFlags(c *cobra.Command, u requestUse) {
	yes := "with a filter: do not ask"
	if u.warning != "" {
		yes = "do not ask"
	}
	filterFlags(c)
	f := c.Flags()
	f.Bool("all", false, "every task")
	f.BoolP("yes", "y", false, yes)
	f.Bool("dry-run", false, "with a filter: only show which tasks match")
	f.String("rate", "", "with a filter: the most requests in a given time, such as 100/s, 30/m or 5/h (default: no limit)")
	f.Int("limit", 0, "with a filter: refuse if more tasks match than this (default: no limit)")
	f.String("job-id", "", "with a filter: the job's ID; a command that is repeated with the same ID starts no second job (default: a new one)")
	f.String("by", "", "with a filter: who asks, for the record")
	for _, name := range slices.Concat(filterNames, jobNames, []string{"all"}) { // a variable that is set for lists must not choose the tasks to cancel
		WithoutVariable(f, name)
	}
}

// asksFirst makes a command that deletes what its argument names ask a person first. Where there is no terminal, as in a script, it asks nobody.
func asksFirst(what string, c *cobra.Command) *cobra.Command {
	c.Flags().BoolP("yes", "y", false, "do not ask; without a terminal nothing is asked anyway")
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		yes, _ := cmd.Flags().GetBool("yes")
		if in := cmd.InOrStdin(); !yes && isTerminal(in) && !agreed(in, cmd.ErrOrStderr(), "delete "+what+" "+Printable(args[0])+"?") {
			return exit(ExitError, "nothing was deleted")
		}
		return run(cmd, args)
	}
	return c
}

// arguments says whether IDs and filter flags fit together.
func (u requestUse) arguments(c *cobra.Command, args []string) error {
	ids, wanted := args, "the IDs of tasks"
	if u.named != "" {
		wanted = "the ID of a task and the name of a " + u.named
		if !filtered(c) && len(args) != 2 {
			return fmt.Errorf("give %s", wanted)
		}
		if filtered(c) && len(args) == 0 {
			return fmt.Errorf("give the name of the %s", u.named)
		}
		ids = args[1:]
	}
	given := func(names []string) string {
		for _, name := range names {
			if c.Flags().Changed(name) {
				return name
			}
		}
		return ""
	}
	jobs := slices.DeleteFunc(slices.Clone(jobNames), func(name string) bool { return name == "yes" }) // scripts may always give it
	switch one, job := given(singleNames), given(jobs); {
	case filtered(c) && len(ids) > 0:
		return fmt.Errorf("give IDs or a filter, not both: --%s is a filter", given(slices.Concat(filterNames, []string{"all"})))
	case filtered(c) && one != "":
		return fmt.Errorf("--%s is for tasks that are named by their IDs, not for a filter", one)
	case filtered(c) && c.Flags().Changed("all") && given(filterNames) != "":
		return fmt.Errorf("--all means every task, so it cannot be combined with --%s", given(filterNames))
	case !filtered(c) && len(args) == 0:
		return fmt.Errorf("give %s, or a filter such as --state parked; --all is every task", wanted)
	case !filtered(c) && job != "":
		return fmt.Errorf("--%s needs a filter, such as --state parked", job)
	}
	return nil
}

func filtered(c *cobra.Command) bool {
	return slices.ContainsFunc(slices.Concat(filterNames, []string{"all"}), c.Flags().Changed)
}

func (s *session) filtered() bool { return filtered(s.cmd) }

// askMatching asks all tasks that match the filter, by a job.
func (s jobCaller) askMatching(u requestUse, args []string) error {
	yes := s.isSet("yes")
	if !yes && !s.isSet("dry-run") && !isTerminal(s.cmd.InOrStdin()) {
		return Usage("this makes a request for all tasks that match, and there is no terminal to ask you first: give --yes, or --dry-run to see which tasks match")
	}
	body, err := s.jobBody(u, args)
	if err != nil {
		return err
	}
	count, doc, err := s.matching(body)
	if err != nil {
		return err
	}
	if s.isSet("dry-run") {
		return s.one(doc, func(w io.Writer) error { return showCount(w, count) })
	}
	if count.Matched == 0 {
		s.note("no task matches")
		return nil
	}
	if err := showCount(s.err, count); err != nil {
		return err
	}
	if u.warning != "" && (!u.ofUndo || s.flag("operation") != string(events.Do)) {
		s.note("%s", u.warning)
	}
	if !yes && !agreed(s.cmd.InOrStdin(), s.err, fmt.Sprintf("%s %s?", u.kind, Counted(count.Matched, "task"))) {
		return exit(ExitError, "nothing was done")
	}
	if doc, err = s.change(s.cmd.Context(), http.MethodPost, "/v1/jobs", body); err != nil {
		return err
	}
	var job api.JobDocument
	if err := decode(doc, &job); err != nil {
		return err
	}
	if !job.Changed {
		s.note("job %s was started before: nothing new is started, and that job is shown", Printable(job.ID))
	}
	if s.isSet("no-wait") {
		s.note("%s", following(job.ID))
		return s.one(doc, func(w io.Writer) error { return showJob(w, &job) })
	}
	return s.follow(job.ID)
}

// jobBody returns the body of the call that opens the job.
func (s jobCaller) jobBody(u requestUse, args []string) (map[string]any, error) {
	members, err := s.requestMembers(u, strings.Join(args, ""))
	if err != nil {
		return nil, err
	}
	filter, err := s.jobFilter()
	if err != nil {
		return nil, err
	}
	body := map[string]any{"id": cmp.Or(s.flag("job-id"), uuid.Must(uuid.NewV7()).String()), "verb": u.kind, "filter": filter}
	for _, name := range []string{"rate", "by"} {
		if v := s.flag(name); v != "" {
			body[name] = v
		}
	}
	if reason, given := members["reason"]; given {
		body["reason"] = reason
		delete(members, "reason")
	}
	if len(members) > 0 {
		body["args"] = members
	}
	if s.cmd.Flags().Changed("limit") {
		body["limit"], _ = s.cmd.Flags().GetInt("limit")
	}
	return body, nil
}

// matching counts the tasks that match.
func (s jobCaller) matching(job map[string]any) (c *api.JobCount, doc json.RawMessage, err error) {
	dry := maps.Clone(job)
	dry["dry_run"] = true
	if doc, err = s.change(s.cmd.Context(), http.MethodPost, "/v1/jobs", dry); err != nil {
		return nil, nil, err
	}
	c = new(api.JobCount)
	return c, doc, decode(doc, c)
}

func showCount(w io.Writer, c *api.JobCount) error {
	text := strconv.Itoa(c.Matched)
	if c.More {
		text = "at least " + text
	}
	var states []string
	for _, state := range slices.Sorted(maps.Keys(c.ByState)) {
		states = append(states, fmt.Sprintf("%d %s", c.ByState[state], state))
	}
	if err := table(w, nil, []row{{"MATCHED", text}, {"BY STATE", strings.Join(states, ", ")}}); err != nil || len(c.Examples) == 0 {
		return err
	}
	fmt.Fprintln(w)
	rows := make([]row, len(c.Examples))
	for i, e := range c.Examples {
		rows[i] = row{e.Task, e.Workflow, e.State, e.Reason}
	}
	if err := table(w, row{"EXAMPLE", "WORKFLOW", "STATE", "REASON"}, rows); err != nil {
		return err
	}
	if c.Matched > len(c.Examples) {
		fmt.Fprintf(w, "and %d more\n", c.Matched-len(c.Examples))
	}
	return nil
}

// YesFlag adds the flag that answers Agree.
func YesFlag(c *cobra.Command) {
	c.Flags().BoolP("yes", "y", false, "do not ask")
	WithoutVariable(c.Flags(), "yes")
}

// Agree prints a warning and asks whether to go on, unless --yes is given. It refuses if there is no terminal to ask at.
func Agree(c *cobra.Command, warning, question string) error {
	switch yes, _ := c.Flags().GetBool("yes"); {
	case yes:
		return nil
	case !isTerminal(c.InOrStdin()):
		return Usage("%s There is no terminal to ask you first: give --yes", Printable(warning))
	}
	fmt.Fprintln(c.ErrOrStderr(), Printable(warning))
	if !agreed(c.InOrStdin(), c.ErrOrStderr(), Printable(question)) {
		return exit(ExitError, "nothing was done")
	}
	return nil
}

// agreed asks a question that only yes agrees to.
func agreed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", events.Clip(question, maxQuestion))
	answer, _ := bufio.NewReader(in).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

const maxQuestion = 200
