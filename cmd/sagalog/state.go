package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"github.com/spf13/cobra"
)

// hashRow is a line of `state hash`.
type hashRow struct {
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Hash      events.Hash `json:"hash"`
	// Rebuilt is the hash of the log folded from nothing to the same offset.
	Rebuilt *events.Hash `json:"rebuilt,omitempty"`
}

func stateCommand() *cobra.Command {
	group := &cobra.Command{Use: "state", Short: "Look at the state store of a stopped engine"}
	var data, output string
	var rebuild bool
	hash := &cobra.Command{
		Use:   "hash",
		Short: "Print offset and state hash of each partition of a stopped engine",
		Long: `Print offset and state hash of each partition of a stopped engine.

With --rebuild the log is folded from nothing to the same offsets, in a temporary place, and the command exits with 1
when any hash differs: then the state directory can be deleted, and the next start makes it anew.`,
		Example: "  sagalog state hash --data ./sagalog-data\n  sagalog state hash --data ./sagalog-data --rebuild -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := stateHash(cmd.Context(), data, rebuild)
			if err != nil {
				return err
			}
			if err := printHashes(cmd, output, rows); err != nil {
				return err
			}
			return differing(rows)
		},
	}
	hash.Flags().StringVar(&data, "data", "./sagalog-data", "data directory of the engine, which must be stopped")
	hash.Flags().BoolVar(&rebuild, "rebuild", false, "fold the log from nothing too, and compare")
	hash.Flags().StringVarP(&output, "output", "o", "table", "table, json or jsonl")
	group.AddCommand(hash)
	return group
}

func printHashes(cmd *cobra.Command, output string, rows []hashRow) error {
	out := cmd.OutOrStdout()
	switch output {
	case "json":
		return json.NewEncoder(out).Encode(rows)
	case "jsonl":
		for _, r := range rows {
			if err := json.NewEncoder(out).Encode(r); err != nil {
				return err
			}
		}
		return nil
	case "table":
	default:
		return usage("-o %q is not known: table, json or jsonl", output)
	}
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

// stateHash opens the data directory as the engine does, with its lock.
func stateHash(ctx context.Context, data string, rebuild bool) ([]hashRow, error) {
	if _, err := os.Stat(filepath.Join(data, "broker")); err != nil {
		return nil, fmt.Errorf("%s is not a data directory of `sagalog dev`: %w", data, err)
	}
	broker, err := kafka.OpenBroker(kafka.BrokerConfig{Dir: filepath.Join(data, "broker"), LockFile: filepath.Join(data, "LOCK"), Logger: newLogger(true)})
	if err != nil {
		return nil, err
	}
	defer broker.Close()
	cluster, err := kafka.Connect(broker.ClusterConfig())
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	ns, err := node.ReadNamespace(ctx, cluster, "sagalog")
	if err != nil {
		return nil, err
	}
	store, err := projector.Open(filepath.Join(data, "state"), projector.Options{Namespace: ns.ID})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var rows []hashRow
	for p := range ns.Partitions {
		info, err := store.PartitionInfo(p)
		if err != nil {
			return nil, err
		}
		rows = append(rows, hashRow{Partition: p, Offset: info.Next, Hash: info.StateHash})
	}
	if !rebuild {
		return rows, nil
	}
	return rows, rebuildHashes(ctx, cluster, ns.ID, rows)
}

// rebuildHashes folds the log of each partition in a temporary store, so that a long one needs little memory.
func rebuildHashes(ctx context.Context, cluster *kafka.Cluster, namespace string, rows []hashRow) error {
	dir, err := os.MkdirTemp("", "sagalog-rebuild-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := projector.Open(dir, projector.Options{Namespace: namespace})
	if err != nil {
		return err
	}
	defer store.Close()
	for i := range rows {
		r := &rows[i]
		sum, err := node.Fold(ctx, cluster, store, node.FoldRange{Topic: kafka.Topics{Namespace: "sagalog"}.Events(), Partition: r.Partition, To: r.Offset})
		if err != nil {
			return fmt.Errorf("fold partition %d: %w", r.Partition, err)
		}
		r.Rebuilt = &sum
		fmt.Fprintf(os.Stderr, "partition %d folded to offset %d\n", r.Partition, r.Offset)
	}
	return nil
}
