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
		Short: "Rebuild the state of a stopped engine from its log: facts a second, and the time until it is ready",
		Long: `Make a log of --facts by running tasks, stop the engine, and measure what a rebuild costs:

  - all partitions folded from nothing into an empty store, as many at once as there are cores; the state hashes must be those
    that the engine left;
  - a node started with the state that the engine left, until it is ready;
  - a node started without any state, until it is ready.

With --data of an earlier run, or its --namespace on --brokers, the log that is there is taken. A log of your own engine is
taken as a copy only: nodes are started on it, its state is built anew, and --copy says that nobody needs it.`,
		Example: `  sagalog bench replay
  sagalog bench replay --facts 5000000 --data /tmp/log && sagalog bench replay --data /tmp/log -o json
  cp -r sagalog-data /tmp/copy && sagalog bench replay --data /tmp/copy --copy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.complete(cmd); err != nil {
				return err
			}
			r.Config, r.FactsSet = c.Config, cmd.Flags().Changed("facts")
			if r.Copy && c.Dir == "" && len(c.brokers) == 0 {
				return usage("--copy is for a log that is there: name it by --data, or by --brokers and --namespace")
			}
			if err := r.Validate(); err != nil {
				return usage("%s", err)
			}
			defer secondEnds(cmd.Context())()
			result, err := bench.Replay(cmd.Context(), r)
			return c.report(cmd, result, err)
		},
	}
	f := cmd.Flags()
	f.IntVar(&r.Facts, "facts", 100_000, "facts of the log that is made, 1 to 805306368; not for a log that is there")
	f.BoolVar(&r.Copy, "copy", false, "take the log of --data or --namespace though no benchmark made it: it is a copy that nobody needs")
	f.IntVar(&c.Concurrency, "concurrency", 512, "calls of each agent at once, while the log is made, 1 to 10000")
	c.flags(f)
	cli.WithoutVariable(f, "copy") // it is about one log, and no habit
	return cmd
}
