package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// definitions is what the owner knows of the definitions topic.
type definitions struct {
	// deliveries counts the readings of inputs; seen is up to which of them catalog was asked for afterwards.
	deliveries, seen uint64
	catalog          Catalog
	question         uint64
	asking           bool
	askedAt          uint64
}

// Definitions answers AskCatalog. An error leaves the inputs waiting; it is asked again.
func (o *Owner) Definitions(now events.Instant, gen, question uint64, c Catalog, err error) {
	if !o.current(gen) || question != o.defs.question {
		return
	}
	o.enter(now)
	o.defs.asking = false
	if err == nil {
		o.defs.catalog, o.defs.seen = c, o.defs.askedAt
	}
	o.deciding = true
}

// askCatalog asks for definitions, unless a question is on its way. A definition that was applied before an input
// was written is durable before the input is read, so a question after the reading finds it.
func (o *Owner) askCatalog() {
	if o.defs.asking {
		return
	}
	o.defs.asking = true
	o.defs.question++
	o.defs.askedAt = o.defs.deliveries
	o.do(AskCatalog{o.gen, o.defs.question})
}

// judgeSubmission accepts, rejects, forwards or passes a submission. It returns false when definitions must be read
// before.
func (o *Owner) judgeSubmission(b *batch, item *inputItem) (bool, error) {
	r := &item.record
	reject := func(task, reason, detail string) (bool, error) {
		return true, o.reject(b, events.Submissions, item, task, reason, detail)
	}
	if len(r.Value) > o.cfg.Settings.SubmissionBytes {
		return reject("", events.RejectTooLarge, fmt.Sprintf("the submission has %d bytes; %d are allowed", len(r.Value), o.cfg.Settings.SubmissionBytes))
	}
	env, data, err := events.Open(r)
	if err != nil {
		return reject("", events.RejectUnreadable, err.Error())
	}
	sub, err := events.ParseSubmission(data)
	if err != nil {
		return reject("", rejection(data, err), err.Error())
	}
	id, err := events.TaskID(r.Key, env.Subject, sub.ID)
	if err != nil {
		return reject("", events.RejectInvalid, err.Error())
	}
	sub.ID = id
	if gone, err := o.misplaced(b, events.Submissions, item, id); errors.Is(err, errTooOld) {
		return reject(id, events.RejectMisplaced, err.Error())
	} else if gone || err != nil {
		return true, err
	}
	content, err := sub.ContentHash()
	if err != nil {
		return reject(id, events.RejectUnreadable, err.Error())
	}
	known, err := o.state.Task(id)
	if err != nil {
		return true, err
	}
	if known != nil {
		o.cache.note(id)
		if known.Content == content {
			return true, nil // a repeat: no fact
		}
		return reject(id, events.RejectConflict, "another submission with this ID and other content stands")
	}
	return o.acceptSubmission(b, item, sub, accepted{content: content, traceparent: env.Traceparent})
}

// rejection tells unreadable bytes from a readable object with faults. What breaks off inside a member names that
// member, and is no JSON all the same.
func rejection(data []byte, err error) string {
	var m *events.MemberError
	if errors.As(err, &m) && m.Pointer == "" || !json.Valid(data) {
		return events.RejectUnreadable
	}
	return events.RejectInvalid
}

type accepted struct{ content, traceparent string }

func (o *Owner) acceptSubmission(b *batch, item *inputItem, sub *events.Submission, a accepted) (bool, error) {
	r := &item.record
	v, found, known := o.resolve(item, sub)
	if !known {
		o.askCatalog()
		return false, nil
	}
	if !found {
		what := fmt.Sprintf("no workflow %q is applied", sub.Workflow)
		if sub.Version != 0 {
			what = fmt.Sprintf("workflow %q has no version %d", sub.Workflow, sub.Version)
		}
		return true, o.reject(b, events.Submissions, item, sub.ID, events.RejectWorkflow, what)
	}
	if d := o.state.Definition(v.Hash); d != nil {
		v.Version, v.Body = d.Version, d.Body // this partition goes by what it adopted, whatever defaults are filled today
	}
	if err := o.sched.Prepare(v.Hash, v.Body); err != nil {
		return true, o.reject(b, events.Submissions, item, sub.ID, events.RejectWorkflow, fmt.Sprintf("version %d of workflow %q cannot be used: %v", v.Version, v.Workflow, err))
	}
	if faults := o.sched.CheckInput(v.Hash, sub.Input); faults != "" {
		return true, o.reject(b, events.Submissions, item, sub.ID, events.RejectSchema, faults)
	}
	if o.state.Definition(v.Hash) == nil {
		f := &events.Fact{Cause: events.CauseDefinition(v.Offset), Body: &events.DefinitionAdopted{Workflow: v.Workflow, Hash: v.Hash, Version: v.Version, Body: v.Body}}
		if err := o.emit(b, f, nil); err != nil {
			return true, err
		}
	}
	now := max(o.now, o.state.Partition.Time)
	deadline := sub.DeadlineFrom(now)
	if deadline == 0 {
		if d := o.sched.Deadline(v.Hash); d > 0 {
			deadline = now.Add(d.Std())
		}
	}
	f := o.inputFact(events.Submissions, r, sub.ID, &events.Submitted{
		Workflow: v.Workflow, Version: v.Version, Hash: v.Hash, Input: sub.Input, Priority: sub.Priority,
		Labels: sub.Labels, Deadline: deadline, Content: a.content,
	})
	f.Traceparent = a.traceparent
	if err := o.emit(b, f, nil); err != nil {
		return true, err
	}
	return true, o.follow(b, sub.ID)
}

// resolve finds the version that a submission is pinned to. known is false when definitions must be read first:
// whoever asks for no version means the one that is current after the submission was read.
func (o *Owner) resolve(item *inputItem, sub *events.Submission) (v Version, found, known bool) {
	if stamp := item.record.Header(events.HeaderDefinition); stamp != "" {
		if d := o.state.Definition(stamp); d != nil && d.Workflow == sub.Workflow && (sub.Version == 0 || sub.Version == d.Version) {
			return Version{Workflow: d.Workflow, Version: d.Version, Hash: d.Hash, Body: d.Body}, true, true
		}
	}
	if o.defs.catalog == nil || item.delivery > o.defs.seen {
		return Version{}, false, false
	}
	c := o.defs.catalog
	if stamp := item.record.Header(events.HeaderDefinition); stamp != "" {
		if v, ok := c.ByHash(sub.Workflow, stamp); ok && (sub.Version == 0 || sub.Version == v.Version) {
			return v, true, true
		}
	}
	if sub.Version != 0 {
		v, found = c.Version(sub.Workflow, sub.Version)
		return v, found, true
	}
	v, found = c.Current(sub.Workflow)
	return v, found, true
}
