package cli

import (
	"context"
	"encoding/json"
	"io"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Log reads the log without an engine.
type Log interface {
	// Flags adds the flags that say where the log is.
	Flags(f *pflag.FlagSet)
	// History calls show with each fact about a task, in order, and returns the place where it looked. It writes its
	// progress to a terminal.
	History(ctx context.Context, task string, progress io.Writer, show func(api.HistoryEvent) error) (LogPlace, error)
	// Past folds the log up to a moment, and serves the API of that past until stop is called.
	Past(ctx context.Context, of PastOf, progress io.Writer) (p Past, stop func() error, err error)
}

// PastOf says which past is asked for. If Task is not empty, only that task will be read. Checkpoints is a directory of checkpoints, with one of which the fold may begin, or one of them;
// empty: the one of the data directory.
type PastOf struct{ At, Task, Checkpoints string }

// Past is where the past is served, as HOST:PORT, the token that its API asks for, the moment, and the checkpoint with which the fold began, empty without one.
type Past struct {
	Address, Token string
	At             events.Instant
	Checkpoint     string
}

// LogPlace is the part of the log that was read.
type LogPlace struct {
	Topic     string
	Partition int32
	// From is the first offset that the log still holds.
	From int64
}

func historyFromLog(cmd *cobra.Command, log Log, id string) error {
	p, err := printerOf(cmd)
	if err != nil {
		return err
	}
	if cmd.Flags().Lookup("cursor").Value.String() != "" {
		return Usage("--cursor cannot be combined with --from-log, which prints the whole history")
	}
	var facts []json.RawMessage
	found := 0
	at, err := log.History(cmd.Context(), id, cmd.ErrOrStderr(), func(e api.HistoryEvent) error {
		doc, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if found++; p.format == formatJSONL {
			return p.line(doc)
		}
		facts = append(facts, doc)
		return nil
	})
	switch {
	case err != nil:
		return err
	case found == 0:
		return exit(ExitNotFound, "there is no task %q in the log from offset %d of %s/%d on", id, at.From, at.Topic, at.Partition)
	case at.From > 0:
		p.note("the log begins at offset %d of %s/%d: earlier facts are gone", at.From, at.Topic, at.Partition)
	}
	if p.format == formatJSONL {
		return nil
	}
	return p.list(facts, listing{head: factHead, cells: rowOf(factRow)})
}
