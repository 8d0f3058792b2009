package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/past"
	"github.com/spf13/cobra"
)

// replayConfig holds the flags of replay.
type replayConfig struct {
	logPlace
	output
	at, before, to, base string
}

func replayCommand() *cobra.Command {
	var c replayConfig
	cmd := &cobra.Command{
		Use: "replay", Short: "Copy the past of a namespace, as it was at a moment, into a directory", Args: cobra.NoArgs,
		Long: `Copy the log of a namespace up to a moment into a directory, and fold it: all tasks as they were then, with their histories, workflows and dead
letters as far as the log still holds them, including tasks forgotten since. ` + "`sagalog api --read-only --data DIR`" + ` serves it to the CLI and the page;
` + "`export`, `diff` and `state hash`" + ` take it with --data. The copy can only be read: no task continues in it.

The moment is an instant, a duration before now, or the place of a fact (PARTITION@OFFSET, from ` + "`task history`" + `): just after it with --at, just before it
with --before; the other partitions are shown as of its time. The original may run: nothing is written to it.
(A --data directory is opened as dev opens it, so dev must not be running on it.) If --checkpoints, or the data directory, has
checkpoints of this namespace, only the facts after the nearest one before the moment are folded; the copy is the same. One that cannot be used is named, and the next older one is taken. What was erased since stays erased; a later
erasure does not reach copies, so delete them too. If you interrupt the command, repeat it: it starts over.`,
		Example: `  sagalog replay --brokers k1:9092 --at 10m --to ./before
  sagalog replay --data ./sagalog-data --at 2026-11-29T14:00:00Z --to ./before
  sagalog replay --brokers k1:9092 --before 3@1207 --to ./before
  sagalog api --read-only --data ./before`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	c.logPlace.Flags(f)
	f.StringVar(&c.at, "at", "", "the moment: an instant, a duration before now such as 10m, or just after a fact such as 3@1207")
	f.StringVar(&c.before, "before", "", "the moment just before a fact such as 3@1207; instead of --at")
	f.StringVar(&c.to, "to", "", "directory for the copy; it must not exist yet, or be empty")
	checkpointsFlag(f, &c.base)
	c.output.flags(f)
	return cmd
}

func (c *replayConfig) run(cmd *cobra.Command) (err error) {
	if err := errors.Join(c.output.validate(), c.logPlace.validate()); err != nil {
		return err
	}
	if c.to == "" {
		return usage("--to is missing: give a directory that does not exist yet")
	}
	checkpoints, err := c.logPlace.checkpoints(c.base)
	if err != nil {
		return err
	}
	now, err := c.logPlace.now()
	if err != nil {
		return err
	}
	moment, err := c.moment(now)
	if err != nil {
		return err
	}
	cluster, closeLog, err := c.logPlace.open(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if _, err := readNamespace(cmd.Context(), cluster, c.namespace); err != nil {
		return err
	}
	var mark *past.Mark
	err = behind(cmd.ErrOrStderr(), func(bar *verifyBar, warn func(string)) (err error) {
		mark, err = past.Copy(cmd.Context(), past.Config{Cluster: cluster, Namespace: c.namespace, Moment: moment, Dir: c.to, Checkpoints: checkpoints, Progress: bar.count("replay"), Warn: warn})
		return err
	})
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted: repeat the command; it makes %s from the beginning", c.to)
	case errors.Is(err, past.ErrOccupied):
		return usage("%s", err)
	case err != nil:
		return err
	}
	return printRows(cmd.OutOrStdout(), c.output, []*past.Mark{mark}, c.print)
}

// moment reads --at and --before.
func (c *replayConfig) moment(now time.Time) (m past.Moment, err error) {
	switch {
	case c.at == "" && c.before == "":
		return m, usage("--at is missing: an instant, a duration before now such as 10m, or the place of a fact such as 3@1207")
	case c.at != "" && c.before != "":
		return m, usage("give --at or --before, not both")
	case c.at != "":
		if m, err = past.Parse(c.at, now); err != nil {
			return m, usage("--at: %s", err)
		}
	default:
		if m, err = past.Parse(c.before, now); err != nil {
			return m, usage("--before: %s", err)
		}
		if !m.Fact {
			return m, usage("--before %q is not the place of a fact, such as 3@1207; give an instant with --at", c.before)
		}
		m.Before = true
	}
	return m, nil
}

func (c *replayConfig) print(out io.Writer, list []*past.Mark) error {
	for _, m := range list {
		fmt.Fprintf(out, "%s as of %s in %s, from %s in %s\n", m.Namespace, m.At, c.to, cli.Counted(int(m.Facts), "record"), cli.Counted(len(m.Ends), "partition"))
		if m.Checkpoint != "" {
			fmt.Fprintf(out, "%s folded after the checkpoint %s\n", cli.Counted(int(m.Folded), "record"), m.Checkpoint)
		}
		fmt.Fprintf(out, "serve it:  %s api --read-only --data %s\n", invocation(), c.to)
	}
	return nil
}
