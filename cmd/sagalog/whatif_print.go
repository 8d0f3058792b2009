package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/whatif"
)

// whatifPrinter prints a report for people.
type whatifPrinter struct {
	out   io.Writer
	tasks string
}

func (p whatifPrinter) print(r *whatif.Report) {
	p.calibration(&r.Calibration)
	if e := r.Estimate; e != nil {
		p.table(e, r.Draws)
		p.origin(e)
		p.changed(e, r.Calibration.Children())
	}
}

// calibration prints the first block, which says whether there is another.
func (p whatifPrinter) calibration(c *whatif.Calibration) {
	fmt.Fprintf(p.out, "calibration   %s, own policy: same end %s   attempts %s   duration p95 %s", cli.Counted(c.Tasks, "task"), percent(c.SameEnd), signed(c.Attempts), signed(c.P95))
	if len(c.Differences) > 0 {
		var list []string
		for _, d := range c.Differences {
			list = append(list, fmt.Sprintf("%s by %s (such as %s)", grouped(float64(d.Tasks)), d.Reason, cli.Printable(d.Example)))
		}
		fmt.Fprintf(p.out, "   (differences: %s)", strings.Join(list, ", "))
	}
	fmt.Fprintln(p.out)
	for _, s := range c.NotReplayed {
		counts := ""
		if s.Counts {
			counts = ", counted as not reproduced"
		}
		example := s.Example
		if s.Detail != "" {
			example += ": " + s.Detail
		}
		fmt.Fprintf(p.out, "not replayed  %s: %s%s (such as %s)\n", grouped(float64(s.Tasks)), s.Reason, counts, cli.Printable(example))
	}
	if !c.Reproduces {
		fmt.Fprintln(p.out, "refused       the replay reproduces fewer than 95 % of the ends, so what it says about another policy would mean nothing. Choose --since and --until so that most tasks have ended and operators decided about few.")
	}
}

// rows of the table: what people call the ends.
var whatifEnds = []struct {
	state events.TaskState
	name  string
}{{events.TaskStateProcessed, "processed"}, {events.TaskStateUndone, "undone"}, {events.TaskStateError, "parked"}}

func (p whatifPrinter) table(e *whatif.Estimate, draws int) {
	w := tabwriter.NewWriter(p.out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "\thistory\twhat-if (estimate, %s, 5-95 %%)\n", cli.Counted(draws, "draw"))
	for _, row := range whatifEnds {
		at := e.Ends[row.state]
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", row.name, grouped(at.History), ranged(at, grouped), beside(relative(at)))
	}
	if e.Unknown.High > 0 {
		fmt.Fprintf(w, "unknown\t0\t%s\n", ranged(e.Unknown, grouped))
	}
	var agents []string
	for _, agent := range slices.SortedFunc(maps.Keys(e.Agents), func(a, b string) int {
		return cmp.Or(cmp.Compare(middle(e.Agents[b]), middle(e.Agents[a])), cmp.Compare(a, b))
	}) {
		if more := middle(e.Agents[agent]); more > 0 {
			agents = append(agents, fmt.Sprintf("%s +%s", agent, grouped(more)))
		} else if more < 0 {
			agents = append(agents, fmt.Sprintf("%s -%s", agent, grouped(-more)))
		}
	}
	fmt.Fprintf(w, "attempts (calls to agents)\t%s\t%s%s\n", grouped(e.Attempts.History), ranged(e.Attempts, grouped), beside(strings.Join(agents, ", ")))
	fmt.Fprintf(w, "task p50\t%s\t%s\n", spent(e.P50.History), ranged(e.P50, spent))
	fmt.Fprintf(w, "task p95\t%s\t%s\n", spent(e.P95.History), ranged(e.P95, spent))
	_ = w.Flush()
}

// origin prints what the estimate rests on.
func (p whatifPrinter) origin(e *whatif.Estimate) {
	drawn := 0.0
	var list []string
	for _, agent := range slices.SortedFunc(maps.Keys(e.Drawn), func(a, b string) int { return cmp.Or(cmp.Compare(e.Drawn[b], e.Drawn[a]), cmp.Compare(a, b)) }) {
		drawn += e.Drawn[agent]
		list = append(list, agent+" "+percent(e.Drawn[agent]))
	}
	fmt.Fprintf(p.out, "taken from history %s of answers; drawn %s", percent(e.Taken), percent(drawn))
	if len(list) > 0 {
		fmt.Fprintf(p.out, " (%s)", strings.Join(list, ", "))
	}
	fmt.Fprintln(p.out)
	for _, f := range e.Few {
		name := f.Agent
		if f.Function != "" {
			name += "." + f.Function
		}
		fmt.Fprintf(p.out, "too few samples: %s/%s (%d): shown as unknown\n", cli.Printable(name), f.Operation, f.Samples)
	}
	for _, why := range e.Why {
		fmt.Fprintf(p.out, "unknown: %s in some draw (such as %s): %s\n", cli.Counted(why.Tasks, "task"), cli.Printable(why.Example), why.Reason)
	}
}

// changed prints which tasks end otherwise, and what the estimate leaves out.
func (p whatifPrinter) changed(e *whatif.Estimate, children int) {
	var list []string
	for _, c := range e.Changed {
		more := ""
		if c.Tasks > len(c.Examples) {
			more = ", ..."
		}
		list = append(list, fmt.Sprintf("%s %s -> %s (%s%s)", grouped(float64(c.Tasks)), endName(c.From), endName(c.To), cli.Printable(strings.Join(c.Examples, ", ")), more))
	}
	if len(list) == 0 {
		list = []string{"none"}
	}
	where := "--tasks FILE writes all"
	if p.tasks != "" {
		where = "all are in " + cli.Printable(p.tasks)
	}
	fmt.Fprintf(p.out, "changed tasks: %s;  %s;  load effects on agents are not modelled\n", strings.Join(list, ", "), where)
	if children > 0 {
		fmt.Fprintf(p.out, "children are not modelled: the estimate leaves out %s with steps done by other tasks, or started by other tasks\n", cli.Counted(children, "task"))
	}
}

func endName(s events.TaskState) string {
	for _, row := range whatifEnds {
		if row.state == s {
			return row.name
		}
	}
	return "unknown"
}

// beside puts a text into the next column, if there is one.
func beside(text string) string {
	if text == "" {
		return ""
	}
	return "\t" + text
}

func middle(i whatif.Interval) float64 { return float64(int((i.Low+i.High)/2 - i.History)) }

func ranged(i whatif.Interval, show func(float64) string) string {
	if low, high := show(i.Low), show(i.High); low != high {
		return low + " .. " + high
	}
	return show(i.Low)
}

// relative is by how much a range differs from history; empty if history has none.
func relative(i whatif.Interval) string {
	if i.History == 0 {
		return ""
	}
	low, high := signed(i.Low/i.History-1), signed(i.High/i.History-1)
	if low == high {
		return low
	}
	return low + " .. " + high
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func signed(share float64) string {
	text := fmt.Sprintf("%+.1f %%", 100*share)
	if text == "-0.0 %" {
		return "+0.0 %"
	}
	return text
}

// grouped writes a count with commas.
func grouped(n float64) string {
	text := strconv.FormatFloat(n, 'f', 0, 64)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// spent writes seconds as people say them: two or three digits.
func spent(s float64) string {
	switch {
	case s < 1:
		return strconv.FormatFloat(1000*s, 'f', 0, 64) + " ms"
	case s < 10:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 600:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	}
	return events.Duration(time.Duration(s) * time.Second).String()
}
