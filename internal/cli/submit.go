package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
)

func submitCommand() *cobra.Command {
	c := output(&cobra.Command{
		Use: "submit -w WORKFLOW [--id ID] [--input JSON|@FILE|-] | --from FILE.ndjson|-", Short: "Submit a task, or many from a file",
		Args: cobra.NoArgs,
		Long: `Submit a task. Submitting an ID again succeeds if the content is the same; otherwise it is a conflict (exit 4).
The status of such a repeat is "known", and nothing new is written: the engine had the same submission already.
With --wait the exit code is 0 for processed, 5 for still running, 6 for undone or error.

With --from, each line of the file is a submission such as {"id":"a","workflow":"order","input":{}}. Lines that fail
are printed on stderr, with their line number; the exit code is 4 if all of these are conflicts, else 1. Lines that a
restarting engine did not acknowledge are sent again with the same IDs; a line without an ID gets a UUIDv7.`,
		Example: "  sagalog task submit -w drone-delivery --id delivery-42 --input @delivery.json --wait\n" +
			"  echo '{\"ownerId\":\"o-7\"}' | sagalog task submit -w drone-delivery --input -\n" +
			"  sagalog task submit --from deliveries.ndjson",
		RunE: client(func(s *session, _ []string) error { return s.submit() }),
	})
	f := c.Flags()
	f.StringP("workflow", "w", "", "name of the workflow")
	f.Int("version", 0, "version of the workflow (default: the current one)")
	f.String("id", "", "the task's ID (default: a new UUIDv7)")
	f.String("input", "", "the task's input: JSON, @FILE, or - for stdin")
	f.Int("priority", 0, "higher runs first")
	f.StringArray("label", nil, "`key:value`; may be given several times")
	f.String("deadline", "", "a duration from acceptance or from --not-before (10m), or an instant")
	f.String("not-before", "", "when the task may start: a duration from acceptance (2h), or an instant")
	f.String("reply-to", "", "the topic that gets a reply for each state of the task; the setting reply_topics must allow it")
	f.String("reply-key", "", "the key of the replies (default: the task's ID)")
	f.String("from", "", "submissions, one a line: FILE.ndjson, or - for stdin")
	f.Duration("retry-for", time.Minute, "with --from: for how long to try again while nothing gets through")
	waitFlags(c)
	return c
}

func (s *session) submit() error {
	if s.flag("from") != "" {
		for _, name := range []string{"workflow", "version", "id", "input", "priority", "label", "deadline", "not-before", "reply-to", "reply-key", "wait"} {
			if s.cmd.Flags().Changed(name) {
				return Usage("--from reads whole submissions from the file, so --%s cannot be combined with it", name)
			}
		}
		return s.submitFrom(s.flag("from"))
	}
	sub, err := s.submission()
	if err != nil {
		return err
	}
	body, err := events.Marshal(sub)
	if err != nil {
		return err
	}
	status, doc, err := s.do(s.cmd.Context(), request{method: http.MethodPut, path: taskPath(sub.ID), body: body, content: "application/json"})
	if err != nil {
		return err
	}
	var r api.Receipt
	if err := decode(doc, &r); err != nil {
		return err
	}
	if s.isSet("wait") {
		err := s.getTask(sub.ID, r.Token)
		if errors.Is(err, context.Canceled) {
			return exit(ExitError, "stopped waiting; task %q is accepted and continues", sub.ID)
		}
		return err
	}
	return s.one(doc, func(w io.Writer) error {
		what := "accepted"
		if status == http.StatusOK {
			what = "known"
		}
		return table(w, row{"ID", "STATUS", "PARTITION", "OFFSET"}, []row{{r.ID, what, strconv.Itoa(int(r.Partition)), number(r.Offset, "")}})
	})
}

// submission makes a submission from the flags.
func (s *session) submission() (*events.Submission, error) {
	f := s.cmd.Flags()
	if f.Changed("id") && s.flag("id") == "" {
		return nil, Usage("--id is empty; is a shell variable unset? Leave the flag out to get a new ID")
	}
	sub := &events.Submission{ID: s.flag("id"), Workflow: s.flag("workflow"), Deadline: s.flag("deadline"), NotBefore: s.flag("not-before"),
		ReplyTo: s.flag("reply-to"), ReplyKey: s.flag("reply-key")}
	if err := onlyName(sub.Workflow); err != nil {
		return nil, err
	}
	sub.Version, _ = f.GetInt("version")
	sub.Priority, _ = f.GetInt("priority")
	if sub.Workflow == "" {
		return nil, Usage("--workflow is required (or --from)")
	}
	if sub.ID == "" {
		sub.ID = uuid.Must(uuid.NewV7()).String()
	}
	if err := events.CheckTaskID(sub.ID); err != nil {
		return nil, Usage("--id: %s", strings.TrimPrefix(err.Error(), "/id: "))
	}
	labels, err := f.GetStringArray("label")
	if err != nil {
		return nil, err
	}
	for _, l := range labels {
		k, v, ok := strings.Cut(colon(l), ":")
		if !ok || k == "" {
			return nil, Usage("--label %q is not key:value", l)
		}
		if sub.Labels == nil {
			sub.Labels = map[string]string{}
		}
		sub.Labels[k] = v
	}
	sub.Input, err = s.input(s.flag("input"))
	return sub, err
}

func (s *session) input(text string) (json.RawMessage, error) {
	b, from := []byte(text), "--input"
	var err error
	switch {
	case text == "":
		return nil, nil
	case text == "-":
		from = "stdin"
		b, err = io.ReadAll(s.cmd.InOrStdin())
	case strings.HasPrefix(text, "@"):
		from = text[1:]
		b, err = os.ReadFile(from)
	}
	if err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	compact, err := events.Compact(b)
	if err != nil { // it begins with "not JSON", "not UTF-8" or "nested"
		return nil, Usage("%s is %v", from, err)
	}
	if len(compact) == 0 {
		return nil, Usage("%s is empty", from)
	}
	return compact, nil
}
