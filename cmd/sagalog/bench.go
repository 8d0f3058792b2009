package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/bench"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// benchConfig holds the flags that all benchmarks share.
type benchConfig struct {
	connection
	bench.Config
	format, tail string
	quiet        bool
}

func benchCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engine on this machine, and prove that nothing was lost or doubled",
		Long: `Measure the engine on this machine. Broker, engine, agents with mock backends, load and watcher run in this process, as in
` + "`sagalog dev`" + `, with their data in a temporary directory. With --brokers it uses your brokers, and --agents outside runs the
agents in another process.

Each task has five steps, one after another, and each step uses the output of the one before it (internal/bench/five.yaml). CPU
and memory are those of this process and of the processes that it starts. A latency counts from when a submission was due, so
waiting is not hidden. The time before the measured time (--warmup) does not count.

Every run ends by reading the log again: each acknowledged submission must have been accepted and ended exactly once, and
each call that an agent received must belong to one attempt. If not, the command names the tasks and exits with 1. It also
says whether other processes used the machine.

The temporary directory is made below TMPDIR (default /tmp) and removed at the end. A run writes about 15 KiB a task. If there is
too little room, or /tmp is in memory, set TMPDIR to another place, or name a directory to keep by --data. A directory or a
namespace that no benchmark made is refused before anything is written to it.

Ctrl-C ends the measured time early and prints the figures so far. A second Ctrl-C ends at once.`,
		Example: `  sagalog bench tasks
  sagalog bench tasks --rate 500 --duration 1m -o json
  sagalog bench submit --via http`,
	}
	group.AddCommand(benchTasks(), benchSubmit(), benchBacklog(), benchReplay(), benchTakeover(), benchPages(), benchAgents(), benchReaders())
	return group
}

// flags adds the flags of every benchmark.
func (c *benchConfig) flags(f *pflag.FlagSet) {
	c.connection.flags(f)
	c.namespaceFlag(f, "prefix of all topic names: up to 100 letters, digits, dots, dashes and underscores; an existing namespace must be a benchmark's (default sagalog on the broker of this process; with --brokers a new name, whose topics stay there)")
	f.StringVar(&c.Dir, "data", "", "directory of the data, which is kept; it is empty, does not exist yet, or is that of an earlier benchmark (default a temporary one below TMPDIR, which is removed)")
	f.Int32Var(&c.Partitions, "partitions", 8, "`number` of partitions of the namespace, 1 to 1000")
	f.BoolVar(&c.Fsync, "fsync", false, "make the broker of this process answer only when the data is on the disk")
	f.BoolVar(&c.ByPort, "by-port", false, "reach the broker of this process by TCP, as other processes do, and not in memory")
	f.DurationVar(&c.Drain, "drain", 5*time.Minute, "how long tasks may take to end after the measured time; above zero")
	f.BoolVar(&c.quiet, "quiet", false, "print no progress")
	f.StringVar(&c.Profile, "cpuprofile", "", "write a CPU profile of the measured time to this file")
	f.StringVar(&c.MemProfile, "memprofile", "", "write a profile of the memory in use at the end of the measured time to this file")
	f.StringVarP(&c.format, "output", "o", "table", "table or json")
	cli.WithoutVariable(f, "data") // these variables may name the data of an engine that is still needed
}

func (c *benchConfig) namespaceFlag(f *pflag.FlagSet, usage string) {
	f.StringVar(&c.Namespace, "namespace", "", usage)
	for _, name := range []string{"brokers", "namespace"} {
		cli.WithoutVariable(f, name)
	}
}

// windowFlags adds the flags of benchmarks that measure for a time.
func (c *benchConfig) windowFlags(f *pflag.FlagSet, warmup, duration time.Duration) {
	f.DurationVar(&c.Warmup, "warmup", warmup, "how long it runs before the measured time, counted from the first end of a task; zero or more")
	f.DurationVar(&c.Duration, "duration", duration, "length of the measured time; above zero")
}

// agentFlags adds the flags of benchmarks that run tasks.
func (c *benchConfig) agentFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Agents, "agents", bench.AgentsInside, "where the agents are: inside (this process), outside (another process, started here), running (elsewhere, by sagalog bench agents)")
	cli.WithoutVariable(f, "agents") // SAGALOG_AGENTS is a directory of agents
	c.backendFlags(f)
}

func (c *benchConfig) backendFlags(f *pflag.FlagSet) {
	f.IntVar(&c.Concurrency, "concurrency", 512, "calls of each agent at once, 1 to 10000")
	f.DurationVar(&c.Latency.Fixed, "latency", 10*time.Millisecond, "how long a call of a mock backend takes; zero or more")
	f.StringVar(&c.tail, "tail", "", "share of the calls that take longer, 0% to 100%, and their time, such as 1%:2s")
	f.Float64Var(&c.Latency.SlowFactor, "slow-factor", 0, "factor by which all backends slow down in the middle of the measured time, such as 10; above 1, a million at most")
	_ = f.MarkHidden("slow-factor") // bench tasks shows it; other benchmarks refuse it, but pass it to the agents that they start
}

// complete checks the flags and derives the rest of the configuration from them.
func (c *benchConfig) complete(cmd *cobra.Command) (err error) {
	switch {
	case c.format != "table" && c.format != "json" && cmd.Flags().Lookup("output") != nil:
		return usage("-o %q is not known; %s", c.format, events.Suggest(c.format, []string{"table", "json"}))
	case c.Agents != "" && !slices.Contains(bench.AgentPlaces, c.Agents):
		return usage("--agents %q is not known; %s", c.Agents, events.Suggest(c.Agents, bench.AgentPlaces))
	}
	if err := c.misplaced(cmd); err != nil {
		return err
	}
	if err := c.checkShared(cmd.Flags()); err != nil {
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
	return c.room()
}

// checkShared checks the flags that benchmarks and their agents share.
func (c *benchConfig) checkShared(f *pflag.FlagSet) (err error) {
	if c.Namespace != "" && !namespaceName.MatchString(c.Namespace) {
		return usage("--namespace %q cannot begin the names of topics: use up to 100 letters, digits, dots, dashes and underscores", c.Namespace)
	}
	if err := refuseZeros(f, "rate", "outstanding", "tasks", "items", "connections", "burst", "partitions", "concurrency", "duration", "drain"); err != nil {
		return err
	}
	c.Latency.TailShare, c.Latency.Tail, err = parseTail(c.tail)
	return err
}

// benchmark is one kind of run: its configuration, the part of it that all benchmarks share, and the function that measures.
type benchmark[B interface{ Validate() error }] struct {
	config B
	shared *bench.Config
	run    func(context.Context, B) (*bench.Result, error)
}

// measure checks the flags, runs a benchmark and prints the result.
func measure[B interface{ Validate() error }](cmd *cobra.Command, c *benchConfig, b benchmark[B]) error {
	if err := c.complete(cmd); err != nil {
		return err
	}
	*b.shared = c.Config
	if err := b.config.Validate(); err != nil {
		return usage("%s", err)
	}
	defer secondEnds(cmd.Context())()
	r, err := b.run(cmd.Context(), b.config)
	return c.report(cmd, r, err)
}

// room refuses a disk that is too full for any run.
func (c *benchConfig) room() error {
	dir := c.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	if f := spaceOf(dir, existing(dir)); f.Status == doctor.StatusFail {
		return fmt.Errorf("%s: make room there, or put the data elsewhere: TMPDIR names another place for temporary data, --data a directory to keep", f.What)
	}
	return nil
}

// connectionFlags returns the given flags of the connection, except the brokers, for another process. A password that was given as
// a flag is visible in ps already.
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

// report prints the result, even if the check refuted the run.
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

// exitAtOnce is the exit code that shells give a command that Ctrl-C ended.
const exitAtOnce = 130

// secondEnds makes a second Ctrl-C end everything at once and clean up. The first one only ends the measured time. The caller
// defers stop, which does not return once ending at once has begun: killed agents would otherwise make the run return an error,
// whose exit code could win the race against exitAtOnce.
func secondEnds(ctx context.Context) (stop func()) {
	var ending atomic.Bool
	unregister := context.AfterFunc(ctx, func() {
		second := make(chan os.Signal, 1)
		signal.Notify(second, os.Interrupt, syscall.SIGTERM)
		<-second
		ending.Store(true)
		fmt.Fprintln(os.Stderr, "sagalog: ending at once after a second Ctrl-C; nothing was checked, and there are no figures")
		bench.EndAtOnce(os.Stderr)
		os.Exit(exitAtOnce)
	})
	return func() {
		unregister()
		if ending.Load() {
			select {}
		}
	}
}
