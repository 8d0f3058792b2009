package main

import (
	"os"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/cobra"
)

func benchAgents() *cobra.Command {
	var c benchConfig
	var a bench.AgentsConfig
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Run the agents of a benchmark in a process of its own (--agents running)",
		Long: `Run the agents of the benchmarks, with their mock backends, until Ctrl-C, which lets the calls under way end.

Benchmarks have their agents in their own process, or start this one by themselves (--agents outside). Start it by hand to
have them on other machines, as many as you like: in one terminal the agents, in another the benchmark, with --agents running
and the same --brokers and --namespace, in any order. The agents go on for the next benchmark of that namespace; one that is
told --namespace again goes on with the topics that are there.

How long the calls take is told to the agents (--latency, --tail): give the benchmark the same --tail, so that it knows
which tasks met it. Calls are not counted, so the check does not know of calls too many.`,
		Example: `  sagalog bench agents --brokers k1:9092 --namespace try --latency 10ms
  sagalog bench tasks --brokers k1:9092 --namespace try --agents running --duration 30s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuse(cmd.Flags(), []elsewhere{{"slow-factor", a.Calls == "", "agents that sagalog bench tasks starts: no other is told when to slow"}}); err != nil {
				return err
			}
			if err := c.completeAgents(); err != nil {
				return err
			}
			reach, err := c.config(c.Log)
			if err != nil {
				return err
			}
			a.Cluster, a.Namespace, a.Concurrency, a.Latency, a.Log = reach, c.Namespace, c.Concurrency, c.Latency, c.Log
			switch {
			case a.Calls != "": // a benchmark started it, and ends it by the end of its input
				a.Orders, a.Instance = parent{os.Stdin}, "bench-agents"
			case !c.quiet:
				a.Progress = cmd.ErrOrStderr()
			}
			return bench.Agents(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	c.connection.flags(f)
	c.namespaceFlag(f, "that of the benchmark: what the names of all topics begin with")
	f.BoolVar(&c.quiet, "quiet", false, "say nothing but errors")
	c.backendFlags(f)
	f.StringVar(&a.Prefix, "prefix", "", "count the calls for tasks whose IDs begin so")
	f.StringVar(&a.Calls, "calls", "", "file for the counted calls; the process ends when its input does")
	for _, hidden := range []string{"prefix", "calls", "slow-factor"} {
		_ = f.MarkHidden(hidden) // of benchmarks that start it
	}
	return cmd
}

// completeAgents checks the flags of bench agents.
func (c *benchConfig) completeAgents() (err error) {
	switch {
	case len(c.brokers) == 0:
		return usage("--brokers is missing: the same as the benchmark's, such as --brokers 127.0.0.1:9092")
	case c.Namespace == "":
		return usage("--namespace is missing: the same as the benchmark's, such as --namespace try for both")
	case !namespaceName.MatchString(c.Namespace):
		return usage("--namespace %q is no beginning of topic names: letters, digits, dots, dashes and underscores, 100 at most", c.Namespace)
	case c.Concurrency < 1:
		return usage("--concurrency %d is not from 1 to 10000", c.Concurrency)
	}
	if c.Latency.TailShare, c.Latency.Tail, err = parseTail(c.tail); err != nil {
		return err
	}
	if err := c.Config.Validate(); err != nil {
		return usage("%s", err)
	}
	c.Log = newLogger(true)
	return nil
}
