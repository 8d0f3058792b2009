package sim

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// inputs are the two input topics of a partition, its dead letters, and the outcome of each input.
type inputs struct {
	w *World
	p *partition

	submissions inputTopic
	reports     inputTopic
	dead        []deadLetter
	// facts holds the accepted fact of each input.
	facts map[events.Cause]*events.Fact
	// content is the accepted content of each task ID ever accepted.
	content map[string]map[string]bool
	// held are the requests that were ever held.
	held map[string]bool
	// accepted are the losses that an operator accepted, in order.
	accepted []events.AcceptedLoss
}

type inputTopic struct {
	topic
	meta []*meta
	// trimmed is the offset of the first record that owners have not trimmed.
	trimmed int64
}

// meta is the world's knowledge about an input that it wrote.
type meta struct {
	Input
	// workflow is the workflow that a submission asks for, with its version and stamp if given. known says whether it
	// was applied when the submission landed; catalog is how many were applied by then.
	workflow string
	version  int
	stamp    string
	known    bool
	catalog  int
	// tooLarge and unfit say that a submission must be rejected, for its size or by its schema.
	tooLarge, unfit bool
	// poison says that judging it panics.
	poison bool
	// origin is where a forwarded copy was found.
	origin events.Cause
}

type deadLetter struct {
	in     events.Input
	record events.Record
}

func (q *inputs) of(in events.Input) *inputTopic {
	if in == events.Reports {
		return &q.reports
	}
	return &q.submissions
}

// put lands an input.
func (q *inputs) put(in events.Input, r events.Record, m *meta) {
	t := q.of(in)
	r.Partition, r.Topic = q.p.id, "sim."+string(in)
	c := *m
	c.catalog = q.w.catalogEnd
	if c.workflow != "" {
		applied := catalog(c.catalog)
		if _, c.known = applied.Current(c.workflow); c.version != 0 {
			_, c.known = applied.Version(c.workflow, c.version)
		}
	}
	t.meta = append(t.meta, &c)
	q.w.note("%s/%d has at %d %v of %q", in, q.p.id, t.end(), []string{"a marker", "a submission", "a report", "a request", "garbage", "a record about a permit", "a request about a schedule", "the end of a task of a schedule", "a request about the limit", "a record of a parent or child"}[c.Kind], c.Task)
	q.w.land(&t.topic, []events.Record{r})
}

// forwarded returns the meta of the copy of an input that was sent home.
func (q *inputs) forwarded(r *events.Record, in events.Input) *meta {
	origin := OriginOf(r, in)
	_, part, offset, ok := origin.Input()
	if !ok || part != q.p.id || offset >= q.of(in).end() {
		q.w.fail("a copy says that it was found at %q", r.Header(events.HeaderForwardedFrom))
		return &meta{Input: Input{Kind: InputGarbage}}
	}
	m := *q.of(in).meta[offset]
	m.origin = origin
	return &m
}

// OriginOf returns where a forwarded record says that it was found.
func OriginOf(r *events.Record, in events.Input) events.Cause {
	var part int32
	var offset int64
	if n, _ := fmt.Sscanf(r.Header(events.HeaderForwardedFrom), "%d/%d", &part, &offset); n != 2 {
		return ""
	}
	return events.CauseInput(in, part, offset)
}

// Input implements Witness.
func (q *inputs) Input(in events.Input, offset int64) (Input, bool) {
	t := q.of(in)
	if offset < 0 || offset >= t.end() {
		return Input{}, false
	}
	x := t.meta[offset].Input
	x.GivenUp = q.givenUp(in, offset)
	if r := &x.Report; x.Kind == InputReport {
		began, known := q.p.effects.attempts[Attempt{r.Task, r.Step, r.Operation, r.Attempt}]
		x.Early = known && t.landedAt[offset] <= q.p.log.landedAt[began.from]
	}
	if x.Kind == InputRelative {
		x.Early = t.landedAt[offset] <= q.w.families.turnedAt[x.Task]
	}
	if x.Kind == InputSchedule || x.Kind == InputTaskEnd {
		born, known := q.p.schedules.born[events.ScheduleOfKey(x.Task)]
		x.Early = !known || born != copiedAlong && t.landedAt[offset] <= q.p.log.landedAt[born]
	}
	return x, true
}

// DurableBefore implements Witness.
func (q *inputs) DurableBefore(in events.Input, offset int64, at events.Instant) bool {
	return q.of(in).landedAt[offset] < q.p.writer.time.moment(at)
}

// Folded implements Witness.
func (q *inputs) Folded(c events.Cause) bool { return q.facts[c] != nil }

// WasHeld implements Witness.
func (q *inputs) WasHeld(task, request string) bool { return q.held[task+"\x00"+request] }

// Unsent implements Witness.
func (q *inputs) Unsent(task string) string {
	for _, d := range q.p.effects.owed {
		if _, delayed := q.p.state.Partition.Delayed[d.to]; d.fact.Task == task && !delayed && !q.p.effects.arrived[d.key] && StillOwed(q.p.state, d.fact, d.to) {
			return d.key
		}
	}
	return ""
}

// rejects checks that the reason for which an input is rejected is true.
func (q *inputs) rejects(f *events.Fact, b *events.InputRejected) {
	if b.Held != "" {
		q.p.rules.Expires(f, b)
		return
	}
	in, _, o, ok := f.Cause.Input()
	if !ok || o >= q.of(in).end() {
		return // passes has reported it
	}
	if last := q.of(in).records[o].Next() - 1; max(b.Last, o) != last {
		q.w.fail("INV12: %s is rejected up to %d; its batch ends at %d", f.Cause, b.Last, last)
	}
	m := q.of(in).meta[o]
	t, _ := q.p.state.Task(m.Task)
	wrong := ""
	switch b.Reason {
	case events.RejectInternal:
		if !q.w.clients.poisoned(m) {
			wrong = "nothing about it panics"
		}
	case events.RejectEnded:
		if !m.Lethal || q.w.clients.deaths[m.Task] < 3 {
			wrong = fmt.Sprintf("judging it has ended %d processes", q.w.clients.deaths[m.Task])
		}
	case events.RejectUnreadable, events.RejectInvalid:
		if m.Kind != InputGarbage || m.tooLarge {
			wrong = "it is well formed, or too large to tell"
		}
	case events.RejectTooLarge:
		if !m.tooLarge {
			wrong = "it is within its limit"
		}
	case events.RejectUnknownWorkflow:
		if m.known {
			wrong = "its workflow was applied before it"
		}
	case events.RejectSchema:
		if !m.unfit {
			wrong = "it fits its schema"
		}
	case events.RejectConflict:
		if t == nil || t.Content == m.Content {
			wrong = "nothing contradicts it"
		}
	case events.RejectMisplaced:
		if m.origin == "" && m.Kind != InputGarbage {
			wrong = "nobody forwarded it"
		}
	case events.RejectTooOld:
		if q.w.saw(sawStartTooOld); t != nil || !q.mayBeTooLate(&q.of(in).records[o]) {
			wrong = "no task that it started can be forgotten"
		}
	case events.RejectRefused, events.RejectLimit:
		if m.Kind != InputRequest && m.Kind != InputSchedule {
			wrong = "it is not a request"
		}
		if g := q.p.sagas.byTask[m.Task]; g != nil && g.requests[m.Request.ID] {
			wrong = "it repeats one that was judged"
		}
		if b.Reason == events.RejectLimit && m.Request.Kind != events.RequestSignal && q.p.heldCancels() < q.w.cfg.Settings.HeldRequests {
			wrong = "more requests may be held"
		}
	}
	if wrong != "" {
		q.w.fail("INV12: %s is rejected (%s: %s): %s", f.Cause, b.Reason, b.Detail, wrong)
	}
}
