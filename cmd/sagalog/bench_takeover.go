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
		Short: "Kill a node under load: how long its partitions stand still",
		Long: `Run two nodes (` + "`sagalog serve`" + `, processes of their own) and agents on one broker, kill one of the nodes under load as a
power cut would (kill -9), start it again, and kill the other one, in turn.

Each kill gives one figure for each partition that the node had: the time from the kill to the first record of its
successor there (the claim), and to the first fact behind that. The latter counts where a task was due before the claim:
elsewhere it would tell when the next task came. A node is killed when no partition has moved for the --warmup, so that each
has the owner that is killed. A p99 is told of 100 figures or more. Ctrl-C tells what was measured so far.

At the end nothing may be lost or doubled. Work that was sent and not known to be sent is sent again, so an agent may be
called again for an attempt, with the same Idempotency-Key: such calls are counted as repeated.`,
		Example: `  sagalog bench takeover
  sagalog bench takeover --kills 10 --rate 1000 --brokers 127.0.0.1:9092 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.complete(cmd); err != nil {
				return err
			}
			t.Config = c.Config
			if err := t.Validate(); err != nil {
				return usage("%s", err)
			}
			defer secondEnds(cmd.Context())()
			r, err := bench.Takeover(cmd.Context(), t)
			return c.report(cmd, r, err)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&t.Rate, "rate", 400, "tasks that are due each second")
	f.IntVar(&t.Kills, "kills", 4, "how often a node is killed")
	f.DurationVar(&c.Warmup, "warmup", 2*time.Second, "how long both nodes work before each kill")
	c.agentFlags(f)
	c.flags(f)
	cmd.AddCommand(benchNode())
	return cmd
}
