package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/sagalog/sagalog/projector"
	"github.com/spf13/cobra"
)

// verifyConfig holds the flags of verify.
type verifyConfig struct {
	logPlace
	format, token        string
	stores, apis         []string
	ledgers              []string
	acknowledged, task   string
	partition            int32
	onePartition, atRest bool
	grace                time.Duration
	show                 int
}

func verifyCommand() *cobra.Command {
	var c verifyConfig
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove or refute the engine's promises from its log and other evidence",
		Long: `Read the log, the inputs, the dead letters and the work requests, and prove or refute the engine's promises: the state is
the fold of the log; one owner at each offset; every acknowledged submission is one accepted task, one dead letter or a
duplicate; each attempt has one outcome; every live task has something that will move it; undo is complete and in reverse
order; every effect belongs to an accepted fact. It works while the engine runs, and counts work under way
separately. The log of a stopped ` + "`sagalog dev`" + ` is in --data; that of ` + "`sagalog serve`" + ` is on --brokers.

It changes no fact and no state. But --data starts and stops the broker in that directory, which touches the broker's files, and
writes lock files. So check a copy of anything that you need as evidence.

--ledgers is a file, or a directory of files *.ndjson. Each file is named after the agent or service whose calls it holds, and
has one line for each call, in the order in which the service received them:
  {"identifier": "...", "task": "delivery-42", "step": "package", "operation": "do", "outcome": "done", "time": "2026-11-21T14:00:00Z"}
identifier is the idempotency key that the call carried, operation do or undo, outcome done (it took effect), repeated (a
success without a new effect), refused (it changed nothing) or unknown. The ledgers of ` + "`dronedelivery`" + ` need no conversion.
While the system runs, a call counts as "not there yet" if its task is under way, or if it is newer than the ledger's newest
time (or than the file, if the lines have no times). With --at-rest, when nothing is under way and the ledgers are complete, the
comparison is exact. Times are compared, so the clocks must agree.

--acknowledged is a file with a line for each submission that a producer saw acknowledged: {"id", "partition", "offset"}, or
the bare ID.

Exit codes: 0 proved; 1 refuted, with a sentence for each finding that names the place; 2 wrong usage, or nothing is refuted but
something could not be checked, such as a --task that is not in the log: the output says what and why.`,
		Example: `  sagalog verify --data ./sagalog-data
  sagalog verify --brokers k1:9092 --store /var/lib/sagalog --ledgers ./ledgers --acknowledged acks.ndjson -o json
  sagalog verify --brokers k1:9092 --task delivery-42`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.onePartition = cmd.Flags().Changed("partition")
			var err error
			if c.token, err = cli.Token(cmd.Flags()); err != nil {
				return unchecked(err)
			}
			return c.run(cmd)
		},
	}
	f := cmd.Flags()
	c.logPlace.Flags(f)
	f.Lookup("data").Usage = "data directory of a stopped sagalog dev: its log, and its state"
	f.StringSliceVar(&c.stores, "store", nil, "data directories of stopped nodes of sagalog serve, whose state is compared with the log")
	f.StringSliceVar(&c.apis, "api", nil, "URLs of running nodes, whose state hashes are compared with the log")
	cli.WithoutVariable(f, "api") // SAGALOG_API names the engine that the other commands talk to; evidence must be named explicitly
	cli.TokenFlag(f)
	f.StringSliceVar(&c.ledgers, "ledgers", nil, "ledgers of the services: files, or directories of *.ndjson")
	f.StringVar(&c.acknowledged, "acknowledged", "", "file of the submissions that were acknowledged")
	f.Int32Var(&c.partition, "partition", 0, "check only the partition with this `number`")
	f.StringVar(&c.task, "task", "", "explain this task line by line, and check only its partition")
	f.BoolVar(&c.atRest, "at-rest", false, "expect nothing under way: live tasks, unjudged inputs and unacknowledged effects refute")
	f.DurationVar(&c.grace, "grace", 30*time.Second, "how late an attempt or a start may be before it is a warning")
	f.IntVar(&c.show, "show", 5, "how many findings of each kind are printed")
	f.StringVarP(&c.format, "output", "o", "table", "table or json")
	return cmd
}

// unchecked is an error that leaves the question open. Its exit code is 2, so that 1 always means refuted.
func unchecked(err error) error {
	return cli.Unanswered(err)
}

func (c *verifyConfig) validate() error {
	switch {
	case c.format != "table" && c.format != "json":
		return usage("-o %q is not known; %s", c.format, events.Suggest(c.format, []string{"table", "json"}))
	case slices.ContainsFunc(c.stores, missing):
		return usage("%s does not exist (--store)", c.stores[slices.IndexFunc(c.stores, missing)])
	case slices.ContainsFunc(c.stores, stateless):
		return usage("%s holds no state (--store): give the --data of a stopped node", c.stores[slices.IndexFunc(c.stores, stateless)])
	case slices.ContainsFunc(c.stores, c.isData):
		return usage("--data compares the state in %s already: leave --store out", c.data)
	case c.data != "" && !missing(c.data) && !hasBroker(c.data):
		return usage("%s does not hold a log (--data): give the --brokers that do, and --store %s to compare the state", c.data, c.data)
	case c.show < 1 || c.grace < 0 || c.onePartition && c.partition < 0:
		return usage("--show must be at least 1, and --grace and --partition must not be negative")
	}
	for _, dir := range append([]string{c.data}, c.stores...) { // no inputs to compare the facts with, and no state of now
		if err := refusePast(dir); err != nil {
			return err
		}
	}
	return c.logPlace.validate()
}

func stateless(dir string) bool { return missing(filepath.Join(dir, "state")) }

// isData says whether a directory of --store is that of --data, which this process locks.
func (c *verifyConfig) isData(dir string) bool {
	data, err := os.Stat(c.data)
	if c.data == "" || err != nil {
		return false
	}
	info, err := os.Stat(dir)
	return err == nil && os.SameFile(data, info)
}

func (c *verifyConfig) run(cmd *cobra.Command) error {
	if err := c.validate(); err != nil {
		return err
	}
	var verdict error
	concluded := false
	err := uncut(cmd.ErrOrStderr(), func() error {
		return c.check(cmd.Context(), cmd.ErrOrStderr(), func(r *verify.Report) { verdict, concluded = c.conclude(cmd.OutOrStdout(), r), true })
	})
	if !concluded {
		return unchecked(err)
	}
	if err != nil { // from closing the log: the result is complete without it
		fmt.Fprintf(cmd.ErrOrStderr(), "sagalog: after the check: %v\n", err)
	}
	return verdict
}

// cutsInARow bounds how often a check begins again. Nodes look every minute for what they may delete, so a log that is cut more often than that while
// it is read is longer than can be read in a minute.
const cutsInARow = 5

// uncut reads the log, again if records were deleted between the moment when its bounds were asked for and the one when they were read: a namespace
// that is in use is cut now and then, which is no fault.
func uncut(progress io.Writer, read func() error) error {
	for n := 1; ; n++ {
		err := read()
		out, cut := errors.AsType[*kafkalog.CutError](err)
		switch {
		case !cut:
			return err
		case n == cutsInARow:
			return fmt.Errorf("the log was cut each of %d times while it was read: repeat it at a quieter time, or read a copy (sagalog replay): %w", n, err)
		}
		fmt.Fprintf(progress, "sagalog: %s partition %d was cut while it was read; reading again\n", out.Topic, out.Partition)
	}
}

// readUncut reads the log with a bar that shows how far that is, and again if it was cut meanwhile.
func readUncut(progress io.Writer, read func(*verifyBar) error) error {
	return uncut(progress, func() error {
		bar := newVerifyBar(progress)
		defer bar.close()
		return read(bar)
	})
}

// conclude prints the report, and returns the error with which the command ends, or nil.
func (c *verifyConfig) conclude(out io.Writer, report *verify.Report) (err error) {
	if c.format == "json" {
		err = printJSON(out, report)
	} else {
		err = printReport(out, report)
	}
	if err != nil {
		return unchecked(err)
	}
	switch {
	case report.Verdict == verify.Refuted:
		n := 0
		for _, r := range report.Checks {
			n += r.Findings
		}
		return fmt.Errorf("refuted: %s", cli.Counted(n, "finding"))
	case report.Verdict == verify.Incomplete:
		return unchecked(errors.New("not proved: something could not be examined, see above"))
	case report.TaskUnknown:
		return unchecked(fmt.Errorf("--task: the log has no task %q: it was never accepted, or has been forgotten", c.task))
	}
	return nil
}

// check opens the log and the evidence, and runs. It passes the report to use before it closes the log, because closing may be slow, or fail.
func (c *verifyConfig) check(ctx context.Context, progress io.Writer, use func(*verify.Report)) (err error) {
	cfg := verify.Config{Task: c.task, AtRest: c.atRest, Grace: c.grace, Show: c.show}
	if c.onePartition {
		cfg.Partition = &c.partition
	}
	// The ledgers come first: then the log holds an attempt for each of their calls.
	if cfg.Ledgers, err = readLedgers(c.ledgers); err != nil {
		return err
	}
	if cfg.Acknowledged, err = readAcknowledged(c.acknowledged); err != nil {
		return err
	}
	cluster, closeLog, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	ns, err := readNamespace(ctx, cluster, c.namespace)
	if err != nil {
		return err
	}
	if cfg.Stored, err = c.stored(ctx, ns.ID); err != nil {
		return err
	}
	shelves, err := newShelves(ns.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shelves.close()) }()
	bar := newVerifyBar(progress)
	cfg.Log, cfg.Topics = kafkalog.Log{Cluster: cluster}, kafkalog.Topics(c.namespace)
	cfg.Shelf, cfg.Progress, cfg.Now = shelves.of, bar.show, events.At(time.Now())
	report, err := verify.Run(ctx, cfg)
	bar.close()
	if err != nil {
		return err
	}
	use(report)
	return nil
}

// stored reads the states of stopped and running nodes before the ends of the log are requested.
func (c *verifyConfig) stored(ctx context.Context, namespaceID string) ([]verify.Stored, error) {
	var all []verify.Stored
	if c.data != "" {
		list, err := storedIn(filepath.Join(c.data, "state"), namespaceID)
		if err != nil && !errors.Is(err, projector.ErrNoStore) {
			return nil, err
		}
		all = append(all, list...)
	}
	for _, dir := range c.stores {
		unlock, err := embedded.Lock(filepath.Join(dir, lockFile))
		if err != nil {
			return nil, err
		}
		list, err := storedIn(filepath.Join(dir, "state"), namespaceID)
		if err = errors.Join(err, unlock()); err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	for _, url := range c.apis {
		list, err := storedAt(ctx, url, c.token)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

func storedIn(dir, namespaceID string) (list []verify.Stored, err error) {
	store, err := projector.OpenIntact(dir, projector.Options{Namespace: namespaceID})
	if errors.Is(err, projector.ErrDamaged) {
		return []verify.Stored{{Where: "the store " + dir, Damaged: err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, p := range store.Partitions() {
		info, err := store.PartitionInfo(p)
		if err != nil {
			return nil, err
		}
		rows, err := rowsHash(store, p)
		if err != nil {
			return nil, err
		}
		list = append(list, verify.Stored{Where: "the store " + dir, Partition: p, Offset: info.Next, Hash: info.StateHash, Rows: &rows})
	}
	return list, nil
}

func rowsHash(store *projector.Store, partition int32) (sum events.Hash, err error) {
	err = store.Rows(partition, func(kind events.Kind, id string, encoding []byte) error {
		sum = sum.Add(verify.HashEntity(kind, id, encoding))
		return nil
	})
	return sum, err
}

// readLedgers reads files and directories. It returns nil if none are given.
func readLedgers(paths []string) (*verify.Ledgers, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	l := verify.NewLedgers()
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--ledgers: %w", err)
		} else if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.ndjson")); err != nil {
				return nil, err
			}
			if len(files) == 0 {
				return nil, fmt.Errorf("%s holds no *.ndjson (--ledgers)", path)
			}
		}
		for _, file := range files {
			if err := readLedger(l, file); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return l, nil
}

func readLedger(l *verify.Ledgers, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return l.Read(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), f, events.At(info.ModTime()))
}

func readAcknowledged(file string) ([]verify.Acknowledged, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--acknowledged: %w", err)
	}
	defer f.Close()
	list, err := verify.ReadAcknowledged(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}
