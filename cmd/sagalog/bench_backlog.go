package main

import (
	"time"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/cobra"
)

func benchBacklog() *cobra.Command {
	var c benchConfig
	var b bench.BacklogConfig
	cmd := &cobra.Command{
		Use:   "backlog",
		Short: "Let tasks wait: what a backlog of millions takes in memory",
		Long: `Submit tasks that nobody works on, as fast as the engine accepts them, and say what they take in memory while they wait:
RSS and live heap, sampled on the way, and their rise per million tasks in the second half, from which RSS with ten
million follows. No agent runs, so a few tasks start (64 in each partition) and all others wait.

What finished tasks take is told by ` + "`sagalog bench tasks --tasks 1000000 --duration 1h`" + `.`,
		Example: `  sagalog bench backlog --tasks 100000
  sagalog bench backlog --tasks 5000000 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.complete(cmd); err != nil {
				return err
			}
			b.Config = c.Config
			if err := b.Validate(); err != nil {
				return usage("%s", err)
			}
			defer secondEnds(cmd.Context())()
			r, err := bench.Backlog(cmd.Context(), b)
			return c.report(cmd, r, err)
		},
	}
	f := cmd.Flags()
	f.IntVar(&b.Tasks, "tasks", 1_000_000, "how many are to wait, 1 to 67108864")
	f.DurationVar(&b.Hold, "hold", 5*time.Second, "how long they are left waiting when all are there; zero or more")
	c.flags(f)
	return cmd
}
