package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/spf13/cobra"
)

type loadFlags struct {
	count, first int
	rate         float64
	prefix       string
	seed         uint64
	apis         []string
	token        string
	brokers      []string
	namespace    string
	giveUp       time.Duration
	timeout      time.Duration
	quiet        bool
}

func newLoad() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Make deliveries: as NDJSON on stdout, or submitted to an engine",
		Long: `Makes --count submissions of the workflow drone-delivery with the IDs PREFIX1, PREFIX2, ... The same prefix and
seed make the same submissions, so that running it again submits nothing new. (A different seed with the
same prefix leads to conflicts.)

Without --api and --brokers they go to stdout, one a line, at --rate a second. With --api they are posted to
URL/v1/tasks in NDJSON batches; several URLs take turns, except those that failed lately. With --brokers they are
produced to NAMESPACE.submissions, without any node. Either way each submission is sent again until it is
acknowledged, even if the engine fails in between. If the engine falls behind the rate, overdue submissions are sent
as soon as possible. At the end a summary goes to stdout as a line of JSON. The exit code is 1 if a submission was
refused, or if none was acknowledged for the time of --give-up.`,
		Example: `  dronedelivery load --count 100 | sagalog task submit --from -
  dronedelivery load --count 50000 --rate 1000 --prefix monday- --api http://127.0.0.1:8642
  dronedelivery load --count 5000 --rate 50 --api http://127.0.0.1:8642,http://127.0.0.1:8643
  dronedelivery load --count 5000 --rate 50 --brokers 127.0.0.1:9092`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return cli.Usage("load: %w", err)
			}
			var err error
			if f.token, err = cli.Token(cmd.Flags()); err != nil {
				return err
			}
			if len(f.apis)+len(f.brokers) > 0 {
				return submit(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return printTasks(cmd.Context(), f, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&f.count, "count", "n", 100, "how many deliveries")
	flags.IntVar(&f.first, "first", 1, "number of the first delivery")
	flags.Float64Var(&f.rate, "rate", 0, "deliveries a second; 0 is as fast as possible")
	flags.StringVar(&f.prefix, "prefix", "delivery-", "prefix of the IDs")
	flags.Uint64Var(&f.seed, "seed", 1, "changes the deliveries' content")
	flags.StringSliceVar(&f.apis, "api", nil, "base `URL` of an engine to submit to, such as http://127.0.0.1:8642; separate several nodes by commas")
	cli.TokenFlag(flags)
	flags.StringSliceVar(&f.brokers, "brokers", nil, "`HOST:PORT` of the engine's Kafka, to submit there")
	flags.StringVar(&f.namespace, "namespace", events.DefaultNamespace, "with --brokers: namespace of the engine's topics")
	flags.DurationVar(&f.giveUp, "give-up", 10*time.Minute, "submitting: give up after this time without any acknowledgement")
	// Half a minute outlasts any start; a node that was stopped in the middle of an answer costs no more.
	flags.DurationVar(&f.timeout, "request-timeout", 30*time.Second, "submitting: how long an answer may take before a batch is sent again")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "submitting: no progress on stderr")
	return cmd
}

func (f loadFlags) validate() error {
	var all faults
	all.add(f.count < 0, "--count %d is negative", f.count)
	all.add(f.first < 0 || f.first > math.MaxInt-max(f.count, 0), "--first %d is out of range", f.first)
	all.add(!(f.rate >= 0) || math.IsInf(f.rate, 0), "--rate %v is not a number of deliveries a second", f.rate)
	all.add(f.giveUp <= 0, "--give-up %s is not above 0", f.giveUp)
	all.add(f.timeout <= 0, "--request-timeout %s is not above 0", f.timeout)
	all.add(len(f.apis) > 0 && len(f.brokers) > 0, "--api and --brokers exclude each other")
	return errors.Join(all...)
}

// task returns the i-th submission.
func (f loadFlags) task(i int) dronedelivery.Task {
	t := dronedelivery.Submission(i, f.seed)
	t.ID = f.prefix + strconv.Itoa(i)
	return t
}

// printTasks writes submissions to stdout. Each batch is flushed, so that a reader at the other end keeps the pace.
func printTasks(ctx context.Context, f loadFlags, stdout io.Writer) error {
	w := bufio.NewWriterSize(stdout, 1<<16)
	e := json.NewEncoder(w)
	return pace(ctx, f, batchMax, func(b batch) error {
		for i := b.from; i < b.to; i++ {
			if err := e.Encode(f.task(i)); err != nil {
				return fmt.Errorf("write submission: %w", err)
			}
		}
		if err := w.Flush(); err != nil {
			return fmt.Errorf("write submissions: %w", err)
		}
		return nil
	})
}
