package main

import (
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/cobra"
)

func benchSubmit() *cobra.Command {
	var c benchConfig
	var s bench.SubmitConfig
	var admission string
	cmd := &cobra.Command{
		Use:   "submit",
		Short: "Submit tasks, and measure how many a second are acknowledged and how soon",
		Long: `Submit tasks, and print how many a second are acknowledged, and the time from when each was due to its acknowledgement. An
acknowledged submission is durable, and at the end the log must hold each of them, accepted once.

Without --rate, --outstanding submissions are always unanswered (by Kafka), or each of --connections sends the next submission when
it has the answer (by HTTP). With --rate, that many are due each second.

With --burst, tasks run first, and then submissions come at --rate for that long, faster than they can be worked on. None may be
dropped.

With --admission closed no agent runs, so no step starts and all tasks wait: only submitting is measured. This is the default,
except with --burst.`,
		Example: `  sagalog bench submit
  sagalog bench submit --via http --connections 64
  sagalog bench submit --via ndjson --rate 50000
  sagalog bench submit --rate 50000 --burst 10s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch admission {
			case "":
				s.Closed = s.Burst == 0
			case "open", "closed":
				s.Closed = admission == "closed"
			default:
				return usage("--admission %q is not known; %s", admission, events.Suggest(admission, []string{"open", "closed"}))
			}
			if err := misplacedOfSubmit(cmd, &s); err != nil {
				return err
			}
			return measure(cmd, &c, benchmark[*bench.SubmitConfig]{&s, &s.Config, bench.Submit})
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Via, "via", bench.ViaKafka, "how to submit: kafka, http (one by one), ndjson (one HTTP body with many)")
	f.Float64Var(&s.Rate, "rate", 0, "submissions that are due each second; above zero, and 67108864 in a run at most (default as many as are answered)")
	f.DurationVar(&s.Burst, "burst", 0, "measure a burst of this length while tasks run; above zero; needs --rate, and --via kafka")
	f.IntVar(&s.Outstanding, "outstanding", 0, "by Kafka: unanswered submissions at once, 1 to 1000000, without --rate (default 5000); with --burst: tasks under way before it (default 200)")
	f.IntVar(&s.Connections, "connections", 0, "HTTP connections, 1 to 10000 (default 64; with ndjson 2)")
	f.StringVar(&admission, "admission", "", "open (tasks are worked on) or closed (they only wait)")
	c.windowFlags(f, 2*time.Second, 10*time.Second)
	c.agentFlags(f)
	c.flags(f)
	return cmd
}

// misplacedOfSubmit refuses the flags that this way of submitting would ignore.
func misplacedOfSubmit(cmd *cobra.Command, s *bench.SubmitConfig) error {
	steady := s.Via == bench.ViaKafka && s.Rate > 0 && s.Burst == 0
	const worked = "runs whose tasks are worked on: --admission open, or --burst"
	return refuse(cmd.Flags(), []elsewhere{
		{"outstanding", s.Via == bench.ViaHTTP || s.Via == bench.ViaNDJSON, "--via kafka; by HTTP it is --connections"},
		{"outstanding", steady, "runs without --rate, or with --burst: with --rate, submissions are sent when they are due"},
		{"connections", s.Via == bench.ViaKafka, "--via http and ndjson; by Kafka it is --outstanding"},
		{"duration", s.Burst > 0, "runs without --burst, which is the measured time"},
		{"agents", s.Closed, worked}, {"concurrency", s.Closed, worked}, {"latency", s.Closed, worked}, {"tail", s.Closed, worked},
	})
}
