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
		Short: "Run tasks of five steps: how many a second, how long each takes, what it costs",
		Long: `Run tasks of five steps, and say how many a second end, how long each takes from when it was due to its end, and what it
costs in CPU, memory and bytes.

Closed loop (--outstanding): so many tasks are always under way; this finds the most that the engine can do. Open loop
(--rate): so many are due each second whatever becomes of them; this finds the latency at a given load. With both unset it
is a closed loop of 1,000.

With --tail a share of the calls takes long, and the latencies of the tasks that met none are told apart: they should be
as if there were no tail. With --slow-factor the backends become slower in the middle, and it is told what was under
way before and after, and whether anything timed out.`,
		Example: `  sagalog bench tasks                                       # the most, for 20 s
  sagalog bench tasks --rate 1000 --duration 1m             # latency at a given load
  sagalog bench tasks --outstanding 1 --latency 0           # one task on an idle system
  sagalog bench tasks --fsync -o json
  sagalog bench tasks --rate 500 --tail 1%:2s               # do slow calls hold up the others?
  sagalog bench tasks --slow-after 10s --slow-factor 10
  sagalog bench tasks --tasks 1000000 --duration 1h         # memory over a million finished ones
  sagalog bench tasks --brokers 127.0.0.1:9092 --agents outside`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.complete(cmd); err != nil {
				return err
			}
			t.Config = c.Config
			if err := t.Validate(); err != nil {
				return usage("%s", err)
			}
			defer secondEnds(cmd.Context())()
			r, err := bench.Tasks(cmd.Context(), t)
			return c.report(cmd, r, err)
		},
	}
	f := cmd.Flags()
	f.IntVar(&t.Outstanding, "outstanding", 0, "closed loop: tasks that are always under way, 1 to 1000000 (default 1000, unless --rate)")
	f.Float64Var(&t.Rate, "rate", 0, "open loop: tasks that are due each second; above zero, and 67108864 in a run at most")
	f.IntVar(&t.Tasks, "tasks", 0, "end after so many tasks, 67108864 at most, if the measured time is not over before")
	f.DurationVar(&c.Latency.SlowAfter, "slow-after", 10*time.Second, "when --slow-factor begins, from the begin of the measured time, within --duration")
	c.windowFlags(f, 3*time.Second, 20*time.Second)
	c.agentFlags(f)
	f.Lookup("slow-factor").Hidden = false
	c.flags(f)
	return cmd
}
