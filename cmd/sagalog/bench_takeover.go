package main

import (
	"time"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/cobra"
)

func benchTakeover() *cobra.Command {
	var c benchConfig
	var t bench.TakeoverConfig
	cmd := &cobra.Command{
		Use:   "takeover",
		Short: "Kill a node under load, and measure how soon another node takes over its partitions",
		Long: `Run two nodes (` + "`sagalog serve`" + `, each in a separate process) and agents on one broker. Kill one of the nodes under load, as a power
cut would (kill -9), start it again, then kill the other one, and so on.

Each kill gives two figures for each partition of the node: the time from the kill to its successor's claim, and to the first fact
after the claim. The second counts only if a task was due before the claim; otherwise it would show when the next task came. A node
is killed only when no partition has moved for the time of --warmup, so that it is clear which partitions it owns. A p99 needs 100 figures. Ctrl-C prints
the figures so far.

At the end nothing may be lost or doubled. The new owner sends work again if it does not know whether it was sent. So an agent may
be called again for an attempt, with the same Idempotency-Key. Such calls count as repeated.`,
		Example: `  sagalog bench takeover
  sagalog bench takeover --kills 10 --rate 1000 --brokers 127.0.0.1:9092 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, &c, benchmark[*bench.TakeoverConfig]{&t, &t.Config, bench.Takeover})
		},
	}
	f := cmd.Flags()
	f.Float64Var(&t.Rate, "rate", 400, "tasks that are due each second")
	f.IntVar(&t.Kills, "kills", 4, "number of kills")
	f.DurationVar(&c.Warmup, "warmup", 2*time.Second, "how long both nodes work before each kill")
	c.agentFlags(f)
	c.flags(f)
	cmd.AddCommand(benchNode())
	return cmd
}
