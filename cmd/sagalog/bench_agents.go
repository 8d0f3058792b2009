package main

import (
	"os"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func benchAgents() *cobra.Command {
	var c benchConfig
	var a bench.AgentsConfig
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Run the agents of a benchmark in a separate process (--agents running)",
		Long: `Run the agents of the benchmarks, with their mock backends, until Ctrl-C. Calls under way are then still finished.

A benchmark has its agents in its own process, or starts this command itself (--agents outside). Run it by hand to have agents on
other machines, as many as you like. Then run the benchmark with --agents running and the same --brokers and --namespace. Either may
start first. The agents stay for the next benchmark of that namespace. A benchmark that names an
existing namespace uses its topics again.

--latency and --tail of this command set how long calls take. Give the benchmark the same --tail, so that it knows which tasks had
a slow call. It does not count the calls of these agents, so its check does not notice extra ones.`,
		Example: `  sagalog bench agents --brokers k1:9092 --namespace try --latency 10ms
  sagalog bench tasks --brokers k1:9092 --namespace try --agents running --duration 30s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuse(cmd.Flags(), []elsewhere{{"slow-factor", a.Calls == "", "agents that sagalog bench tasks starts: only they know when to slow down"}}); err != nil {
				return err
			}
			if err := c.completeAgents(cmd.Flags()); err != nil {
				return err
			}
			reach, err := c.config(c.Log)
			if err != nil {
				return err
			}
			a.Cluster, a.Namespace, a.Concurrency, a.Latency, a.Log = reach, c.Namespace, c.Concurrency, c.Latency, c.Log
			switch {
			case a.Calls != "": // a benchmark started it, and ends it by closing its input
				a.Orders, a.Instance = parent{os.Stdin}, "bench-agents"
			case !c.quiet:
				a.Progress = cmd.ErrOrStderr()
			}
			return bench.Agents(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	c.connection.flags(f)
	c.namespaceFlag(f, "prefix of all topic names, the same as the benchmark's")
	f.BoolVar(&c.quiet, "quiet", false, "print only errors")
	c.backendFlags(f)
	f.StringVar(&a.Prefix, "prefix", "", "count the calls for tasks whose IDs begin with this")
	f.StringVar(&a.Calls, "calls", "", "file for the counted calls; the process ends when its input ends")
	for _, hidden := range []string{"prefix", "calls", "slow-factor"} {
		_ = f.MarkHidden(hidden) // for benchmarks that start it
	}
	return cmd
}

// completeAgents checks the flags of bench agents.
func (c *benchConfig) completeAgents(f *pflag.FlagSet) error {
	switch {
	case len(c.brokers) == 0:
		return usage("--brokers is missing: the same as the benchmark's, such as --brokers 127.0.0.1:9092")
	case c.Namespace == "":
		return usage("--namespace is missing: the same as the benchmark's, such as --namespace try for both")
	}
	if err := c.checkShared(f); err != nil {
		return err
	}
	if err := c.Config.Validate(); err != nil {
		return usage("%s", err)
	}
	c.Log = newLogger(true)
	return nil
}
