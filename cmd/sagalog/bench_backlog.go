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
		Short: "Let tasks wait, and measure the memory that a backlog of millions takes",
		Long: `Submit tasks that nobody works on, as fast as the engine accepts them, and print the memory that they take while they wait: RSS and
live heap over time, their rise per million tasks in the second half, and the RSS with ten million tasks at that rise. No agent
runs, so no step starts and all tasks wait.

` + "`sagalog bench tasks --tasks 1000000 --duration 1h`" + ` shows the memory of finished tasks.`,
		Example: `  sagalog bench backlog --tasks 100000
  sagalog bench backlog --tasks 5000000 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, &c, benchmark[*bench.BacklogConfig]{&b, &b.Config, bench.Backlog})
		},
	}
	f := cmd.Flags()
	f.IntVar(&b.Tasks, "tasks", 1_000_000, "number of waiting tasks, 1 to 67108864")
	f.DurationVar(&b.Hold, "hold", 5*time.Second, "how long the tasks wait once all are accepted; zero or more")
	c.flags(f)
	return cmd
}
