package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// getPast prints a task as it was at an instant, or at an offset of its partition.
func getPast(s *session, id, at string) error {
	switch {
	case at == "":
		return Usage("--at is empty: give an instant such as 2026-11-21T14:00:00Z, a duration before now such as 10m, or a fact such as 3@1200, or leave it out")
	case s.isSet("wait"):
		return Usage("--at shows the past, so there is nothing to wait for: leave out --wait")
	}
	if d, err := time.ParseDuration(at); err == nil && d >= 0 { // before now
		at = events.At(time.Now().Add(-d)).String()
	}
	_, doc, err := s.do(s.cmd.Context(), request{method: http.MethodGet, path: taskPath(id), query: url.Values{"at": {at}}})
	if err != nil {
		return err
	}
	var t api.TaskDocument
	if err := decode(doc, &t); err != nil {
		return err
	}
	return s.one(doc, func(w io.Writer) error {
		if err := showTask(w, &t); err != nil {
			return err
		}
		return showItems(s, w, &t)
	})
}

// onlyOfLogs are flags that mean nothing to an engine.
var onlyOfLogs = []string{"brokers", "data", "namespace", "checkpoints"}

// pastFlags are those of commands that can show the past.
func pastFlags(f *pflag.FlagSet, at string) {
	f.String("at", "", at+": at an instant, a duration before now such as 10m, or after the fact at PARTITION@OFFSET")
	f.String("checkpoints", "", "with --at and a log: directory of checkpoints of the state (sagalog state checkpoint), or one of them; the fold begins with the nearest one before the moment (default: checkpoints in --data)")
}

// engineOnly refuses the flags of a log for a call that asks the engine: otherwise the present would be taken for the past.
func engineOnly(cmd *cobra.Command, log Log, with string) error {
	if log == nil {
		return nil
	}
	i := slices.IndexFunc(onlyOfLogs, func(name string) bool { return typed(cmd, name) })
	if i < 0 {
		return nil
	}
	return Usage("--%s is only for a past that is read from the log: give %s too, or leave it out", onlyOfLogs[i], with)
}

// inThePast lets a command ask the past that the log tells, in place of an engine.
func inThePast(log Log, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		at, _ := cmd.Flags().GetString("at")
		if at == "" {
			return Usage("--at is missing or empty: give an instant such as 2026-11-21T14:00:00Z, a duration before now such as 10m, or a fact such as 3@1200")
		}
		if wait := cmd.Flags().Lookup("wait"); wait != nil && wait.Changed {
			return Usage("--at shows the past, so there is nothing to wait for: leave out --wait")
		}
		if typed(cmd, "api") {
			return Usage("--api asks an engine, but this past is read from the log (--brokers or --data): leave out --api")
		}
		of := PastOf{At: at, Checkpoints: cmd.Flags().Lookup("checkpoints").Value.String()}
		if len(args) == 1 { // of a command about one task
			of.Task = args[0]
		}
		p, stop, err := log.Past(cmd.Context(), of, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		if err := cmd.Flags().Set("api", "http://"+p.Address); err != nil {
			return err
		}
		from := ""
		if p.Checkpoint != "" {
			from = ", from the checkpoint " + p.Checkpoint
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "as of %s%s\n", instant(p.At), from)
		cmd.SetContext(withToken(cmd.Context(), p.Token))
		return run(cmd, args)
	}
}

// asOf names the fact after which a task is shown; "" for the present.
func asOf(at *api.AtDocument) string {
	if at == nil {
		return ""
	}
	return fmt.Sprintf("%s (%d@%d)", instant(at.Time), at.Partition, at.Offset)
}
