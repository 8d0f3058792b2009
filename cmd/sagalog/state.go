package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/spf13/cobra"
)

// hashRow is a line of `state hash`.
type hashRow struct {
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Hash      events.Hash `json:"hash"`
	// Rebuilt is the hash after folding the log from nothing to the same offset.
	Rebuilt *events.Hash `json:"rebuilt,omitempty"`
}

// stateConfig holds the flags of state hash.
type stateConfig struct {
	connection
	output
	data, namespace string
	rebuild         bool
}

func stateCommand() *cobra.Command {
	group := &cobra.Command{Use: "state", Short: "Look at, copy and restore the state store of a node"}
	var c stateConfig
	hash := &cobra.Command{
		Use:   "hash",
		Short: "Print offset and state hash of each partition of a stopped engine",
		Long: `Print offset and state hash of each partition of a stopped engine. Partitions that this engine never had are left out.

With --rebuild the log is folded from nothing to the same offsets in a temporary directory, and the command exits with 1 if any hash
differs. Then delete the state directory, and the next start rebuilds it.

The log of ` + "`sagalog dev`" + ` is in the data directory; that of ` + "`sagalog serve`" + ` is on --brokers.`,
		Example: `  sagalog state hash --data ./sagalog-data
  sagalog state hash --data ./sagalog-data --rebuild -o json
  sagalog state hash --data /var/lib/sagalog --rebuild --brokers k1:9092`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.output.validate(); err != nil {
				return err
			}
			rows, err := c.hashes(cmd.Context())
			if err != nil {
				return err
			}
			if err := printRows(cmd.OutOrStdout(), c.output, rows, printHashes); err != nil {
				return err
			}
			return differing(rows)
		},
	}
	f := hash.Flags()
	f.StringVar(&c.data, "data", "./sagalog-data", "data directory of the engine, which must be stopped")
	f.BoolVar(&c.rebuild, "rebuild", false, "fold the log from nothing too, and compare")
	f.StringVar(&c.namespace, "namespace", events.DefaultNamespace, "prefix of all topic names")
	c.connection.flags(f)
	c.output.flags(f)
	group.AddCommand(hash, cli.CheckpointCommand(stoppedCheckpoint), restoreCommand())
	return group
}

func printHashes(out io.Writer, rows []hashRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PARTITION\tOFFSET\tHASH\tREBUILT")
	for _, r := range rows {
		rebuilt := "-"
		if r.Rebuilt != nil {
			rebuilt = r.Rebuilt.String()
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", r.Partition, r.Offset, r.Hash, rebuilt)
	}
	return w.Flush()
}

func differing(rows []hashRow) error {
	var errs []error
	for _, r := range rows {
		if r.Rebuilt != nil && *r.Rebuilt != r.Hash {
			errs = append(errs, fmt.Errorf("partition %d: the state is not the fold of the log at offset %d", r.Partition, r.Offset))
		}
	}
	return errors.Join(errs...)
}

// hashes opens the data directory as the engine does, with its lock.
func (c *stateConfig) hashes(ctx context.Context) (_ []hashRow, err error) {
	cluster, closeLog, err := c.openLog(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	ns, err := readNamespace(ctx, cluster, c.namespace)
	if err != nil {
		return nil, err
	}
	store, err := projector.OpenIntact(c.state(), projector.Options{Namespace: ns.ID})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	rows := []hashRow{}
	for p := range ns.Partitions {
		info, err := store.PartitionInfo(p)
		if err != nil {
			return nil, err
		}
		if info.Exists {
			rows = append(rows, hashRow{Partition: p, Offset: info.Next, Hash: info.StateHash})
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s holds no partition, so there is nothing to hash", c.state())
	}
	if !c.rebuild {
		return rows, nil
	}
	return rows, c.rebuildHashes(ctx, rebuilding{cluster: cluster, namespaceID: ns.ID, rows: rows})
}

func (c *stateConfig) state() string { return filepath.Join(c.data, "state") }

// openLog opens the log that belongs to the data directory, and locks the directory. Close unlocks it.
func (c *stateConfig) openLog(ctx context.Context) (*kafka.Cluster, func() error, error) {
	own := hasBroker(c.data)
	if _, err := os.Stat(c.state()); err != nil {
		if !own {
			return nil, nil, fmt.Errorf("%s is not a data directory (--data): it holds no state", c.data)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s holds no state at present: the next start of `sagalog dev` folds it from the log", c.data)
		}
		return nil, nil, err
	}
	if own {
		return c.openBroker()
	}
	return c.openServed(ctx)
}

// openServed reaches the log of a data directory of serve, and locks the directory.
func (c *stateConfig) openServed(ctx context.Context) (*kafka.Cluster, func() error, error) {
	if len(c.brokers) == 0 {
		return nil, nil, usage("--brokers is missing: %s is a data directory of `sagalog serve`, and its log is on a Kafka cluster", c.data)
	}
	unlock, err := embedded.Lock(filepath.Join(c.data, lockFile))
	if err != nil {
		return nil, nil, err
	}
	cluster, err := c.reach(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, unlock())
	}
	return cluster, func() error {
		cluster.Close()
		return unlock()
	}, nil
}

// openBroker opens the broker of a data directory of dev, which takes the lock.
func (c *stateConfig) openBroker() (*kafka.Cluster, func() error, error) {
	if len(c.brokers) > 0 {
		return nil, nil, usage("--brokers is not for %s: it is a data directory of `sagalog dev`, and its log is in it", c.data)
	}
	broker, err := embedded.Open(embedded.Config{Dir: brokerIn(c.data), LockFile: filepath.Join(c.data, lockFile), Logger: newLogger(true)})
	if err != nil {
		return nil, nil, err
	}
	cluster, err := kafka.Connect(broker.ClusterConfig())
	if err != nil {
		return nil, nil, errors.Join(err, broker.Close())
	}
	return cluster, func() error {
		cluster.Close()
		return broker.Close()
	}, nil
}

// rebuilding holds the states to compare with, and the log to fold.
type rebuilding struct {
	cluster     *kafka.Cluster
	namespaceID string
	rows        []hashRow
}

// rebuildHashes folds the log of each partition in a temporary store, so that a long one needs little memory.
func (c *stateConfig) rebuildHashes(ctx context.Context, b rebuilding) error {
	dir, err := os.MkdirTemp("", "sagalog-rebuild-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := projector.Open(dir, projector.Options{Namespace: b.namespaceID})
	if err != nil {
		return err
	}
	defer store.Close()
	topic := kafka.Topics{Namespace: c.namespace}.Events()
	var ranges []node.FoldRange
	for _, r := range b.rows {
		ranges = append(ranges, node.FoldRange{Topic: topic, Partition: r.Partition, To: r.Offset, Short: true})
	}
	return node.FoldAll(ctx, b.cluster, store, ranges, func(i int, sum events.Hash) {
		r := &b.rows[i]
		r.Rebuilt = &sum
		fmt.Fprintf(os.Stderr, "partition %d folded to offset %d\n", r.Partition, r.Offset)
	})
}
