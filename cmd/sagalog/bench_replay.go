package main

import (
	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/cobra"
)

func benchReplay() *cobra.Command {
	var c benchConfig
	var r bench.ReplayConfig
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Rebuild the state of a stopped engine from its log: facts a second, and the time until it is ready",
		Long: `Make a log of --facts by running tasks, stop the engine, and measure what a rebuild costs:

  - all partitions folded from nothing into an empty store, as many at once as there are cores; the state hashes must be those
    that the engine left;
  - a node started with the state that the engine left, until it is ready;
  - a node started without any state, until it is ready.

With --data of an earlier run, or a --namespace on --brokers, the log that is there is taken. Nodes are started on it and its
state is built anew: of a log that somebody needs, give a copy.`,
		Example: `  sagalog bench replay
  sagalog bench replay --facts 5000000 --data /tmp/log && sagalog bench replay --data /tmp/log -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.complete(cmd); err != nil {
				return err
			}
			r.Config = c.Config
			if err := r.Validate(); err != nil {
				return usage("%s", err)
			}
			defer secondEnds(cmd.Context())()
			result, err := bench.Replay(cmd.Context(), r)
			return c.report(cmd, result, err)
		},
	}
	f := cmd.Flags()
	f.IntVar(&r.Facts, "facts", 100_000, "facts of the log that is made")
	f.IntVar(&c.Concurrency, "concurrency", 512, "calls of each agent at once, while the log is made")
	c.flags(f)
	return cmd
}
