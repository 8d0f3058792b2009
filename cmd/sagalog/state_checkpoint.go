package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkpointFlags are the flags of checkpoints of a running node.
type checkpointFlags struct {
	checkpoints node.Checkpoints
}

func (c *checkpointFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&c.checkpoints.Dir, "checkpoints", "", "directory of the checkpoints of this node's state (default checkpoints in --data); a node without a state begins with the newest one there")
	f.DurationVar(&c.checkpoints.Every, "checkpoint-every", 0, "make a checkpoint after this time, such as 1h (default: not by time)")
	f.Int64Var(&c.checkpoints.Records, "checkpoint-records", 0, "make a checkpoint after folding this many records of the log, such as 10000000 (default: not by records)")
	f.IntVar(&c.checkpoints.Keep, "checkpoint-keep", node.DefaultCheckpointsKept, "how many of the checkpoints that the node made by itself are kept")
}

func (c *checkpointFlags) validate() error {
	k := &c.checkpoints
	switch {
	case k.Every < 0 || k.Every > 0 && k.Every < time.Minute:
		return usage("--checkpoint-every %s is shorter than a minute", k.Every)
	case k.Records < 0:
		return usage("--checkpoint-records %d is negative", k.Records)
	case k.Keep < 1 || k.Keep > 1000:
		return usage("--checkpoint-keep %d is not from 1 to 1000", k.Keep)
	}
	return nil
}

// stoppedCheckpoint makes a checkpoint of the state of a stopped node. It needs no log.
func stoppedCheckpoint(ctx context.Context, data, to string) (d api.CheckpointDocument, err error) {
	state := filepath.Join(data, "state")
	if _, err := os.Stat(state); err != nil {
		return d, fmt.Errorf("%s is not a data directory (--data): it holds no state", data)
	}
	if within(state, to) {
		return d, usage("--to %s is in the state itself, %s: give a directory outside", to, state)
	}
	unlock, err := embedded.Lock(filepath.Join(data, lockFile))
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	id, err := projector.Inspect(state)
	if err != nil {
		return d, err
	}
	if id == "" {
		return d, fmt.Errorf("%s holds no partition, so there is nothing to copy", state)
	}
	store, err := projector.Open(state, projector.Options{Namespace: id})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	made, err := projector.MakeCheckpoint(ctx, store, filepath.Clean(to), projector.About{NamespaceID: id, Version: version(), Time: events.At(time.Now())})
	if err != nil {
		return d, err
	}
	return node.DescribeCheckpoint(to, &made), nil
}

// within says whether path is dir or below it.
func within(dir, path string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	if path, err = filepath.Abs(path); err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// restoreConfig holds the flags of state restore.
type restoreConfig struct {
	stateConfig
	from string
}

func restoreCommand() *cobra.Command {
	var c restoreConfig
	cmd := &cobra.Command{
		Use: "restore", Short: "Make the state of a stopped node from a checkpoint",
		Long: `Make the state of a stopped node from a checkpoint. The checkpoint may be of another node of the namespace, and that may be
running. Nothing is changed unless its files are intact and the log continues it: of the same namespace, in the same topic, with the
record that each partition folded last. The next start folds the rest of the log.

The data directory must hold no state: move an old one away first. The log of ` + "`sagalog dev`" + ` is in the data directory; that of
` + "`sagalog serve`" + ` is on --brokers.`,
		Example: "  sagalog state restore --from /backup/sagalog-1 --data /var/lib/sagalog --brokers k1:9092",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			made, err := c.restore(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is restored to %s: %d records are folded; the next start folds the rest\n", c.from, c.state(), made.Records())
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.from, "from", "", "directory of the checkpoint")
	f.StringVar(&c.data, "data", "./sagalog-data", "data directory of the node, which must be stopped")
	f.StringVar(&c.namespace, "namespace", events.DefaultNamespace, "prefix of all topic names")
	c.connection.flags(f)
	return cmd
}

func (c *restoreConfig) restore(ctx context.Context) (made projector.Checkpoint, err error) {
	if c.from == "" {
		return made, usage("--from is missing: the directory of a checkpoint, which `sagalog state checkpoint` makes")
	}
	if made, err = projector.ReadCheckpoint(projector.OnDisk(), c.from); err != nil {
		return made, err
	}
	cluster, closeLog, err := c.openRestored(ctx)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	ns, err := readNamespace(ctx, cluster, c.namespace)
	if err != nil {
		return made, err
	}
	log := node.CheckpointLog{Cluster: cluster, Namespace: c.namespace, ID: ns.ID, Partitions: ns.Partitions}
	if err := log.Fits(ctx, &made); err != nil {
		return made, err
	}
	return made, made.Restore(projector.OnDisk(), c.from, c.state())
}

// openRestored opens the log that belongs to a data directory, which may not exist, and locks the directory.
func (c *restoreConfig) openRestored(ctx context.Context) (*kafka.Cluster, func() error, error) {
	if _, err := os.Stat(c.state()); err == nil {
		return nil, nil, fmt.Errorf("%s exists: move it away first", c.state())
	}
	if hasBroker(c.data) {
		return c.openBroker()
	}
	if missing(c.data) && len(c.brokers) == 0 {
		return nil, nil, usage("%s does not exist (--data): give the data directory of a stopped `sagalog dev`, or for a node of `sagalog serve` also the --brokers that hold its log", c.data)
	}
	if err := serveDirectory(c.data); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(c.data, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the data directory (--data): %w", err)
	}
	return c.openServed(ctx)
}
