package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/past"
	"github.com/spf13/cobra"
)

// diffConfig holds the flags of diff.
type diffConfig struct {
	logPlace
	output
	from, to, workflow, base string
	only                     []string
	limit                    int
	summary                  bool
}

// errDiffers ends diff with 1, as that of other tools.
var errDiffers = errors.New("the two moments differ")

func diffCommand() *cobra.Command {
	var c diffConfig
	cmd := &cobra.Command{
		Use: "diff", Short: "Show what differs between two moments: which tasks, which fields, by which facts", Args: cobra.NoArgs,
		Long: `Show what differs between two moments of a namespace: how many tasks are new, have ended and are live, and for each task that changed, each field with its value before
and after, and the last fact that changed it. The names of the fields are those of the state (events/FORMAT.md); those of a step begin with steps.PATH. The table
leaves out what every fact changes (facts, last, updated_at), and shows only the state of new and forgotten tasks; -o json has everything.

A moment is an instant, a duration before now, or the place of a fact. The log is on --brokers, or in the --data of a stopped dev or of a replay. A task that
was new or ended several times counts each time; one that was both submitted and forgotten in between has no line. Exit code: 0 if no task and no workflow
differs (with --only: no such field), 1 if one does, 2 if the moments could not be compared.`,
		Example: `  sagalog diff --brokers k1:9092 --from 20m --to 10m
  sagalog diff --data ./sagalog-data --from 2026-11-29T14:00:00Z --workflow order --only state,reason
  sagalog diff --brokers k1:9092 --from 3@1200 --summary`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	c.logPlace.Flags(f)
	f.StringVar(&c.from, "from", "", "the earlier moment: an instant, a duration before now such as 20m, or just after a fact such as 3@1200")
	f.StringVar(&c.to, "to", "0s", "the later moment")
	f.StringVar(&c.workflow, "workflow", "", "only tasks of this workflow")
	f.StringSliceVar(&c.only, "only", nil, "only these fields, and those below them: state,steps.charge includes steps.charge.attempt")
	f.IntVar(&c.limit, "limit", 20, "how many tasks the table shows at most; 0: all")
	f.BoolVar(&c.summary, "summary", false, "print the counts only")
	checkpointsFlag(f, &c.base)
	c.output.flags(f)
	return cmd
}

func (c *diffConfig) run(cmd *cobra.Command) (err error) {
	if err := errors.Join(c.output.validate(), c.logPlace.validate()); err != nil {
		return err
	}
	if c.from == "" {
		return usage("--from is missing: an instant, a duration before now such as 20m, or the place of a fact such as 3@1200")
	}
	cfg := past.DiffConfig{Namespace: c.namespace, Workflow: c.workflow, Summary: c.summary}
	if cfg.Checkpoints, err = c.logPlace.checkpoints(c.base); err != nil {
		return err
	}
	now, err := c.logPlace.now()
	if err != nil {
		return err
	}
	if cfg.From, err = past.Parse(c.from, now); err != nil {
		return usage("--from: %s", err)
	}
	if cfg.To, err = past.Parse(c.to, now); err != nil {
		return usage("--to: %s", err)
	}
	switch {
	case c.limit < 0:
		return usage("--limit %d is negative", c.limit)
	case c.summary && len(c.only) > 0:
		return usage("--only is about the changes, and --summary leaves them out: leave one out")
	}
	cluster, closeLog, err := c.logPlace.open(cmd.Context())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if _, err := readNamespace(cmd.Context(), cluster, c.namespace); err != nil {
		return err
	}
	var d *past.Difference
	err = behind(cmd.ErrOrStderr(), func(bar *verifyBar, warn func(string)) (err error) {
		cfg.Cluster, cfg.Progress, cfg.Warn = cluster, bar.count("diff"), warn
		d, err = past.Diff(cmd.Context(), cfg)
		return err
	})
	switch {
	case errors.Is(err, context.Canceled):
		return cli.Unanswered(errors.New("interrupted"))
	case errors.Is(err, past.ErrTooMany):
		return cli.Unanswered(fmt.Errorf("%w (--workflow, --summary)", err))
	case err != nil:
		return cli.Unanswered(err) // 1 always means that something differs
	}
	for _, says := range unknown(c, d) {
		fmt.Fprintln(cmd.ErrOrStderr(), says)
	}
	same := d.Touched == 0 && len(d.Definitions) == 0
	if len(c.only) > 0 {
		d.Changes = slices.DeleteFunc(d.Changes, func(x past.Change) bool { return !c.wants(x.Field) })
		same = len(d.Changes) == 0
	}
	if err := c.show(cmd.OutOrStdout(), d); err != nil {
		return err
	}
	if same {
		return nil
	}
	return cli.Silent(errDiffers)
}

// unknown says what was asked for and may be misspelled.
func unknown(c *diffConfig, d *past.Difference) (list []string) {
	if c.workflow != "" && !d.WorkflowKnown {
		list = append(list, fmt.Sprintf("there was no workflow %q at either moment (--workflow)", c.workflow))
	}
	for _, o := range c.only {
		if one := (&diffConfig{only: []string{o}}); !slices.ContainsFunc(d.Changes, func(x past.Change) bool { return one.wants(x.Field) }) {
			list = append(list, fmt.Sprintf("no field %s changed (--only)", o))
		}
	}
	return list
}

// wants says whether --only lets a field pass.
func (c *diffConfig) wants(field string) bool {
	return len(c.only) == 0 || slices.ContainsFunc(c.only, func(o string) bool { return field == o || strings.HasPrefix(field, o+".") })
}

func (c *diffConfig) show(w io.Writer, d *past.Difference) error {
	switch c.format {
	case "json":
		return json.NewEncoder(w).Encode(d)
	case "jsonl":
		for i := range d.Changes {
			if err := json.NewEncoder(w).Encode(&d.Changes[i]); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintf(w, "from %s (%s)   to %s (%s)   %s, %s touched\n", d.From.Time, places(d.From.Offsets), d.To.Time, places(d.To.Offsets), cli.Counted(int(d.Facts), "fact"), cli.Counted(d.Touched, "task"))
	fmt.Fprintf(w, "new %d   ended %s   live %s", d.New, counted(d.Ended), liveText(d))
	if d.Forgotten > 0 {
		fmt.Fprintf(w, "   forgotten %d", d.Forgotten)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Definitions)) {
		fmt.Fprintf(w, "   definitions: %s %d -> %d", name, d.Definitions[name][0], d.Definitions[name][1])
	}
	fmt.Fprintln(w)
	if c.summary {
		return nil
	}
	return c.table(w, d.Changes)
}

// table prints the changes of the first tasks.
func (c *diffConfig) table(w io.Writer, list []past.Change) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	tasks, last, left := 0, "", map[string]bool{}
	for i := range list {
		x := &list[i]
		if !tells(x, len(c.only) > 0) {
			continue
		}
		if x.Task != last && c.limit > 0 && tasks == c.limit {
			left[x.Task] = true
			continue
		}
		if x.Task != last {
			if tasks == 0 {
				fmt.Fprintln(t, "TASK\tFIELD\tFROM\tTO\tBY")
			}
			tasks, last = tasks+1, x.Task
		}
		from, to := values(x.From, x.To)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", cli.Printable(x.Task), cli.Printable(x.Field), from, to, x.By)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(left) > 0 {
		fmt.Fprintf(w, "... %s: --limit 0 shows all, --workflow and --only state show fewer, and --summary prints only the first two lines\n", cli.Counted(len(left), "more task"))
	}
	return nil
}

// tells says whether a change is worth a line of the table.
func tells(x *past.Change, asked bool) bool {
	switch {
	case asked:
		return true
	case x.Field == "facts", x.Field == "last", x.Field == "updated_at":
		return false
	}
	return x.Field == "state" || !x.Whole
}

// mostShown bounds the characters of a value in the table.
const mostShown = 40

// values are two values of a field for the table. Long ones are cut, so that the place where they begin to differ is shown.
func values(from, to string) (string, string) {
	a, b := []rune(plain(from)), []rune(plain(to))
	skip := 0
	for skip < min(len(a), len(b)) && a[skip] == b[skip] {
		skip++
	}
	if skip = skip - mostShown/2; skip < mostShown/2 {
		skip = 0
	}
	return cutAt(a, skip), cutAt(b, skip)
}

func plain(text string) string {
	var s string
	switch {
	case text == "":
		return "-"
	case json.Unmarshal([]byte(text), &s) == nil:
		return cmp.Or(s, `""`)
	}
	return text
}

func cutAt(r []rune, skip int) string {
	text := ""
	if skip > 0 {
		r, text = r[min(skip, len(r)):], "…"
	}
	if len(r) > mostShown {
		return cli.Printable(text + string(r[:mostShown-1]) + "…")
	}
	return cli.Printable(text + string(r))
}

// mostPlaces bounds the partitions whose offsets are printed.
const mostPlaces = 8

// places prints where each partition ends, in their order.
func places(offsets []int64) string {
	var list []string
	for p, o := range offsets {
		if p == mostPlaces {
			list = append(list, "...")
			break
		}
		list = append(list, strconv.FormatInt(o, 10))
	}
	return fmt.Sprintf("partitions 0-%d at %s", len(offsets)-1, strings.Join(list, ","))
}

func counted(by map[events.TaskState]int) string {
	sum, parts := 0, []string{}
	for _, s := range slices.Sorted(maps.Keys(by)) {
		sum += by[s]
		parts = append(parts, fmt.Sprintf("%s %d", s, by[s]))
	}
	if sum == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sum, strings.Join(parts, ", "))
}

func liveText(d *past.Difference) string {
	var from, to int
	states := map[events.TaskState]bool{}
	for s, n := range d.Live.From {
		from, states[s] = from+n, true
	}
	for s, n := range d.Live.To {
		to, states[s] = to+n, true
	}
	var parts []string
	for _, s := range slices.Sorted(maps.Keys(states)) {
		if d.Live.From[s] != d.Live.To[s] {
			parts = append(parts, fmt.Sprintf("%s %d -> %d", s, d.Live.From[s], d.Live.To[s]))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("%d -> %d", from, to)
	}
	return fmt.Sprintf("%d -> %d (%s)", from, to, strings.Join(parts, ", "))
}
