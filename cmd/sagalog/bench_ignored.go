package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// elsewhere is a flag that this run would ignore, and the command that it belongs to.
type elsewhere struct {
	flag    string
	ignored bool
	belongs string
}

// refuse returns an error that names the given flags that would be ignored.
func refuse(f *pflag.FlagSet, list []elsewhere) error {
	var errs []error
	for _, x := range list {
		if !x.ignored || !f.Changed(x.flag) {
			continue
		}
		name := "--" + x.flag
		if v := cli.Variable(x.flag); os.Getenv(v) != "" { // it may have been meant for another command
			name += " (or $" + v + ")"
		}
		errs = append(errs, fmt.Errorf("%s would be ignored here; it belongs to %s", name, x.belongs))
	}
	if err := errors.Join(errs...); err != nil {
		return usage("%s", err)
	}
	return nil
}

// refuseZeros refuses zeros that were given explicitly: zero would silently mean the default.
func refuseZeros(f *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if x := f.Lookup(name); x != nil && x.Changed && (x.Value.String() == "0" || x.Value.String() == "0s") {
			return usage("--%s %s is not above zero; leave it out for the default", name, x.Value)
		}
	}
	return nil
}

// misplaced refuses the flags of all benchmarks that this one would ignore.
func (c *benchConfig) misplaced(cmd *cobra.Command) error {
	running := c.Agents == bench.AgentsRunning
	const started = "--agents inside and outside; for agents that run already give it to sagalog bench agents"
	const profiled = "benchmarks whose engine is in this process; other nodes serve profiles by sagalog serve --pprof"
	return refuse(cmd.Flags(), []elsewhere{
		{"latency", running, started}, {"tail", running, started}, {"concurrency", running, started},
		{"slow-factor", cmd.Name() != "tasks" && cmd.Name() != "agents", "sagalog bench tasks"},
		{"slow-after", c.Latency.SlowFactor == 0, "runs with --slow-factor"},
		{"cpuprofile", cmd.Name() == "takeover", profiled}, {"memprofile", cmd.Name() == "takeover", profiled},
	})
}
