package scheduler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a node without the files of its system knows the same zones

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cron"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// The keys of the object of a schedule. schedule.schema.json describes the same for editors; a test compares the two.
var scheduleKeys = []string{"schedule", "workflow", "version", "cron", "every", "time_zone", "overlap", "catch_up", "jitter", "input", "labels", "priority", "deadline"}

// DefaultCatchUp is the catch_up of a schedule that gives none: a takeover takes seconds, and an outage perhaps an hour.
const DefaultCatchUp = events.Duration(time.Hour)

// The bounds of the durations of a schedule.
const (
	minEvery   = events.Duration(time.Second)
	maxEvery   = events.Duration(366 * 24 * time.Hour)
	maxJitter  = events.Duration(24 * time.Hour)
	maxCatchUp = events.Duration(31 * 24 * time.Hour)
)

// scheduleVars is the variable of the expressions in the input of a schedule, and scheduleMembers are its members.
var (
	scheduleVars    = []string{"schedule"}
	scheduleMembers = []string{"due", "due_date", "previous_due"}
)

// ParseSchedule reads the object of a schedule in YAML or JSON and reports every fault at once, by place. The definition has all defaults
// filled in, and is nil if any fault is an error.
func ParseSchedule(file string, data []byte) (*events.ScheduleDefinition, []Fault) {
	all := &faults{}
	d := openDocument(file, data, all)
	if d == nil {
		return nil, all.sorted()
	}
	def := shapeSchedule(d)
	if len(data) > events.MaxScheduleBytes {
		d.fault(d.root, "", "a schedule has up to %d bytes, and this has %d: move the input into the workflow", events.MaxScheduleBytes, len(data))
	}
	if all.failed() {
		return nil, all.sorted()
	}
	return def, all.sorted()
}

// shapeSchedule checks keys, types and values.
func shapeSchedule(d *document) *events.ScheduleDefinition {
	def := &events.ScheduleDefinition{Overlap: events.OverlapSkip, CatchUp: DefaultCatchUp}
	m, ok := d.members(d.root, "", scheduleKeys, " with the key schedule")
	if !ok {
		return nil
	}
	for key, to := range map[string]*string{"schedule": &def.Schedule, "workflow": &def.Workflow} {
		if v, ok := m[key]; ok {
			*to = v.name()
		} else {
			d.fault(d.root, "", "%s is missing: the name of the %s", key, key)
		}
	}
	shapeDues(d, m, def)
	if v, ok := m["overlap"]; ok && v.oneOf(overlaps()...) {
		def.Overlap = events.Overlap(v.value.Value)
	}
	for _, x := range []struct {
		key  string
		to   *events.Duration
		most events.Duration
	}{{"catch_up", &def.CatchUp, maxCatchUp}, {"jitter", &def.Jitter, maxJitter}} {
		if v, ok := m[x.key]; ok {
			if *x.to = v.duration(); *x.to > x.most {
				v.fault("%s is longer than %s", *x.to, x.most)
			}
		}
	}
	if v, ok := m["jitter"]; ok && def.Every > 0 && def.Jitter >= def.Every {
		v.fault("jitter %s is not shorter than every %s", def.Jitter, def.Every)
	}
	shapeScheduled(m, def)
	return def
}

// overlaps returns the values of overlap.
func overlaps() (list []string) {
	for _, o := range events.Overlaps() {
		list = append(list, string(o))
	}
	return list
}

// shapeDues checks when a schedule is due.
func shapeDues(d *document, m map[string]member, def *events.ScheduleDefinition) {
	at, timed := m["cron"]
	every, spaced := m["every"]
	zone, zoned := m["time_zone"]
	switch {
	case timed && spaced:
		every.doc.fault(every.key, every.path, "a schedule has cron or every, not both")
	case !timed && !spaced:
		d.fault(d.root, "", `cron or every is missing: they say when the schedule is due, such as cron: "0 2 * * MON-FRI" or every: 15m`)
	}
	if timed {
		if text, ok := at.text(); ok {
			def.Cron = text
			if _, err := cron.Parse(text); err != nil {
				at.fault("%s", err)
			}
		}
	}
	if spaced {
		if def.Every = every.duration(); def.Every > 0 && def.Every < minEvery || def.Every > maxEvery {
			every.fault("%s is not between %s and %s", def.Every, minEvery, maxEvery)
		}
	}
	if !zoned {
		return
	}
	if text, ok := zone.text(); ok {
		def.TimeZone = text
		if _, err := time.LoadLocation(text); err != nil || text == "" || text == "Local" {
			zone.fault("%q is not a time zone such as Europe/Vienna or UTC", abbreviate(text))
		}
	}
}

// shapeScheduled checks what the tasks of a schedule get.
func shapeScheduled(m map[string]member, def *events.ScheduleDefinition) {
	if v, ok := m["version"]; ok {
		v.count(bounds{1, MaxVersions})
		_ = json.Unmarshal([]byte(v.value.Value), &def.Version) // count reports a fault
	}
	if v, ok := m["priority"]; ok {
		v.count(bounds{-events.MaxPriority, events.MaxPriority})
		_ = json.Unmarshal([]byte(v.value.Value), &def.Priority)
	}
	if v, ok := m["deadline"]; ok {
		if v.duration() > 0 {
			def.Deadline = v.value.Value
		}
	}
	if v, ok := m["labels"]; ok {
		o := &outline{doc: v.doc}
		o.shapeLabels(v)
		for _, l := range o.labels {
			if strings.Contains(l.value.Value, "${") {
				l.fault("the label of a schedule is a constant: the workflow can make labels from the input")
				continue
			}
			if def.Labels == nil {
				def.Labels = map[string]string{}
			}
			def.Labels[l.key.Value] = l.value.Value
		}
	}
	v, ok := m["input"]
	if !ok {
		return
	}
	setting{doc: v.doc, vars: scheduleVars, taskMembers: taskMembers}.template(v.value, v.path)
	raw, err := events.Marshal(value(v.value))
	if err != nil {
		v.fault("%s", err)
	}
	def.Input = raw
}

// zoneOf returns the time zone of a schedule.
func zoneOf(d *events.ScheduleDefinition) (*time.Location, error) {
	if d.TimeZone == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(d.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", d.Schedule, err)
	}
	return zone, nil
}

// NextDue returns the first due time of a schedule after an instant, zero if none exists. Those of every are its multiples since 1970
// began in UTC, so that neither an apply nor a takeover moves them.
func NextDue(d *events.ScheduleDefinition, after events.Instant) (events.Instant, error) {
	if d.Cron == "" {
		every := events.Instant(d.Every.Std().Milliseconds())
		if every <= 0 {
			return 0, fmt.Errorf("schedule %q has neither cron nor every", d.Schedule)
		}
		return (after/every + 1) * every, nil
	}
	e, err := cron.Parse(d.Cron)
	if err != nil {
		return 0, fmt.Errorf("schedule %q: %w", d.Schedule, err)
	}
	zone, err := zoneOf(d)
	if err != nil {
		return 0, err
	}
	next := e.Next(after.Time(), zone)
	if next.IsZero() {
		return 0, nil
	}
	return events.At(next), nil
}

// FireAt returns when the task of a due time is submitted: later by a part of the jitter that depends on the schedule and the due time
// alone.
func FireAt(d *events.ScheduleDefinition, due events.Instant) events.Instant {
	most := uint64(d.Jitter.Std().Milliseconds())
	if most == 0 {
		return due
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(events.ScheduleTask(d.Schedule, due))) // never fails
	return due + events.Instant(h.Sum64()%most)
}

// Occurrence returns the submission of a due time. previous is the due time before it that led to a task, zero if none exists.
func Occurrence(d *events.ScheduleDefinition, due, previous events.Instant) (*events.Submission, error) {
	s := &events.Submission{
		ID: events.ScheduleTask(d.Schedule, due), Workflow: d.Workflow, Version: d.Version, Priority: d.Priority,
		Labels: maps.Clone(d.Labels), Deadline: d.Deadline, Schedule: d.Schedule,
	}
	zone, err := zoneOf(d)
	if err != nil {
		return nil, err
	}
	s.Input = d.Input
	if bytes.Contains(d.Input, []byte("${")) {
		t, err := exprlang.Compile(d.Input, scheduleVars...)
		if err != nil {
			return nil, fmt.Errorf("the input: %w", err)
		}
		scope := exprlang.Borrow()
		defer scope.Return()
		scope.Set("schedule", scope.Object(occurrence{due.Time().In(zone), previous, zone}))
		if s.Input, err = t.Eval(scope); err != nil {
			return nil, fmt.Errorf("the input: %w", err)
		}
		s.Input = slices.Clone(s.Input)
	}
	return s, nil
}

// occurrence is the variable schedule.
type occurrence struct {
	due      time.Time
	previous events.Instant
	zone     *time.Location
}

// Member implements exprlang.Members.
func (o occurrence) Member(s *exprlang.Scope, name string) *exprlang.Node {
	switch name {
	case "due":
		return s.Text(o.due.Format(time.RFC3339))
	case "due_date":
		return s.Text(o.due.Format(time.DateOnly))
	case "previous_due":
		if o.previous == 0 {
			return s.Raw(nil)
		}
		return s.Text(o.previous.Time().In(o.zone).Format(time.RFC3339))
	}
	return nil
}

// Names implements exprlang.Members.
func (occurrence) Names() []string { return scheduleMembers }

// NextDue is the function of that name, for an owner.
func (*Scheduler) NextDue(d *events.ScheduleDefinition, after events.Instant) (events.Instant, error) {
	return NextDue(d, after)
}

// FireAt is the function of that name, for an owner.
func (*Scheduler) FireAt(d *events.ScheduleDefinition, due events.Instant) events.Instant {
	return FireAt(d, due)
}

// Occurrence is the function of that name, for an owner.
func (*Scheduler) Occurrence(d *events.ScheduleDefinition, due, previous events.Instant) (*events.Submission, error) {
	return Occurrence(d, due, previous)
}
