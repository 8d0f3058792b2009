package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// printReport shows a report to a person.
func printReport(w io.Writer, r *verify.Report) error {
	var b strings.Builder
	for _, line := range r.Explained {
		fmt.Fprintln(&b, line)
	}
	if len(r.Explained) > 0 {
		fmt.Fprintln(&b)
	}
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-10s %-10s %s\n", c.Status, c.Check, c.What)
		if c.Do != "" {
			fmt.Fprintf(&b, "%21s to do: %s\n", "", c.Do)
		}
		for _, gone := range c.Trimmed {
			fmt.Fprintf(&b, "%21s trimmed: %s\n", "", gone)
		}
		for _, why := range c.Unable {
			fmt.Fprintf(&b, "%21s not examined: %s\n", "", why)
		}
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "refuted  %s\n", cli.Printable(f.String()))
	}
	for _, t := range r.Totals {
		if t.Total > 1 {
			fmt.Fprintf(&b, "         %d findings of the kind %s %s\n", t.Total, t.Check, t.Kind)
		}
	}
	for _, f := range r.Warnings {
		fmt.Fprintf(&b, "warning  %s\n", cli.Printable(f.String()))
	}
	n := r.Counts
	fmt.Fprintf(&b, "%s: %d records of %d partitions, %d facts in %d epochs (%d broken by a gap), void %s\n",
		r.Verdict, n.Records, len(r.Partitions), n.Facts, n.Epochs, n.BrokenEpochs, tally(n.Void))
	if n.Carried > 0 {
		fmt.Fprintf(&b, "  tasks older than a log that was cut %d\n", n.Carried)
	}
	fmt.Fprintf(&b, "  tasks %d: ended %s, live %d, parked %d, forgotten %d; attempts %d, of them to undo %d\n",
		n.Tasks, tally(n.Ended), n.Live, n.Parked, n.Swept, n.Attempts, n.Undos)
	fmt.Fprintf(&b, "  inputs %s; acknowledged %d\n", tally(n.Inputs), n.Acknowledged)
	for _, e := range []struct {
		name string
		n    verify.EffectCounts
	}{{"work requests", n.Work}, {"dead letters", n.DeadLetters}, {"sent home", n.Forwards}} {
		fmt.Fprintf(&b, "  %s %d: sent again %d, not there yet %d, never sent (timed out before) %d\n", e.name, e.n.Records, e.n.Repeats, e.n.NotYet, e.n.Unsent)
	}
	fmt.Fprintf(&b, "  state hashes in the log %d, states of nodes %d; calls in ledgers %d under %d identifiers, not there yet %d\n",
		n.StateHashes, n.Stores, n.Ledgers.Calls, n.Ledgers.Identifiers, n.Ledgers.NotYet)
	fmt.Fprintf(&b, "  %.1f s, %.0f records/s\n", r.Seconds, float64(n.Records)/max(r.Seconds, 0.001))
	_, err := io.WriteString(w, b.String())
	return err
}

func tally(of map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, of[k]))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// verifyBar shows on a terminal how much of a topic has been read.
type verifyBar struct {
	bars  *mpb.Progress
	bar   *mpb.Bar
	topic atomic.Value
}

func newVerifyBar(w io.Writer) *verifyBar {
	v := &verifyBar{}
	if !cli.IsTerminal(w) {
		return v
	}
	v.topic.Store("")
	v.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	v.bar = v.bars.AddBar(0, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return v.topic.Load().(string) + " " }), decor.CountersNoUnit("%d / %d")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageSpeed(0, "%.0f/s"), decor.Name("  "), decor.AverageETA(decor.ET_STYLE_GO)))
	return v
}

func (v *verifyBar) show(topic string, partition int32, done, end int64) {
	if v.bar == nil {
		return
	}
	v.topic.Store(fmt.Sprintf("%s/%d", topic, partition))
	v.bar.SetTotal(end, false)
	v.bar.SetCurrent(done)
}

// count returns what shows the progress of one thing.
func (v *verifyBar) count(what string) func(done, of int64) {
	if v.bar != nil {
		v.topic.Store(what)
	}
	return func(done, of int64) {
		if v.bar != nil {
			v.bar.SetTotal(of, false)
			v.bar.SetCurrent(done)
		}
	}
}

func (v *verifyBar) close() {
	if v.bar == nil {
		return
	}
	v.bar.Abort(true)
	v.bars.Wait()
}
