package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/sagalog/sagalog/internal/verify"
)

// disagreement is one contradiction between log and ledgers, with its place.
type disagreement struct {
	Task    string `json:"task,omitempty"`
	Service string `json:"service,omitempty"`
	// Line is the line in the service's ledger, from 1.
	Line int    `json:"line,omitzero"`
	Step string `json:"step,omitempty"`
	What string `json:"what"`
}

// String returns it in one line.
func (d disagreement) String() string {
	var parts []string
	if d.Task != "" {
		parts = append(parts, fmt.Sprintf("task %q", d.Task))
	}
	if d.Service != "" {
		parts = append(parts, "ledger of "+d.Service)
	}
	if d.Line > 0 {
		parts = append(parts, fmt.Sprintf("line %d", d.Line))
	}
	if d.Step != "" {
		parts = append(parts, "step "+d.Step)
	}
	return strings.Join(append(parts, d.What), ": ")
}

// known is the operation of a task that an identifier refers to.
type known struct {
	story *story
	doing *doing
}

// comparison holds both sides.
type comparison struct {
	book    *logBook
	entries []*entry
	// byKey holds the operations in the log, calls the ledger lines, both by identifier.
	byKey map[string]known
	calls map[string][]*entry
	world world
	found []disagreement
	// ends counts the deliveries by how they ended, ledgers the lines by service.
	ends    map[string]int
	ledgers map[string]*ledgerCounts
	// verified is what package verify found in the log, alerts are the records that owners wrote to the topic of alerts, and
	// effects counts the records that they wrote to topics other than events.
	verified *verify.Report
	alerts   []alert
	effects  map[string]effectCounts
	// submitted is how many deliveries had to be accounted for.
	submitted int
}

// ledgerCounts are the figures of one ledger in the summary.
type ledgerCounts struct {
	Lines   int `json:"lines"`
	Applied int `json:"applied"`
	Undone  int `json:"undone"`
	Refused int `json:"refused"`
	Failed  int `json:"failed"`
	Hung    int `json:"hung"`
	// Repeats are calls of an attempt that was called before.
	Repeats int `json:"repeats"`
}

func newComparison(book *logBook, entries []*entry, alerts []alert, verified *verify.Report) *comparison {
	c := &comparison{
		book: book, entries: entries, alerts: alerts, verified: verified, byKey: map[string]known{}, calls: map[string][]*entry{}, world: world{},
		ends: map[string]int{}, ledgers: map[string]*ledgerCounts{}, effects: map[string]effectCounts{
			"work": effectCountsOf(verified.Counts.Work), "dead_letters": effectCountsOf(verified.Counts.DeadLetters),
			"forwards": effectCountsOf(verified.Counts.Forwards),
		},
	}
	for _, s := range dronedelivery.Services() {
		c.ledgers[s] = &ledgerCounts{}
	}
	for _, s := range book.stories {
		for _, d := range s.doings {
			c.byKey[s.key(c.book.namespace, d.operation)] = known{s, d}
		}
	}
	return c
}

func (c *comparison) add(d disagreement) { c.found = append(c.found, d) }

// run compares everything. ids are the submitted ones, nil for those in the log.
func (c *comparison) run(ids []string, allowParked bool) {
	for _, f := range c.verified.Findings {
		c.add(disagreement{Task: f.Task, Step: f.Step, What: verify.Finding{Check: f.Check, Place: f.Place, What: f.What}.String()})
	}
	c.compareAlerts()
	for _, e := range c.entries {
		c.calls[e.IdempotencyKey] = append(c.calls[e.IdempotencyKey], e)
	}
	seen := map[string]bool{}
	for _, e := range c.entries {
		c.line(e, seen)
	}
	if ids == nil {
		ids = slices.Sorted(maps.Keys(c.book.stories))
	}
	c.submitted = len(ids)
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
		s := c.book.stories[id]
		if s == nil || s.submitted == 0 {
			c.ends["lost"]++
			c.add(disagreement{Task: id, What: "was submitted, but the log never accepted it"})
			continue
		}
		c.ending(s, allowParked)
	}
	for _, id := range slices.Sorted(maps.Keys(c.book.stories)) {
		if !wanted[id] {
			c.add(disagreement{Task: id, What: "is in the log, but was never submitted"})
		}
		c.story(c.book.stories[id])
	}
}

// ending counts the endings of deliveries.
func (c *comparison) ending(s *story, allowParked bool) {
	switch s.end {
	case events.NameTaskProcessed:
		c.ends["processed"]++
	case events.NameTaskUndone:
		c.ends["undone"]++
	case events.NameTaskParked:
		c.ends["parked"]++
		if !allowParked {
			c.add(disagreement{Task: s.id, What: "is parked"})
		}
	default:
		c.ends["open"]++
		c.add(disagreement{Task: s.id, What: "has not ended"})
	}
}

// line compares one call with the log, and with the lines before it.
func (c *comparison) line(e *entry, seen map[string]bool) {
	n := c.ledgers[e.service]
	n.Lines++
	switch {
	case e.Fault == dronedelivery.Hang:
		n.Hung++
	case e.Fault == dronedelivery.Fail, e.Fault == dronedelivery.Failed, e.Fault == dronedelivery.Late && e.Status != 0:
		n.Failed++
	case e.Status >= 400:
		n.Refused++
	}
	if e.Applied && e.operation() == events.Undo {
		n.Undone++
	} else if e.Applied {
		n.Applied++
	}
	at := fmt.Sprintf("%s/%d", e.IdempotencyKey, e.Attempt)
	if seen[at] {
		n.Repeats++
	}
	seen[at] = true
	wrong := func(format string, args ...any) {
		c.add(disagreement{Task: e.task, Service: e.service, Line: e.number, What: fmt.Sprintf(format, args...)})
	}
	if what := c.world.fold(e); what != "" {
		wrong("%s", what)
	}
	k, ok := c.byKey[e.IdempotencyKey]
	if !ok {
		wrong("the identifier %q belongs to nothing in the log", e.IdempotencyKey)
		return
	}
	if k.story.id != e.task {
		wrong("the identifier is that of step %s of task %q", k.doing.step, k.story.id)
		return
	}
	if k.doing.agent != e.service || k.doing.op != e.operation() || e.Run != k.doing.run {
		wrong("%s in run %d with the identifier of the %s of step %s (agent %s)", e.Method, e.Run, k.doing.op, k.doing.step, k.doing.agent)
	}
	if k.doing.attempt(e.Attempt) == nil {
		wrong("attempt %d of the %s of step %s is not in the log, which holds %d", e.Attempt, k.doing.op, k.doing.step, len(k.doing.attempts))
	}
	if id, err := url.PathUnescape(e.Path[strings.LastIndexByte(e.Path, '/')+1:]); err != nil || id != e.task {
		wrong("the path %s is not the one of the task", e.Path)
	}
}

// story compares a delivery with the calls made for it.
func (c *comparison) story(s *story) {
	for _, d := range sorted(s.doings) {
		for _, a := range d.attempts {
			c.attempt(s, d, a)
		}
		if d.op == events.Do {
			c.effect(s, d)
		}
	}
}

// sorted makes the order of disagreements the same each time.
func sorted(doings map[operation]*doing) []*doing {
	return slices.SortedFunc(maps.Values(doings), func(a, b *doing) int {
		return cmp.Or(strings.Compare(a.step+string(a.op), b.step+string(b.op)), a.run-b.run)
	})
}

// attempt compares one attempt's outcome with the answers of its service.
func (c *comparison) attempt(s *story, d *doing, a *attempt) {
	wrong := func(line int, format string, args ...any) {
		c.add(disagreement{Task: s.id, Service: d.agent, Line: line, Step: d.step,
			What: fmt.Sprintf("%s, attempt %d: ", d.op, a.number) + fmt.Sprintf(format, args...)})
	}
	var calls []*entry
	for _, e := range c.calls[s.key(c.book.namespace, d.operation)] {
		if e.Attempt == a.number && e.task == s.id {
			calls = append(calls, e)
		}
	}
	status := func(want int) bool {
		return slices.ContainsFunc(calls, func(e *entry) bool { return e.Status == want })
	}
	switch a.outcome {
	case events.NameStepCompleted:
		if !slices.ContainsFunc(calls, (*entry).ok) { // a call that was broken off has status 0
			wrong(0, "the log says completed, but no call was answered with 2xx")
		}
	case events.NameCompensated:
		if !slices.ContainsFunc(calls, (*entry).undid) {
			wrong(0, "the log says undone, but no call was answered with 2xx or 404")
		}
		c.undoneAfter(s, d, calls, wrong)
	case events.NameStepFailed, events.NameCompensationFailed:
		var code int
		if _, err := fmt.Sscanf(a.code, "http_%d", &code); err == nil && !status(code) && !broken(code, calls) {
			wrong(0, "the log says %s, but no call was answered with that status", a.code)
		}
	}
	for _, e := range calls {
		if a.none && e.Applied {
			wrong(e.number, "the agent reported that it changed nothing, but it took effect")
		}
	}
}

// broken says whether the status may be the answer of a proxy whose connection to the service broke.
func broken(code int, calls []*entry) bool {
	return code == http.StatusBadGateway && slices.ContainsFunc(calls, func(e *entry) bool { return e.Status == 0 || e.Fault == dronedelivery.Cut })
}

// undoneAfter checks that nothing of the do took effect after the undo that succeeded.
func (c *comparison) undoneAfter(s *story, d *doing, calls []*entry, wrong func(int, string, ...any)) {
	undo := 0
	for _, e := range calls {
		if e.undid() {
			undo = max(undo, e.number)
		}
	}
	for _, e := range c.calls[s.key(c.book.namespace, operation{d.step, events.Do, d.run})] {
		if e.service == d.agent && e.Applied && undo > 0 && e.number > undo {
			wrong(e.number, "the do took effect after its undo in line %d", undo)
		}
	}
}

// effect checks the effect that remains at the service when the delivery has ended.
func (c *comparison) effect(s *story, d *doing) {
	if !s.ended() && !d.past {
		return
	}
	key := s.key(c.book.namespace, d.operation)
	var last *entry
	there := false
	for _, e := range c.calls[key] {
		if e.service == d.agent && e.task == s.id {
			last = e
			there = there || c.world.of(e).by == key
		}
	}
	line := 0
	if last != nil {
		line = last.number
	}
	wrong := func(what string) {
		c.add(disagreement{Task: s.id, Service: d.agent, Line: line, Step: d.step, What: what})
	}
	switch undone := s.end == events.NameTaskUndone && !d.past; {
	case d.past && there && d.undoable:
		wrong(fmt.Sprintf("the step was done once more, but an effect of run %d remains", d.run))
	case d.past && d.touched && d.undoable && !s.undone(d.operation):
		wrong(fmt.Sprintf("the step was done once more, but run %d of it, which may have had an effect, was not undone", d.run))
	case d.past:
	case undone && there && (d.undoable || d.pivot):
		wrong("the delivery is undone, but an effect of it remains")
	case undone && d.touched && d.undoable && !s.undone(d.operation):
		wrong("the delivery is undone, but a step that may have had an effect was not")
	case s.end == events.NameTaskProcessed && d.completion == 0:
		wrong("the delivery is processed, but this step did not complete")
	case s.end == events.NameTaskProcessed && !there:
		wrong("the delivery is processed, but its effect is missing")
	}
}
