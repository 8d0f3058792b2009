package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/sentence"
	"github.com/spf13/cobra"
)

var taskStates = []string{"pending", "processing", "processed", "undoing", "undone", "error", "parked", "terminated", "rejected"}

func taskCommand(d Deps) *cobra.Command {
	g := group("task", "Submit, read and steer tasks",
		submitCommand(), getCommand(d.Log), listCommand(d.Log), countCommand(), itemsCommand(), historyCommand(d.Log), watchCommand(),
		requestCommand(requestUse{
			kind: "cancel", short: "Cancel a task and undo its steps",
			long: "Cancel a task: every step that may have had an effect is undone. A task refuses it (exit 4) past the point of no return, and if it is\n" +
				"parked because an undo failed: remove the cause, then retry the task.",
		}),
		requestCommand(requestUse{
			kind: "pause", short: "Pause a task: nothing more of it starts",
			long: "Pause a task: its running attempts finish, and nothing else starts until you resume the task. Meanwhile the deadline only raises an\n" +
				"alert. A deadline that was still to come moves by the length of the pause. Its children go on: pause those, too, if they must stop.",
		}),
		requestCommand(requestUse{kind: "resume", short: "Resume a paused task", long: "Resume a paused task: it continues where it was paused."}),
		requestCommand(requestUse{
			kind: "retry", short: "Retry the failed steps of a parked task", step: true,
			long: "Retry a parked task: each step that failed starts again, or only the one that --step names. A step that waits for its next attempt\n" +
				"starts at once. --with gives the one step that is retried, or its undo, another input for all further attempts.",
			members: []member{memberWith},
		}),
		requestCommand(requestUse{
			kind: "skip", short: "Go on without a step", step: true,
			long: "Go on without a step that has not begun, has failed, has timed out or waits. The pivot cannot be skipped. A step that may have had an\n" +
				"effect is still undone if the task is undone. If the task is being undone, or with --operation undo, the undo is skipped: it counts as done,\n" +
				"and what the step did stays, so the command asks first, unless you give --yes. `task get` shows what was left.",
			members: []member{memberOperation, memberOutput}, warning: leavesEffect, ofUndo: true,
		}),
		requestCommand(requestUse{
			kind: "complete", short: "Record that a step was done by hand", step: true,
			long: "Record that a step, or its undo, was done by hand. It must have failed or timed out, or wait. If an attempt runs, fail the attempt\n" +
				"first. Completing the pivot passes the point of no return.",
			members: []member{memberOperation, memberOutput},
		}),
		requestCommand(requestUse{
			kind: "fail", short: "End an attempt that hangs", step: true,
			long: "End the running attempt of a step or of its undo, or the wait for the next attempt. The agent is asked to stop, and the policy of the\n" +
				"step decides what follows. Undos wait for the attempt's complete-by time, unless --effect says that nothing of it is under way.",
			members: []member{memberOperation, memberError, memberEffect},
		}),
		requestCommand(requestUse{
			kind: "signal", short: "Send a signal to a task", named: "signal", members: []member{memberPayload},
			long: "Send a signal to a task: the first step that waits for a signal of this name takes it, now or later. The signal may come up to 24 h\n" +
				"before its task. A task refuses it (exit 4) while the task is being undone, and if no step waits for that name.",
		}),
		requestCommand(requestUse{
			kind: "terminate", short: "End a task where it stands, and undo nothing",
			long: "End a task where it stands. Nothing is undone; the history names the steps that may have had an effect. A task with a running\n" +
				"attempt refuses it (exit 4): fail the attempt, or pause the task and wait for the attempt.",
		}),
		requestCommand(requestUse{
			kind: "rerun", short: "Run a task once more", members: []member{memberFrom, memberInput}, warning: newCalls,
			long: "Run a task once more that has ended or is parked. With --from, only that step runs again, with the steps that need it and those that are\n" +
				"not over. What these steps did is undone first. The new run has new idempotency keys, so services see new calls: the command asks first,\n" +
				"unless you give --yes. A task refuses it (exit 4) while an attempt runs, and if the run would repeat a point of no return.",
		}),
	)
	g.Aliases = []string{"tasks"}
	return g
}

func getCommand(log Log) *cobra.Command {
	ask := client(func(s *session, args []string) error {
		if s.cmd.Flags().Changed("at") && !fromLog(s.cmd) {
			return getPast(s, args[0], s.flag("at"))
		}
		return s.getTask(args[0], "")
	})
	c := output(&cobra.Command{
		Use: "get ID", Short: "Read a task", Args: cobra.ExactArgs(1),
		Long: "Read a task. With --wait the command waits until the task has ended or is parked, for at most --timeout;\n" +
			"then the exit code is 0 for processed, 5 for still running, 6 for undone, terminated or error. With --at the command\n" +
			"shows the task as it was at an instant, or after the fact at an offset of its partition; `task history -o json` has both for each fact.\n" +
			"The table shows the beginning of the input; with -o json the inputs and outputs of the task and its steps are whole.\n" +
			"With --at and --from-log it needs no engine, and also finds tasks forgotten since: it folds the log on --brokers, or in --data, up to then.\n" +
			"It names the tasks that held the permits that the task waited for. Which agents ran then is not in the log, so waits for agents\n" +
			"are not shown.",
		Example: "  sagalog task get delivery-42\n  sagalog task get delivery-42 --wait --timeout 1m -o json\n" +
			"  sagalog task get delivery-42 --at 2026-11-21T14:00:00Z\n  sagalog task get delivery-42 --at 3@1200",
		RunE: func(cmd *cobra.Command, args []string) error {
			if log != nil && fromLog(cmd) {
				return inThePast(log, ask)(cmd, args)
			}
			if err := engineOnly(cmd, log, "--at and --from-log"); err != nil {
				return err
			}
			return ask(cmd, args)
		},
	})
	waitFlags(c)
	pastFlags(c.Flags(), "show the task as it was")
	logFlags(c, log, "with --at: read the log instead of asking an engine")
	return c
}

// logFlags are those of commands that can read the log in place of an engine.
func logFlags(c *cobra.Command, log Log, says string) {
	if log != nil {
		c.Flags().Bool("from-log", false, says)
		log.Flags(c.Flags())
	}
}

func fromLog(cmd *cobra.Command) bool {
	from, _ := cmd.Flags().GetBool("from-log")
	return from
}

func waitFlags(c *cobra.Command) {
	c.Flags().Bool("wait", false, "wait until the task has ended or is parked")
	c.Flags().Duration("timeout", 30*time.Second, "with --wait: for how long")
}

func (s *session) flag(name string) string { return s.cmd.Flags().Lookup(name).Value.String() }

func (s *session) isSet(name string) bool { return s.flag(name) == "true" }

// getTask prints a task after the wait that the flags ask for. With token the answer is not older than that input.
func (s *session) getTask(id, token string) error {
	wait := time.Duration(0)
	if s.isSet("wait") {
		wait, _ = s.cmd.Flags().GetDuration("timeout")
		if wait <= 0 {
			return Usage("--timeout must be positive")
		}
	}
	doc, err := s.readTask(id, token, wait)
	if err != nil {
		return s.orDeadLetter(id, err)
	}
	var t api.TaskDocument
	if err := decode(doc, &t); err != nil {
		return err
	}
	if err := s.one(doc, func(w io.Writer) error {
		nameChildren(s, &t)
		if err := showTask(w, &t); err != nil {
			return err
		}
		return showItems(s, w, &t)
	}); err != nil || wait == 0 {
		return err
	}
	return ending(&t)
}

// ending is the exit code of --wait.
func ending(t *api.TaskDocument) error {
	switch t.State {
	case "processed":
		return nil
	case "undone":
		return exit(ExitEndedBadly, "the task is undone%s", because(t.Reason))
	case "rejected":
		return exit(ExitEndedBadly, "the task was not accepted%s", because(t.Reason))
	case "terminated":
		return exit(ExitEndedBadly, "the task is terminated%s", because(t.Reason))
	case "error":
		return exit(ExitEndedBadly, "the task is parked%s", because(t.Reason))
	}
	return exit(ExitStillRunning, "the task is still %s", t.State)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + Printable(reason)
}

// waitStep is the duration of one long poll; the API allows up to a minute.
const waitStep = 30 * time.Second

// readTask reads a task until it has ended or is parked, or the time is up. It waits for an engine that restarts.
func (s *session) readTask(id, token string, wait time.Duration) (json.RawMessage, error) {
	end := time.Now().Add(wait)
	retry := backoff{}
	for {
		left := time.Until(end)
		q := url.Values{}
		if token != "" {
			q.Set("token", token)
		}
		step := min(max(left, 0), waitStep)
		if wait > 0 {
			q.Set("wait", step.Round(time.Millisecond).String())
		}
		_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodGet, path: taskPath(id), query: q, wait: step})
		switch {
		case err != nil && wait > 0 && time.Until(end) > 0 && isPassing(err):
			if err := retry.pause(s.cmd.Context()); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, notYet(err, wait)
		}
		var t api.TaskDocument
		if err := decode(doc, &t); err != nil {
			return nil, err
		}
		if wait == 0 || time.Until(end) <= 0 || ending(&t) == nil || Code(ending(&t)) == ExitEndedBadly {
			return doc, nil
		}
	}
}

func notYet(err error, wait time.Duration) error {
	if p, ok := err.(*Problem); ok && p.Status == http.StatusServiceUnavailable && strings.HasSuffix(p.Type, ":not-yet") && wait > 0 {
		return &codeError{code: ExitStillRunning, err: err}
	}
	return err
}

func showTask(w io.Writer, t *api.TaskDocument) error {
	head := []row{
		{"ID", t.ID}, {"AS OF", asOf(t.At)}, {"WORKFLOW", fmt.Sprintf("%s, version %d", t.Workflow, t.Version)}, {"STATE", t.State}, {"REASON", t.Reason}, {"PAUSED", pausedText(t.Paused)},
		{"PARENT", parentText(t.Parent)}, {"LABELS", labelText(t.Labels)}, {"PRIORITY", priorityText(t.Priority)}, {"FAIR BY", t.FairBy}, {"SUBMITTED", instant(t.SubmittedAt)}, {"UPDATED", instant(t.UpdatedAt)},
		{"DEADLINE", instant(t.Deadline)}, {"ENDED", instant(t.EndedAt)},
		{"LOCKED BY", t.LockedBy}, {"FAILURES", strconv.Itoa(t.FailureCount)}, {"INPUT", shortJSON(t.Input)}, {"OUTPUT", string(t.Output)},
	}
	rows := head[:0]
	for _, r := range head {
		if r[1] != "" {
			rows = append(rows, r)
		}
	}
	if err := table(w, nil, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	var steps []row
	for i := range t.Steps {
		steps = append(steps, stepRow(&t.Steps[i]))
	}
	if err := table(w, row{"STEP", "AGENT", "STATE", "ATTEMPT", "FAILURES", "UNDO", "ERROR"}, steps); err != nil {
		return err
	}
	if err := showRunning(w, t.Steps); err != nil {
		return err
	}
	return showAwaited(w, t)
}

// showAwaited shows what the task waits for, and the signals that it has and no step has taken.
func showAwaited(w io.Writer, t *api.TaskDocument) error {
	var waiting, signals []row
	for i := range t.WaitingFor {
		waiting = append(waiting, waitingRow(t, &t.WaitingFor[i]))
	}
	for _, k := range t.Signals {
		size := "none"
		if k.PayloadBytes > 0 {
			size = fmt.Sprintf("%d bytes", k.PayloadBytes)
		}
		signals = append(signals, row{k.Signal, size, k.Fact, k.Request})
	}
	for _, shown := range []struct {
		head row
		rows []row
	}{
		{row{"WAITING STEP", "FOR", "SINCE", "UNTIL"}, waiting},
		{row{"SIGNAL NOT TAKEN YET", "PAYLOAD", "FACT", "REQUEST"}, signals},
	} {
		if len(shown.rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if err := table(w, shown.head, shown.rows); err != nil {
			return err
		}
	}
	return nil
}

// shownInput is how much of an input a table shows, in bytes.
const shownInput = 120

// shortJSON is the beginning of a value in one line.
func shortJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	if b.Len() > shownInput {
		return events.Clip(b.String(), shownInput) + " (-o json shows all)"
	}
	return b.String()
}

// showRunning shows the attempts that run, and how far they have come.
func showRunning(w io.Writer, steps []api.StepDocument) error {
	var running []row
	for i := range steps {
		s := &steps[i]
		if s.CompleteBy != 0 {
			by := "to end"
			if s.Heartbeat != 0 {
				by = "to show progress"
			}
			running = append(running, row{s.ID, instant(s.StartedAt), by, instant(s.CompleteBy), string(s.Progress)})
		}
		if u := s.Undo; u != nil && u.CompleteBy != 0 {
			running = append(running, row{"undo of " + s.ID, instant(u.StartedAt), "to end", instant(u.CompleteBy), ""})
		}
	}
	if len(running) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return table(w, row{"RUNNING STEP", "SINCE", "HAS", "UNTIL", "PROGRESS"}, running)
}

func priorityText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func pausedText(p *events.Paused) string {
	if p == nil {
		return ""
	}
	text := "since " + instant(p.Since)
	if p.By != "" {
		text += " by " + Printable(p.By)
	}
	return text + because(p.Reason)
}

func waitingRow(t *api.TaskDocument, w *api.WaitingDocument) row {
	if after, ok := strings.CutPrefix(w.For, t.Reason); ok && w.Kind == events.WaitingOperator { // the table has the reason above
		text := "operator: see REASON; remove the cause, then `sagalog task retry`"
		if after = strings.TrimPrefix(after, "; "); after != "" {
			text = "operator: see REASON; " + Printable(after) + ": ask its service. If it took effect, `sagalog task complete`; if it did not, or if the service knows its keys and does nothing twice, `sagalog task retry`"
		}
		return row{"-", text, cmp.Or(instant(w.Since), "-"), "-"}
	}
	r := row{cmp.Or(w.Step, "-"), string(w.Kind) + ": ", "-", "-"}
	switch saysAll := w.Kind == events.WaitingAgent || w.Kind == events.WaitingKey || w.Kind == events.WaitingOwner; {
	case w.For == "":
		r[1] += w.Kind.Says()
	case saysAll:
		r[1] += Printable(w.For)
	default:
		r[1] += w.Kind.Says() + " (" + Printable(w.For) + ")"
	}
	if w.Since != 0 {
		r[2] = instant(w.Since)
	}
	if w.Until != 0 {
		r[3] = instant(w.Until)
	}
	return r
}

func stepRow(st *api.StepDocument) row {
	r := row{st.ID, doneBy(st), st.State, strconv.Itoa(st.Attempt), strconv.Itoa(st.FailureCount), "-", "-"}
	failed := st.Error
	const left = "an operator left part of what it did"
	if st.Left {
		r[5] = left
	}
	if u := st.Undo; u != nil {
		switch {
		case u.Skipped:
			r[2] = "skipped (effect left)"
			r[5] = "skipped: what the step did is left"
		case st.Left:
			r[5] = u.State + "; " + left
		default:
			r[5] = u.State
		}
		if u.Error != nil {
			failed = u.Error
		}
	}
	if f := st.FanOut; f != nil && f.Undone+f.Left > 0 {
		r[5] = sentence.Undone(sentence.ItemCounts{All: f.Count, Undone: f.Undone, Left: f.Left})
	}
	if failed != nil {
		r[6] = string(failed.Class) + ": " + failed.Message
	}
	return r
}

// doneBy names who does a step: an agent, or a task.
func doneBy(st *api.StepDocument) string {
	switch {
	case st.Child != "":
		return "task " + Printable(st.Child)
	case st.Workflow != "":
		return childOf(st.Workflow)
	}
	return agentOf(st.Agent, st.Operation)
}

// childOf names the workflow of the task that does a step, "" if none does.
func childOf(workflow string) string {
	if workflow == "" {
		return ""
	}
	return "workflow " + workflow
}

func parentText(p *api.ParentDocument) string {
	if p == nil {
		return ""
	}
	text := "step " + Printable(p.Step) + " of task " + Printable(p.Task)
	if p.Released {
		text += ", which needs this task no more"
	}
	return text
}

// agentOf names an agent and, if it has a name, the operation that is called.
func agentOf(agent, operation string) string {
	if operation == "" {
		return agent
	}
	return agent + " " + operation
}

func labelText(labels map[string]string) string {
	keys := slices.Sorted(maps.Keys(labels))
	for i, k := range keys {
		keys[i] = k + ":" + labels[k]
	}
	return strings.Join(keys, " ")
}

// whyText says in a line why a task is in its state, and what it waits for.
func whyText(t *api.TaskDocument) string {
	waits := slices.DeleteFunc(slices.Clone(t.WaitingFor), func(w api.WaitingDocument) bool { // what the reason or the state says
		return w.Kind == events.WaitingOperator || w.Kind == events.WaitingPaused && w.Step == "" && w.For == ""
	})
	if len(waits) == 0 {
		return t.Reason
	}
	w := &waits[0]
	text := "waits: "
	if w.Step != "" {
		text += w.Step + ": "
	}
	text += string(w.Kind)
	if w.For != "" {
		text += " (" + w.For + ")"
	}
	if w.Until != 0 {
		text += " until " + instant(w.Until)
	}
	if n := len(waits) - 1; n > 0 {
		text += ", and " + strconv.Itoa(n) + " more"
	}
	if t.Reason != "" {
		text = t.Reason + "; " + text
	}
	return text
}

// colon accepts a label in the form key=value too, also if the value has a colon, as a URL has.
func colon(label string) string {
	if i := strings.IndexAny(label, ":="); i >= 0 && label[i] == '=' {
		return label[:i] + ":" + label[i+1:]
	}
	return label
}
