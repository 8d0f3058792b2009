package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
)

// Settings returns the page of the settings of a namespace.
func Settings() []byte {
	p := begin("Settings", "The settings belong to the namespace: all nodes decide by the same values. `sagalog namespace show` prints them, and `sagalog namespace set NAME=VALUE --by WHO`\n"+
		"changes them while nodes run. [Operating](../operating.md#settings) says what to think about.")
	defaults := events.DefaultSettings()
	var rows [][]string
	for _, x := range events.SettingList() {
		rows = append(rows, []string{code(x.Name), sentence(x.What), code(x.Text(defaults)), sentence(x.Range())})
	}
	p.table([]string{"setting", "what it is", "default", "value"}, rows)
	return p.bytes()
}

// Code is an exit code with what it means.
type Code struct {
	Code  int
	Means string
}

// ExitCodes returns the page of the exit codes.
func ExitCodes(all []Code) []byte {
	p := begin("Exit codes", "They mean the same in all commands. `go run` turns every exit code but 0 into 1, so build the program before you use them in scripts.")
	var rows [][]string
	for _, c := range all {
		rows = append(rows, []string{strconv.Itoa(c.Code), c.Means})
	}
	p.table([]string{"exit code", "means"}, rows)
	return p.bytes()
}

// Limit is a fixed limit.
type Limit struct {
	What  string
	Value int64
	Bytes bool
	// Note is a sentence that the table has no room for.
	Note string
}

// Limits returns the page of all limits.
func Limits(fixed []Limit) []byte {
	p := begin("Limits", "If a limit is exceeded, the error names it.")
	defaults := events.DefaultSettings()
	p.head(2, "Settings")
	p.text("These limits are [settings](settings.md) of the namespace. `held_for` among them says how long the requests are held.")
	var rows [][]string
	for _, x := range events.SettingList() {
		if strings.HasPrefix(x.What, "limit of ") {
			text := x.Text(defaults)
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				text = Limit{Value: n, Bytes: strings.HasSuffix(x.Name, "_bytes")}.text()
			}
			rows = append(rows, []string{strings.TrimPrefix(x.What, "limit of "), text, code(x.Name)})
		}
	}
	p.table([]string{"what", "default", "setting"}, rows)
	p.head(2, "Fixed")
	rows = nil
	var notes []string
	for _, l := range fixed {
		rows = append(rows, []string{l.What, l.text()})
		if l.Note != "" {
			notes = append(notes, "- "+l.Note)
		}
	}
	p.table([]string{"what", "at most"}, rows)
	p.text(strings.Join(notes, "\n"))
	return p.bytes()
}

// text writes a number with commas, or bytes in their unit.
func (l Limit) text() string {
	n, unit := l.Value, ""
	if l.Bytes {
		unit = " bytes"
		for _, u := range []string{" KiB", " MiB"} {
			if n%1024 != 0 {
				break
			}
			n, unit = n/1024, u
		}
	}
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text + unit
}

var described = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"),(?: unit: "[^"]*",)? constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// constant is the name of a label with a fixed value.
var constant = regexp.MustCompile(`(\w+)="`)

// typed finds the type of each metric in what an engine exposes.
var typed = regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`)

// typesOf returns the types of the metrics that have a value. The name says of the others whether they are counters; an engine that has
// worked has a value of each histogram.
func typesOf(exposed []byte) func(name string) string {
	types := map[string]string{}
	for _, m := range typed.FindAllSubmatch(exposed, -1) {
		types[string(m[1])] = string(m[2])
	}
	return func(name string) string {
		switch {
		case types[name] != "":
			return types[name]
		case strings.HasSuffix(name, "_total"):
			return "counter"
		}
		return "gauge"
	}
}

// Metrics returns the page of the metrics of a registry that has those of a node and of agents. exposed is what /metrics answered after a
// task had ended.
func Metrics(r *prometheus.Registry, exposed []byte) ([]byte, error) {
	typeOf := typesOf(exposed)
	all := make(chan *prometheus.Desc)
	go func() {
		r.Describe(all)
		close(all)
	}()
	var rows [][]string
	var wrong error
	for d := range all {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			wrong = fmt.Errorf("the description of a metric has a new form: %s", d)
			continue
		}
		name, _ := strconv.Unquote(m[1])
		help, _ := strconv.Unquote(m[2])
		if strings.HasPrefix(name, "sagalog_") {
			var labels []string
			for _, c := range constant.FindAllStringSubmatch(m[3], -1) {
				labels = append(labels, c[1])
			}
			for label := range strings.SplitSeq(m[4], ",") {
				if label = strings.Trim(label, " {}<>"); label != "" {
					labels = append(labels, label)
				}
			}
			rows = append(rows, []string{code(name), typeOf(name), codes(labels), sentence(help)})
		}
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	p := begin("Metrics", "Every metric of a node and of agents, with its type and its labels. Metrics of a partition come from the node that owns it, so\n"+
		"sums over all nodes are right. [Watching it](../monitoring.md) groups the important ones, and [alerts](../alerts.md) use them. Those of the Go runtime and of the process come in addition, and\n`sagalog_trace_spans_total` (`result`) where [traces](../opentelemetry.md) are exported.")
	p.table([]string{"metric", "type", "labels", "what it is"}, rows)
	return p.bytes(), wrong
}
