package export

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sagalog/sagalog/events"
)

// XES exports the log as IEEE 1849 (XES) into the directory xes of cfg.Dir, as log.xes: a trace for each run of each task. Like in the table of tasks, bounds
// are about the submission, and a partition that was not completed is exported from its beginning again.
func XES(ctx context.Context, cfg Config) (Result, error) {
	return inOneFile(ctx, cfg, mined{"xes", "log.xes", "trace", func(to io.Writer, all func(func(*trace) error) error) (int64, error) {
		return writeXES(to, cfg.Namespace, all)
	}})
}

func writeXES(to io.Writer, namespace string, all func(func(*trace) error) error) (n int64, err error) {
	w := &xesWriter{to: to}
	w.begin(namespace)
	err = all(func(t *trace) error {
		n++
		w.trace(t)
		return w.err
	})
	w.text("</log>\n")
	return n, cmp.Or(err, w.err)
}

// xesBegins is how a log begins. The schema of the standard wants these elements in this order, and no namespace.
const xesBegins = xml.Header + `<log xes.version="1849.2016" xes.features="">
  <extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>
  <extension name="Lifecycle" prefix="lifecycle" uri="http://www.xes-standard.org/lifecycle.xesext"/>
  <extension name="Organizational" prefix="org" uri="http://www.xes-standard.org/org.xesext"/>
  <extension name="Time" prefix="time" uri="http://www.xes-standard.org/time.xesext"/>
  <global scope="trace">
    <string key="concept:name" value=""/>
  </global>
  <global scope="event">
    <string key="concept:name" value=""/>
    <string key="lifecycle:transition" value="complete"/>
    <date key="time:timestamp" value="1970-01-01T00:00:00.000Z"/>
  </global>
  <classifier name="Activity" scope="event" keys="concept:name"/>
  <classifier name="Transition" scope="event" keys="concept:name lifecycle:transition"/>
`

// xesWriter writes elements, until it fails.
type xesWriter struct {
	to  io.Writer
	err error
}

func (w *xesWriter) text(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.to, s)
	}
}

// quoted writes a text as the value of an attribute. What XML 1.0 forbids, such as control characters, becomes U+FFFD.
func (w *xesWriter) quoted(s string) {
	if w.err == nil {
		w.err = xml.EscapeText(w.to, []byte(s))
	}
}

// attribute writes an attribute of the kind, such as string. An empty value is left out.
func (w *xesWriter) attribute(indent, kind, key, value string) {
	if value == "" {
		return
	}
	w.text(indent + "<" + kind + ` key="`)
	w.quoted(key)
	w.text(`" value="`)
	w.quoted(value)
	w.text("\"/>\n")
}

func (w *xesWriter) begin(namespace string) {
	w.text(xesBegins)
	w.attribute("  ", "string", "concept:name", namespace)
	w.attribute("  ", "string", "lifecycle:model", "standard")
}

func (w *xesWriter) trace(t *trace) {
	const indent = "    "
	w.text("  <trace>\n")
	w.attribute(indent, "string", "concept:name", t.Name)
	w.attribute(indent, "string", "task", t.Task)
	w.attribute(indent, "int", "partition", strconv.Itoa(int(t.Partition)))
	w.attribute(indent, "int", "run", strconv.Itoa(t.Run))
	w.attribute(indent, "string", "incarnation", t.Incarnation)
	w.attribute(indent, "string", "workflow", t.Workflow)
	w.attribute(indent, "int", "version", strconv.Itoa(t.Version))
	w.attribute(indent, "string", "state", t.State)
	w.attribute(indent, "int", "priority", strconv.Itoa(t.Priority))
	w.attribute(indent, "string", "parent", t.Parent)
	w.attribute(indent, "string", "parent_step", t.ParentStep)
	w.attribute(indent, "string", "schedule", t.Schedule)
	for _, name := range slices.Sorted(maps.Keys(t.Labels)) {
		w.attribute(indent, "string", labelKey(name), t.Labels[name])
	}
	for i := range t.Events {
		w.event(&t.Events[i])
	}
	w.text("  </trace>\n")
}

func (w *xesWriter) event(e *event) {
	const indent = "      "
	w.text("    <event>\n")
	w.attribute(indent, "string", "concept:name", e.Activity)
	w.attribute(indent, "string", "lifecycle:transition", e.Lifecycle)
	w.attribute(indent, "date", "time:timestamp", events.Instant(e.Time).String())
	w.attribute(indent, "string", "org:resource", e.resource())
	w.attribute(indent, "string", "org:group", e.Agent)
	w.attribute(indent, "int", "offset", strconv.FormatInt(e.Offset, 10))
	for _, a := range e.details() {
		kind := "string"
		if a.number {
			kind = "int"
		}
		w.attribute(indent, kind, a.name, a.value)
	}
	w.text("    </event>\n")
}

// detail is an attribute of an event that no extension of the standard names.
type detail struct {
	name, value string
	number      bool
}

// details are those that an event can have, with empty values for what it does not have.
func (e *event) details() []detail {
	attempt, item, items := "", "", ""
	if e.Attempt > 0 {
		attempt = strconv.Itoa(int(e.Attempt))
	}
	if e.Item != nil {
		item = strconv.Itoa(int(*e.Item))
	}
	if e.Items != nil {
		items = strconv.Itoa(*e.Items)
	}
	return []detail{
		{"step", e.Step, false}, {"item", item, true}, {"items", items, true}, {"operation", e.Operation, false}, {"attempt", attempt, true}, {"function", e.Function, false},
		{"child", e.Child, false}, {"outcome", e.Outcome, false}, {"error_class", e.Class, false}, {"error_code", e.Code, false}, {"waits_for", e.Waits, false}, {"limit", e.Limit, false},
	}
}

// labelKey returns the key of a label. Keys are names of XML, so other characters become _xHEX_, with the number of the character.
func labelKey(label string) string {
	var b strings.Builder
	b.WriteString("label.")
	for _, r := range label {
		if r == '.' || r == '-' || r == '_' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, "_x%X_", r)
	}
	return b.String()
}
