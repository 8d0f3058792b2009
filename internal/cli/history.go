package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

// factRow shows a fact. A fact of a later version may hold data of other types; the rest of it is shown anyway.
func factRow(f api.HistoryEvent) row {
	var data struct {
		Reason  string `json:"reason"`
		Detail  string `json:"detail"`
		Action  string `json:"action"`
		Verdict struct {
			Action string `json:"action"`
			Reason string `json:"reason"`
		} `json:"verdict"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		To any `json:"to"`
	}
	_ = json.Unmarshal(f.Data, &data)
	attempt := ""
	if f.Attempt > 0 {
		attempt = strconv.Itoa(f.Attempt)
	}
	if strings.Contains(data.Verdict.Reason, data.Error.Message) {
		data.Error.Message = "" // the supervisor's reason quotes it
	}
	if strings.Contains(data.Verdict.Reason, data.Reason) {
		data.Reason = "" // an operator's reason is the error, if they gave no other
	}
	detail := slices.DeleteFunc([]string{data.Error.Message, data.Verdict.Action, data.Verdict.Reason, data.Action, data.Reason, data.Detail},
		func(d string) bool { return d == "" })
	if act := cmp.Or(operatorsAct(f), progressText(f), permitText(f), wait(f)); act != "" {
		detail = append([]string{act}, detail...)
	}
	if f.Type == string(events.NameTimeCorrected) {
		detail = []string{fmt.Sprintf("a clock was ahead: what began by that clock counts from %v instead", data.To)}
	}
	return row{f.Time.String(), f.Type, f.Step, attempt, f.Owner, f.Cause, strings.Join(detail, "; ")}
}

// operatorsAct says who decided a fact about a step, and what they did; "" if it follows from a report or a policy.
func operatorsAct(f api.HistoryEvent) string {
	var data struct {
		Request string          `json:"request"`
		By      string          `json:"by"`
		Left    bool            `json:"left"`
		Attempt int             `json:"attempt"`
		With    json.RawMessage `json:"with"`
		Steps   []string        `json:"steps"`
		From    string          `json:"from"`
		Input   json.RawMessage `json:"input"`
		Verb    string          `json:"verb"`
	}
	if json.Unmarshal(f.Data, &data) != nil || data.Request == "" {
		return ""
	}
	act := ""
	switch events.Name(f.Type) {
	case events.NameStepSkipped:
		if act = "skipped it"; data.Left {
			act = "skipped the undo, so what the step did stays"
		}
	case events.NameStepCompleted:
		act = "completed it by hand"
	case events.NameCompensated:
		act = "completed its undo by hand"
	case events.NameStepFailed:
		if act = "failed the attempt"; data.Attempt == 0 {
			act = "ended the wait for its next attempt"
		}
	case events.NameCompensationFailed:
		if act = "failed the attempt to undo it"; data.Attempt == 0 {
			act = "ended the wait for the next attempt to undo it"
		}
	case events.NameTaskReopened:
		if act = "retried the task"; len(data.Steps) > 0 {
			act = "retried " + strings.Join(data.Steps, ", ")
		}
		if len(data.With) > 0 {
			act += " with another input"
		}
	case events.NameCancelRequested:
		act = "cancelled the task"
	case events.NameTaskPaused:
		act = "paused the task"
	case events.NameTaskResumed:
		act = "resumed the task"
	case events.NameTaskTerminated:
		act = "terminated the task"
	case events.NameTaskRerun:
		if act = "reran the task"; data.From != "" {
			act += " from " + data.From
		}
		if len(data.Input) > 0 {
			act += " with another input"
		}
	case events.NameRequestRefused:
		return fmt.Sprintf("%s's request to %s was refused", cmp.Or(data.By, "an operator"), data.Verb)
	default:
		return ""
	}
	return cmp.Or(data.By, "an operator") + " " + act
}

// shownProgress bounds how much of a progress a history shows, in bytes.
const shownProgress = 200

// progressText says how far a step has come, and from where an attempt continues; "" of other facts.
func progressText(f api.HistoryEvent) string {
	var data struct {
		Progress json.RawMessage `json:"progress"`
	}
	if json.Unmarshal(f.Data, &data) != nil || len(data.Progress) == 0 {
		return ""
	}
	text := events.Clip(string(data.Progress), shownProgress)
	switch events.Name(f.Type) {
	case events.NameStepStarted:
		return "continues after the progress " + text
	case events.NameStepProgressed:
		return "progress: " + text
	}
	return ""
}

// wait says for what a step waits, which signal came, and which one a step took; "" of other facts.
func wait(f api.HistoryEvent) string {
	var data struct {
		Signals   []string       `json:"signals"`
		Signal    string         `json:"signal"`
		Until     events.Instant `json:"until"`
		StartBy   events.Instant `json:"start_by"`
		NotBefore events.Instant `json:"not_before"`
		By        string         `json:"by"`
		Since     events.Instant `json:"since"`
		Limit     string         `json:"limit"`
		Repeat    bool           `json:"repeat"`
		Run       int            `json:"run"`
		Output    struct {
			Signal string `json:"signal"`
		} `json:"output"`
	}
	if json.Unmarshal(f.Data, &data) != nil {
		return ""
	}
	switch name := events.Name(f.Type); {
	case name == events.NameSubmitted && data.NotBefore != 0:
		return "no step starts before " + data.NotBefore.String()
	case name == events.NameNotBeforePassed:
		return "the task may start"
	case name == events.NameWaitStarted && len(data.Signals) > 0:
		text := "waits for the signal " + strings.Join(data.Signals, " or ")
		if data.Until != 0 {
			text += ", until " + data.Until.String()
		}
		return text
	case name == events.NameRunBegun:
		return fmt.Sprintf("run %d begins", data.Run)
	case name == events.NameWaitStarted:
		return "sleeps until " + data.Until.String()
	case name == events.NameStepQueued:
		return "its first attempt must start by " + data.StartBy.String()
	case name == events.NameSoftLimitPassed:
		return "not over when remind_after, counted from " + data.Since.String() + ", had passed: an alert was sent"
	case name == events.NameSignalReceived && data.By != "":
		return data.By + " sent the signal " + data.Signal
	case name == events.NameSignalReceived:
		return "the signal " + data.Signal
	case name == events.NameStepCompleted && data.Signal != "":
		return "took the signal " + data.Output.Signal
	}
	return ""
}

var factHead = row{"TIME", "EVENT", "STEP", "ATTEMPT", "OWNER", "CAUSE", "DETAIL"}

func historyCommand(log Log) *cobra.Command {
	ask := client(func(s *session, args []string) error {
		q := url.Values{"limit": {s.flag("limit")}}
		if v := s.flag("cursor"); v != "" {
			q.Set("cursor", v)
		}
		return s.pages(taskPath(args[0])+"/history", q, "events", factHead, rowOf(factRow))
	})
	c := output(&cobra.Command{
		Use: "history ID", Short: "Read what happened to a task", Args: cobra.ExactArgs(1),
		Long: "Read the facts of a task from the log, in order. `sagalog task watch` follows it live.\n\n" +
			"The engine knows a task until it has forgotten it, days after its end. With --from-log the command needs no engine: it\n" +
			"reads the whole partition of the task on --brokers, or in the --data of a stopped `sagalog dev`, which takes longer.",
		Example: "  sagalog task history delivery-42\n  sagalog task history delivery-42 -o jsonl | jq .type\n" +
			"  sagalog task history delivery-42 --from-log --brokers k1:9092",
		RunE: func(cmd *cobra.Command, args []string) error {
			if from, _ := cmd.Flags().GetBool("from-log"); log != nil && from {
				return historyFromLog(cmd, log, args[0])
			}
			return ask(cmd, args)
		},
	})
	c.Flags().Int("limit", 1000, "facts a page, up to 1000")
	c.Flags().String("cursor", "", "continue after an earlier page")
	c.Flags().Bool("all", true, "all pages")
	if log != nil {
		c.Flags().Bool("from-log", false, "read the log without an engine")
		log.Flags(c.Flags())
	}
	return c
}

func watchCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "watch ID", Short: "Follow a task live until it has ended", Args: cobra.ExactArgs(1),
		Long: "Follow the facts of a task as they are decided, until it has ended. After a broken connection it\n" +
			"resumes where it stopped. Exit code: 0 for processed, 6 for undone, terminated or error, 5 if the task still runs when\n--timeout is over or you stop watching.",
		Example: "  sagalog task watch delivery-42\n  sagalog task watch delivery-42 -o jsonl",
		RunE:    client(func(s *session, args []string) error { return s.watch(args[0]) }),
	})
	c.Flags().Duration("timeout", 0, "for how long (default: until the task has ended)")
	return c
}

func (s *session) watch(id string) error {
	ctx := s.cmd.Context()
	if limit, _ := s.cmd.Flags().GetDuration("timeout"); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	last, retry, silent := "", backoff{}, time.Now()
	for {
		before := last
		state, err := s.stream(ctx, id, &last)
		if last != before {
			retry.reset()
			silent = time.Now()
		}
		switch {
		case state != "":
			return ending(&api.TaskDocument{State: state})
		case ctx.Err() != nil:
			return exit(ExitStillRunning, "stopped watching; the task continues")
		case err != nil && (!isPassing(err) || last == "" || time.Since(silent) > watchPatience):
			return err
		}
		if err := retry.pause(ctx); err != nil {
			return exit(ExitStillRunning, "stopped watching; the task continues")
		}
	}
}

// watchPatience is how long an engine may be unreachable while a task is watched.
const watchPatience = 2 * time.Minute

// stream prints a stream's events until the stream ends. If the task has ended, it returns the task's state.
func (s *session) stream(ctx context.Context, id string, last *string) (state string, err error) {
	header := map[string]string{"Accept": "text/event-stream"}
	if *last != "" {
		header["Last-Event-ID"] = *last
	}
	resp, err := s.send(ctx, request{method: http.MethodGet, path: taskPath(id) + "/history", header: header})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return s.stateOf(ctx, id)
	case resp.StatusCode >= 400:
		b, _ := io.ReadAll(resp.Body)
		return "", problemOf(resp, b)
	}
	r := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		e, err := readEvent(r)
		if err != nil {
			return "", err
		}
		if e.name == "end" {
			var end struct {
				State string `json:"state"`
			}
			err := decode(e.data, &end)
			return end.State, err
		}
		if err := s.showEvent(e.data); err != nil {
			return "", err
		}
		if e.id != "" {
			*last = e.id
		}
	}
}

func (s *session) stateOf(ctx context.Context, id string) (string, error) {
	doc, err := s.get(ctx, taskPath(id), nil)
	if err != nil {
		return "", err
	}
	var t api.TaskDocument
	err = decode(doc, &t)
	return t.State, err
}

func (s *session) showEvent(doc json.RawMessage) error {
	if s.format != formatTable {
		return s.line(doc) // the array of an endless stream would never be closed
	}
	r, err := rowOf(factRow)(doc)
	if err != nil {
		return err
	}
	for i := range r {
		r[i] = Printable(r[i])
	}
	_, err = fmt.Fprintf(s.out, "%s  %-16s %s %-3s %s  %s\n", r[0], r[1], padded(r[2], 12), r[3], r[4], r[6])
	return err
}

// sse is one server-sent event.
type sse struct {
	id, name string
	data     json.RawMessage
}

// readEvent returns the next event that has data; comments are skipped.
func readEvent(r *bufio.Reader) (sse, error) {
	var e sse
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return e, fmt.Errorf("the stream broke off: %w", err)
		}
		text = strings.TrimRight(text, "\r\n")
		name, value, _ := strings.Cut(text, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case text == "" && e.data != nil:
			return e, nil
		case text == "":
			e = sse{}
		case name == "id":
			e.id = value
		case name == "event":
			e.name = value
		case name == "data":
			e.data = append(e.data, value...)
		}
	}
}
