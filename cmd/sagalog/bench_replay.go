package main

import (
	"github.com/sagalog/sagalog/internal/bench"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/cobra"
)

func benchReplay() *cobra.Command {
	var c benchConfig
	var r bench.ReplayConfig
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Rebuild the state of a stopped engine from its log, and measure the rate and the time until it is ready",
		Long: `Make a log of --facts by running tasks, stop the engine, and measure a rebuild:

  - all partitions are folded from nothing into an empty store, as many at once as there are cores; the state hashes must equal
    those that the engine left;
  - a node is started with the state that the engine left, until it is ready;
  - a node is started without any state, until it is ready.

With --data of an earlier run, or its --namespace on --brokers, it uses the existing log. Use only a copy of your own engine's log,
and confirm that with --copy: nodes are started on it and its state is rebuilt.`,
		Example: `  sagalog bench replay
  sagalog bench replay --facts 5000000 --data /tmp/log && sagalog bench replay --data /tmp/log -o json
  cp -r sagalog-data /tmp/copy && sagalog bench replay --data /tmp/copy --copy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.FactsSet = cmd.Flags().Changed("facts")
			if r.Copy && c.Dir == "" && len(c.brokers) == 0 {
				return usage("--copy is for an existing log: name it by --data, or by --brokers and --namespace")
			}
			return measure(cmd, &c, benchmark[*bench.ReplayConfig]{&r, &r.Config, bench.Replay})
		},
	}
	f := cmd.Flags()
	f.IntVar(&r.Facts, "facts", 100_000, "facts of the log that is made, 1 to 805306368; not for an existing log")
	f.BoolVar(&r.Copy, "copy", false, "use the log of --data or --namespace although no benchmark made it; only for a copy, since its state is rebuilt")
	f.IntVar(&c.Concurrency, "concurrency", 512, "calls of each agent at once, while the log is made, 1 to 10000")
	c.flags(f)
	cli.WithoutVariable(f, "copy") // it vouches for one log, so it must be given each time
	return cmd
}
