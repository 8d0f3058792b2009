package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/bench"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// benchConfig is the flags that all benchmarks share.
type benchConfig struct {
	connection
	bench.Config
	format, tail string
	quiet        bool
}

func benchCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engine on this machine, and prove that nothing was lost or doubled meanwhile",
		Long: `Measure the engine on this machine. Broker, engine, agents with mock backends, load and watcher run in this process, as in
` + "`sagalog dev`" + `, with their data in a temporary directory; or the brokers are those of --brokers, and the agents in another process.

What is measured is a workflow of five steps, one after another, each of which takes what the one before it gave
(internal/bench/five.yaml). CPU and memory are those of the whole process with all that is in it, and of the processes that
it starts. A latency counts from when a submission was due, so that waiting is not hidden. What comes before the
measured time (--warmup) is not counted.

Every run ends by reading the log again: each acknowledged submission must have been accepted and ended exactly once, and
each call that an agent received must belong to one attempt. If not, the command says which and exits with 1. It says
too when other processes used the machine meanwhile.

The temporary directory is in that of TMPDIR (default /tmp), and is removed at the end; a run writes about 15 KiB a task. Where
there is too little room, or /tmp is memory, have TMPDIR name another place, or --data a directory that stays. A directory
or a namespace that no benchmark made is refused before anything is written to it.

Ctrl-C ends the measured time early and tells what was measured so far; a second one ends at once.`,
		Example: `  sagalog bench tasks
  sagalog bench tasks --rate 500 --duration 1m -o json
  sagalog bench submit --via http`,
	}
	group.AddCommand(benchTasks(), benchSubmit(), benchBacklog(), benchReplay(), benchTakeover(), benchAgents())
	return group
}

// flags are those of every benchmark.
func (c *benchConfig) flags(f *pflag.FlagSet) {
	c.connection.flags(f)
	c.namespaceFlag(f, "what the names of all topics begin with, 100 letters, digits, dots, dashes and underscores at most; one that is there must be a benchmark's (default sagalog on the broker of this process, and a new name on --brokers, whose topics stay there)")
	f.StringVar(&c.Dir, "data", "", "directory of the data, which is kept; empty, not there yet, or of an earlier benchmark (default a temporary one below TMPDIR, which is removed)")
	f.Int32Var(&c.Partitions, "partitions", 8, "partitions of the namespace, 1 to 1000")
	f.BoolVar(&c.Fsync, "fsync", false, "have the broker of this process answer only when the disk has what it tells")
	f.BoolVar(&c.ByPort, "by-port", false, "reach the broker of this process by TCP, as other processes do, and not in memory")
	f.DurationVar(&c.Drain, "drain", 5*time.Minute, "how long what is under way may take to end, behind the measured time; above zero")
	f.BoolVar(&c.quiet, "quiet", false, "say nothing of the progress")
	f.StringVar(&c.Profile, "cpuprofile", "", "write a CPU profile of the measured time to this file")
	f.StringVar(&c.MemProfile, "memprofile", "", "write a profile of the memory that is alive at the end of the measured time to this file")
	f.StringVarP(&c.format, "output", "o", "table", "table or json")
	cli.WithoutVariable(f, "data") // the variables are those of an engine that somebody needs
}

func (c *benchConfig) namespaceFlag(f *pflag.FlagSet, usage string) {
	f.StringVar(&c.Namespace, "namespace", "", usage)
	for _, name := range []string{"brokers", "namespace"} {
		cli.WithoutVariable(f, name)
	}
}

// windowFlags are those of the benchmarks that measure for a time.
func (c *benchConfig) windowFlags(f *pflag.FlagSet, warmup, duration time.Duration) {
	f.DurationVar(&c.Warmup, "warmup", warmup, "how long it runs before the measured time, from the first task's end; zero or more")
	f.DurationVar(&c.Duration, "duration", duration, "how long is measured; above zero")
}

// agentFlags are those of the benchmarks that run tasks.
func (c *benchConfig) agentFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Agents, "agents", bench.AgentsInside, "where the agents are: inside (this process), outside (another process, started here), running (elsewhere, by sagalog bench agents)")
	cli.WithoutVariable(f, "agents") // SAGALOG_AGENTS is a directory of agents
	c.backendFlags(f)
}

func (c *benchConfig) backendFlags(f *pflag.FlagSet) {
	f.IntVar(&c.Concurrency, "concurrency", 512, "calls of each agent at once, 1 to 10000")
	f.DurationVar(&c.Latency.Fixed, "latency", 10*time.Millisecond, "how long a call of a mock backend takes; zero or more")
	f.StringVar(&c.tail, "tail", "", "share of the calls that take longer, 0% to 100%, and how long, such as 1%:2s")
	f.Float64Var(&c.Latency.SlowFactor, "slow-factor", 0, "bench tasks: make all backends so many times slower in the middle of the measured time, such as 10; above 1, a million at most")
	_ = f.MarkHidden("slow-factor") // bench tasks shows it; elsewhere it is refused by its name, and told to agents that are started
}

// complete checks the flags, and fills in what follows from them.
func (c *benchConfig) complete(cmd *cobra.Command) (err error) {
	switch {
	case c.format != "table" && c.format != "json" && cmd.Flags().Lookup("output") != nil:
		return usage("-o %q is not known; %s", c.format, events.Suggest(c.format, []string{"table", "json"}))
	case c.Namespace != "" && !namespaceName.MatchString(c.Namespace):
		return usage("--namespace %q is no beginning of topic names: letters, digits, dots, dashes and underscores, 100 at most", c.Namespace)
	case c.Partitions < 1 && cmd.Flags().Lookup("partitions") != nil:
		return usage("--partitions %d is not from 1 to 1000", c.Partitions)
	case c.Concurrency < 1 && cmd.Flags().Lookup("concurrency") != nil:
		return usage("--concurrency %d is not from 1 to 10000", c.Concurrency)
	case c.Duration <= 0 && cmd.Flags().Lookup("duration") != nil:
		return usage("--duration %s is not above zero", c.Duration)
	case c.Drain <= 0 && cmd.Flags().Lookup("drain") != nil:
		return usage("--drain %s is not above zero", c.Drain)
	case c.Agents != "" && !isOneOf(c.Agents, bench.AgentPlaces):
		return usage("--agents %q is not known; %s", c.Agents, events.Suggest(c.Agents, bench.AgentPlaces))
	}
	if err := errors.Join(c.misplaced(cmd), refuseZeros(cmd.Flags(), "rate", "outstanding", "tasks", "connections", "burst")); err != nil {
		return err
	}
	if c.Latency.TailShare, c.Latency.Tail, err = parseTail(c.tail); err != nil {
		return err
	}
	c.PartitionsSet = cmd.Flags().Changed("partitions")
	origin := originOf(cmd.Flags()).Here(time.Now())
	c.Origin, c.Log = &origin, newLogger(true)
	if len(c.brokers) > 0 {
		reach, err := c.config(c.Log)
		if err != nil {
			return err
		}
		c.Cluster = &reach
		if c.Namespace == "" {
			c.Namespace = "bench-" + uuid.NewString()[:8]
		}
		c.ChildFlags = connectionFlags(cmd.Flags())
	}
	if c.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program, to start it again: %w", err)
	}
	c.Stderr = cmd.ErrOrStderr()
	if !c.quiet {
		c.Progress = cmd.ErrOrStderr()
	}
	if err := c.Config.Validate(); err != nil {
		return usage("%s", err)
	}
	return c.room()
}

// room refuses a disk on which no run would come to its end.
func (c *benchConfig) room() error {
	dir := c.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	if f := spaceOf(dir, existing(dir)); f.Status == kafka.StatusFail {
		return fmt.Errorf("%s: make room there, or have the data elsewhere: TMPDIR names another place for temporary data, --data a directory that stays", f.What)
	}
	return nil
}

func isOneOf(s string, list []string) bool {
	for _, x := range list {
		if s == x {
			return true
		}
	}
	return false
}

// connectionFlags repeats the flags of the connection that were given, but for the brokers, to another process. A password
// that was given as a flag is visible in ps already.
func connectionFlags(f *pflag.FlagSet) (list []string) {
	f.Visit(func(x *pflag.Flag) {
		if strings.HasPrefix(x.Name, "tls") || strings.HasPrefix(x.Name, "sasl") {
			list = append(list, "--"+x.Name+"="+x.Value.String())
		}
	})
	return list
}

// parseTail reads SHARE%:DURATION.
func parseTail(s string) (share float64, d time.Duration, err error) {
	if s == "" {
		return 0, 0, nil
	}
	percent, long, ok := strings.Cut(s, "%:")
	if ok {
		share, err = strconv.ParseFloat(percent, 64)
		if err == nil {
			d, err = time.ParseDuration(long)
		}
	}
	if !ok || err != nil || !(share >= 0 && share <= 100) || d < 0 {
		return 0, 0, usage("--tail %q is not SHARE%%:DURATION, such as 1%%:2s", s)
	}
	return share / 100, d, nil
}

// report prints what was found, also where the check refuted it.
func (c *benchConfig) report(cmd *cobra.Command, r *bench.Result, err error) error {
	if r == nil {
		return err
	}
	var printed error
	if c.format == "json" {
		printed = printJSON(cmd.OutOrStdout(), r)
	} else {
		printed = r.Print(cmd.OutOrStdout())
	}
	return errors.Join(err, printed)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// exitAtOnce is what shells give a command that Ctrl-C has ended.
const exitAtOnce = 130

// secondEnds has the second Ctrl-C end everything at once, and leave nothing behind: the first one ends the measured time.
func secondEnds(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		second := make(chan os.Signal, 1)
		signal.Notify(second, os.Interrupt, syscall.SIGTERM)
		<-second
		fmt.Fprintln(os.Stderr, "sagalog: asked a second time, it ends at once: nothing is told and nothing was checked")
		bench.EndAtOnce(os.Stderr)
		os.Exit(exitAtOnce)
	})
}
