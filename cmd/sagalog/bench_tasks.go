package main

import (
	"time"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/cobra"
)

func benchTasks() *cobra.Command {
	var c benchConfig
	var t bench.TasksConfig
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "Run tasks of five steps, and measure their rate, latency and cost",
		Long: `Run tasks of five steps, and print how many end a second, the time from when each was due to its end, and its cost in CPU, memory
and bytes.

Closed loop (--outstanding): that many tasks are always under way. It finds the highest rate of the engine. Open loop (--rate): that
many tasks are due each second, whether or not earlier ones have ended. It finds the latency at a given load. The default is a closed
loop of 1,000.

With --tail a share of the calls takes long, and the latencies of tasks without such a call are printed separately: they should not
depend on the tail. With --slow-factor the backends become slower in the middle, and the figures show how much was under way before
and after, and whether anything timed out.`,
		Example: `  sagalog bench tasks                                       # the highest rate, for 20 s
  sagalog bench tasks --rate 1000 --duration 1m             # latency at a given load
  sagalog bench tasks --outstanding 1 --latency 0           # one task on an idle system
  sagalog bench tasks --fsync -o json
  sagalog bench tasks --rate 200 --permits                  # what does a permit cost? compare with a run without --permits
  sagalog bench tasks --tasks 20000 --bytes                 # how many bytes does a task take, and where?
  sagalog bench tasks --items 1000                          # what does an item of a step with for cost?
  sagalog bench tasks --rate 500 --tail 1%:2s               # do slow calls hold up the others?
  sagalog bench tasks --slow-after 10s --slow-factor 10
  sagalog bench tasks --tasks 1000000 --duration 1h         # memory over a million finished tasks
  sagalog bench tasks --brokers 127.0.0.1:9092 --agents outside`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, &c, benchmark[*bench.TasksConfig]{&t, &t.Config, bench.Tasks})
		},
	}
	f := cmd.Flags()
	f.IntVar(&t.Outstanding, "outstanding", 0, "closed loop: tasks that are always under way, 1 to 1000000 (default 1000, unless --rate)")
	f.Float64Var(&t.Rate, "rate", 0, "open loop: tasks that are due each second; above zero, and 67108864 in a run at most")
	f.IntVar(&t.Tasks, "tasks", 0, "end after this many tasks, 67108864 at most, unless the measured time is over first")
	f.DurationVar(&c.Latency.SlowAfter, "slow-after", 10*time.Second, "when --slow-factor begins, counted from the start of the measured time, within --duration")
	f.BoolVar(&t.Permits, "permits", false, "give each task a concurrency key that no other task has, to measure what a permit costs beside a run without")
	f.BoolVar(&t.Limit, "limit", false, "make one step of each task need a permit of the same named limit, which delays no task, to measure what that costs")
	f.IntVar(&t.Items, "items", 0, "give each task one step with this many items, 1 to 10000, instead of five steps, 100 of a task at once; the default load is then fewer tasks, with 1,000 items under way")
	f.BoolVar(&t.Bytes, "bytes", false, "at the end, read all topics, rather than a sample of each, and show the bytes of a task by topic in full: keys, values, headers and their names")
	c.windowFlags(f, 3*time.Second, 20*time.Second)
	c.agentFlags(f)
	f.Lookup("slow-factor").Hidden = false
	c.flags(f)
	return cmd
}
