package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/export"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exportConfig holds the flags of export.
type exportConfig struct {
	logPlace
	output
	to, format, since, until, workflow string
	noPayloads, void                   bool
	// objects are the labels whose values are objects.
	objects []string
}

const exportHelp = `

The log of a running or stopped cluster is on --brokers; that of a stopped ` + "`sagalog dev`" + ` is in --data (a running one is a broker too: give the address that it
prints). The files are in DIR/%[1]s/date=2026-11-29, one for each partition and day, and several for a busy day. Void records are left out. Sealed values stay sealed.

The export ends where the log ended when it began. The same range gives the same bytes. If you interrupt the command, repeat it with the same flags: it continues after the last
complete file.`

func exportCommand() *cobra.Command {
	g := &cobra.Command{Use: "export", Short: "Export the history to Parquet, CSV or JSON Lines, or for process mining"}
	for _, t := range []struct {
		name, short, long, example string
		run                        func(context.Context, export.Config) (export.Result, error)
	}{
		{
			"facts", "Export the history: one row per fact",
			`Export the history of a namespace as a table with one row a fact, for DuckDB, pandas, Spark and others. Columns: partition, offset (the key), time, epoch, sequence, owner,
type, task, run, incarnation, workflow, version, step, item, attempt, operation, by, cause_topic, cause_partition, cause_offset, cause, data (the body as JSON).`,
			`  sagalog export facts --brokers k1:9092 --to ./history
  sagalog export facts --data ./sagalog-data --to ./today --since 24h --format csv --no-payloads
  duckdb -c "select type, count(*) from './history/facts/*/*.parquet' group by type order by 2 desc"`,
			export.Facts,
		},
		{
			"attempts", "Export the attempts: one row per call of an agent or per child",
			`Export the attempts to do and to undo steps as a table with one row each: when it was ready, started and ended, what the agent said, and what the supervisor decided. One that
runs at the end of the range has no outcome. Columns: partition, task, run, incarnation, workflow, version, step, item, agent, function, child, operation, attempt, idempotency_key,
instance, ready_at, started_at, agent_started_at, agent_finished_at, ended_at, complete_by, outcome (completed, failed, timed_out), by, class, code, message, effect, verdict,
verdict_reason, next_at, policy_hash, queue_s, work_s, report_s, started_offset, ended_offset.`,
			`  sagalog export attempts --brokers k1:9092 --to ./history
  duckdb -c "select step, outcome, code, count(*), quantile_cont(work_s, 0.95) from './history/attempts/*/*.parquet' group by all order by 4 desc"`,
			export.Attempts,
		},
		{
			"tasks", "Export the tasks: one row per run",
			`Export the tasks as a table with one row for each run of each, as it was when the next run began, when the task was forgotten, or at the end of the range. The command folds the
log in a directory below --to, which it removes. Columns: partition, task, run, incarnation, workflow, version, definition_hash, state, paused, priority, labels, parent, parent_step,
schedule, due, source_topic, source_partition, source_offset, submitted_at, first_started_at, ended_at, deadline, deadline_passed, pivot_passed, ended_by (policy, operator, deadline,
parent), reason, failure_count, attempts, steps, facts, duration_s, queue_s, input, output. --since and --until are about the time of submission.`,
			`  sagalog export tasks --brokers k1:9092 --to ./history
  duckdb -c "select workflow, state, count(*), quantile_cont(duration_s, 0.95) from './history/tasks/*/*.parquet' group by all order by 3 desc"`,
			export.Tasks,
		},
		{
			"steps", "Export the steps: one row per step, or item, of a run",
			`Export the steps that have begun, of each run of each task, as they were at the same time as in the table of tasks. Columns: partition, task, run, incarnation, workflow, version,
step, item, kind (agent, child, items, wait), agent, function, child, state, operation_state (of the undo), needs, condition, ready_at, started_at, ended_at, complete_by, attempts,
undo_attempts, failure_count, cool_downs, touched, pivot, undoable, undone_at, error_class, error_code, error_message, reason, waited_s, worked_s, input, output. --since and --until
are about the submission of the task.`,
			`  sagalog export steps --brokers k1:9092 --to ./history
  duckdb -c "select step, state, count(*) from './history/steps/*/*.parquet' group by all order by 3 desc"`,
			export.Steps,
		},
	} {
		var c exportConfig
		cmd := &cobra.Command{
			Use: t.name, Short: t.short, Args: cobra.NoArgs, Example: t.example, Long: t.long + fmt.Sprintf(exportHelp, t.name),
			RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd, t.run) },
		}
		f := cmd.Flags()
		c.flags(f)
		f.StringVar(&c.format, "format", string(export.Parquet), "parquet, csv or jsonl")
		f.BoolVar(&c.noPayloads, "no-payloads", false, "leave empty what users put in: data, input, output, the messages of errors")
		if t.name == "facts" {
			f.BoolVar(&c.void, "void", false, "also write the void records, which do not count as facts, to DIR/void, each with the reason (column why)")
		}
		g.AddCommand(cmd)
	}
	g.AddCommand(exportXESCommand(), exportOCELCommand())
	return g
}

// flags are those of all exports.
func (c *exportConfig) flags(f *pflag.FlagSet) {
	c.logPlace.Flags(f)
	f.StringVar(&c.to, "to", "", "directory for the export")
	f.StringVar(&c.since, "since", "", "only rows from this time on: an instant, or a duration before now such as 24h")
	f.StringVar(&c.until, "until", "", "only rows before this time")
	f.StringVar(&c.workflow, "workflow", "", "only rows of tasks of this workflow")
	c.output.flags(f)
}

// exported is a call that exports a table.
type exported = func(context.Context, export.Config) (export.Result, error)

// run exports a table.
func (c *exportConfig) run(cmd *cobra.Command, table exported) (err error) {
	if err := cmp.Or(c.output.validate(), c.logPlace.validate()); err != nil {
		return err
	}
	if c.to == "" {
		return usage("--to is missing: give a directory for the export")
	}
	cfg := export.Config{Namespace: c.namespace, Dir: c.to, Format: export.Format(c.format), Workflow: c.workflow, NoPayloads: c.noPayloads, Objects: c.objects, Topics: kafkalog.Topics(c.namespace)}
	if err := export.CheckObjects(c.objects); err != nil {
		return usage("%s (--object)", err)
	}
	if cmd.Flags().Lookup("format") != nil && !slices.Contains(export.Formats, cfg.Format) {
		return usage("%q is not a format (--format): parquet, csv or jsonl", c.format)
	}
	now := time.Now()
	if cfg.Since, err = exportTime("since", c.since, now); err != nil {
		return err
	}
	if cfg.Until, err = exportTime("until", c.until, now); err != nil {
		return err
	}
	if c.since != "" || c.until != "" {
		cfg.Asked = c.since + " to " + c.until
	}
	if c.void && c.workflow != "" {
		return usage("--void cannot be combined with --workflow: a void record belongs to no task, and so to no workflow")
	}
	if cfg.Until != 0 && cfg.Until <= cfg.Since {
		return usage("--until is not later than --since: nothing would be exported")
	}
	defer boundMemory()()
	log, err := c.logPlace.read(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	if cfg.NamespaceID, err = uuid.Parse(log.namespace.ID); err != nil {
		return fmt.Errorf("the ID of the namespace: %w", err)
	}
	cfg.Log = log
	tables := []exported{table}
	if c.void {
		tables = append(tables, export.Voids)
	}
	var list []export.Result
	for _, table := range tables {
		res, err := exportTable(cmd, cfg, table)
		if err != nil {
			return err
		}
		list = append(list, res)
		cfg = res.Beside(cfg)
	}
	return printRows(cmd.OutOrStdout(), c.output, list, printExported)
}

// exportTable exports one table, and says what its rows do not.
func exportTable(cmd *cobra.Command, cfg export.Config, table exported) (res export.Result, err error) {
	err = readUncut(cmd.ErrOrStderr(), func(bar *verifyBar) (err error) {
		cfg.Progress = bar.count(cmd.Name())
		res, err = table(cmd.Context(), cfg)
		return err
	})
	switch {
	case errors.Is(err, context.Canceled):
		return res, fmt.Errorf("interrupted: repeat the command to continue after the last complete file in %s", res.Dir)
	case errors.Is(err, export.ErrOther):
		return res, usage("%s", err)
	case err != nil:
		return res, err
	}
	if res.Begins != 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "the log no longer has all facts from before %s\n", res.Begins)
	}
	if res.Rows == 0 && !res.Already {
		fmt.Fprintf(cmd.ErrOrStderr(), "nothing was written to %s: nothing in the log matches, or an earlier attempt had written all\n", res.Dir)
	}
	return res, nil
}

func printExported(out io.Writer, list []export.Result) error {
	for _, r := range list {
		if r.Already {
			fmt.Fprintf(out, "the export in %s is already complete: nothing to do; to export what is newer, give another directory\n", r.Dir)
			continue
		}
		if r.File != "" {
			fmt.Fprintf(out, "%s in %s\n", cli.Counted(int(r.Rows), r.Of), r.File)
			continue
		}
		fmt.Fprintf(out, "%s in %s, in %s\n", cli.Counted(int(r.Rows), "row"), cli.Counted(int(r.Files), "file"), r.Dir)
	}
	return nil
}

// exportTime reads an instant, or a duration before now.
func exportTime(flag, text string, now time.Time) (events.Instant, error) {
	if text == "" {
		return 0, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 && !strings.HasPrefix(text, "+") {
		return events.At(now.Add(-d)), nil
	}
	if d, ok := days(text); ok {
		return events.At(now.Add(-d)), nil
	}
	at, err := events.ParseInstant(text)
	if err != nil {
		return 0, usage("%q is neither an instant such as 2026-11-29T08:00:00Z nor a duration such as 24h (--%s)", text, flag)
	}
	return at, nil
}

// days reads a duration such as 7d, which time.ParseDuration does not know; false for any other text.
func days(text string) (time.Duration, bool) {
	number, isDays := strings.CutSuffix(text, "d")
	n, err := strconv.ParseUint(number, 10, 16)
	return time.Duration(n) * 24 * time.Hour, isDays && err == nil && n > 0
}
