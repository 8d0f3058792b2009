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
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/sentence"
	"github.com/spf13/cobra"
)

// factRow shows a fact. An engine of an earlier version gives no text.
func factRow(f api.HistoryEvent) row {
	attempt := ""
	if f.Attempt > 0 {
		attempt = strconv.Itoa(f.Attempt)
	}
	return row{f.Time.String(), f.Type, f.Step, attempt, f.Owner, f.Cause, cmp.Or(f.Text, sentence.Of(f.Type, f.Data))}
}

var factHead = row{"TIME", "EVENT", "STEP", "ATTEMPT", "OWNER", "CAUSE", "DETAIL"}

func historyCommand(log Log) *cobra.Command {
	ask := client(func(s *session, args []string) error {
		q := url.Values{"limit": {s.flag("limit")}}
		if v := s.flag("cursor"); v != "" {
			q.Set("cursor", v)
		}
		err := s.pages(taskPath(args[0])+"/history", q, "events", listing{none: "the task has no facts", head: factHead, cells: rowOf(factRow)})
		return s.orDeadLetter(args[0], err)
	})
	c := output(&cobra.Command{
		Use: "history ID", Short: "Read what happened to a task", Args: cobra.ExactArgs(1),
		Long: "Read the facts of a task from the log, in order. `sagalog task watch` follows it live.\n\n" +
			"The engine knows a task until it has forgotten it, days after its end. With --from-log the command needs no engine: it\n" +
			"reads the whole partition of the task on --brokers, or in the --data of a stopped `sagalog dev`, which takes longer.",
		Example: "  sagalog task history delivery-42\n  sagalog task history delivery-42 -o jsonl | jq .type\n" +
			"  sagalog task history delivery-42 --from-log --brokers k1:9092",
		RunE: func(cmd *cobra.Command, args []string) error {
			if log != nil && fromLog(cmd) {
				return historyFromLog(cmd, log, args[0])
			}
			return ask(cmd, args)
		},
	})
	c.Flags().Int("limit", 1000, "facts a page, up to 1000")
	c.Flags().String("cursor", "", "continue after an earlier page")
	c.Flags().Bool("all", true, "all pages")
	logFlags(c, log, "read the log without an engine")
	return c
}

func watchCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "watch ID", Short: "Follow a task live until it has ended", Args: cobra.ExactArgs(1),
		Long: "Follow the facts of a task as they are decided, until it has ended. After a broken connection it\n" +
			"resumes where it stopped. Exit code: 0 for processed, 6 for undone, terminated or error, 5 if the task still runs when\n--timeout is over or you stop watching.",
		Example: "  sagalog task watch delivery-42\n  sagalog task watch delivery-42 -o jsonl",
		RunE:    client(func(s *session, args []string) error { return s.orDeadLetter(args[0], s.watch(args[0])) }),
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
