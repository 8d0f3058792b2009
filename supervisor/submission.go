package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// catalogReading holds the catalog of definitions and says how recent it is.
type catalogReading struct {
	// deliveries counts the deliveries of inputs; seen is the last delivery before catalog was requested.
	deliveries, seen uint64
	catalog          Catalog
	question         question
	askedAt          uint64
}

// question is a request to the broker. Only one is in flight at a time, and answers to older ones are ignored.
type question struct {
	number uint64
	asked  bool
}

// ask begins a question, and returns false while one is on its way.
func (q *question) ask() bool {
	if q.asked {
		return false
	}
	q.asked = true
	q.number++
	return true
}

// answer ends the question. It returns false if the answer belongs to an older question.
func (q *question) answer(number uint64) bool {
	if number != q.number {
		return false
	}
	q.asked = false
	return true
}

// learn takes the answer to AskCatalog. After an error the inputs keep waiting, and the question is asked again.
func (c *catalogReading) learn(catalog Catalog, err error) {
	if err == nil {
		c.catalog, c.seen = catalog, c.askedAt
	}
}

// askCatalog asks for definitions, unless a question is on its way. A definition that was applied before an input was
// written is durable before the input is read, so a request sent after that read finds it.
func (i *inbox) askCatalog() {
	if i.catalog.question.ask() {
		i.catalog.askedAt = i.catalog.deliveries
		i.say(AskCatalog{i.gen, i.catalog.question.number})
	}
}

// judgeSubmission accepts, rejects, forwards or passes a submission.
func (i *inbox) judgeSubmission(item *input) error {
	item.submits = true
	sub, err := events.ParseSubmission(item.data)
	if err != nil {
		return i.reject(item, "", rejection(item.data, err), err.Error())
	}
	parent, _ := sub.ParentLink() // it was checked
	id, err := events.TaskID(item.record.Key, item.env.Subject, sub.ID)
	if err != nil {
		return i.reject(item, "", events.RejectInvalid, err.Error())
	}
	sub.ID = id
	if done, err := i.misplaced(item, id); done || err != nil {
		return err
	}
	content, err := sub.ContentHash()
	if err != nil {
		return i.reject(item, id, events.RejectUnreadable, err.Error())
	}
	i.judging.task = id
	known, err := i.state.Task(id)
	switch {
	case err != nil:
		return err
	case known == nil:
		return i.accept(item, sub, content)
	case parent != nil:
		if repeats, err := repeatsChild(i, item, known, parent); repeats || err != nil {
			return err
		}
	case known.Content == content:
		return nil // a repeat: no fact
	}
	if i.cfg.Keys != nil {
		if repeats, err := sub.Repeats(known, i.cfg.Keys.Open); repeats || err != nil {
			return err
		}
	}
	return i.reject(item, id, events.RejectConflict, "another submission with this ID and different content was accepted")
}

// rejection distinguishes unreadable bytes from a readable but faulty object. Text that ends inside a member is not JSON,
// although the error names the member.
func rejection(data []byte, err error) string {
	var m *events.MemberError
	if errors.As(err, &m) && m.Pointer == "" || !json.Valid(data) {
		return events.RejectUnreadable
	}
	return events.RejectInvalid
}

func (i *inbox) accept(item *input, sub *events.Submission, content string) error {
	if done, err := i.replies.forbidden(item, sub); done || err != nil {
		return err
	}
	v, found, known := i.resolve(item, sub)
	if v.Unread { // the next tick tries again: asking would not pause
		return errUndefined
	}
	if !known {
		i.askCatalog()
		return errUndefined
	}
	if c := i.catalog.catalog; c != nil { // not earlier: a growing catalog gets the level before the definition that needs it
		//mutant:level-comes-with-definitions
		i.level = max(i.level, c.Level())
	}
	if !found {
		return i.reject(item, sub.ID, events.RejectUnknownWorkflow, notFound(sub, v.Deleted))
	}
	if v.Level > max(i.level, events.FirstLevel) {
		return i.reject(item, sub.ID, events.RejectUnknownWorkflow, fmt.Sprintf("version %d of workflow %q needs level %d; the namespace has level %d", v.Version, v.Workflow, v.Level, max(i.level, events.FirstLevel)))
	}
	if err := i.epoch.raise(); err != nil {
		return err
	}
	adopted := i.state.Definition(v.Hash)
	unusable, err := prepareVersion(i, &v, adopted)
	if err != nil {
		return err
	}
	if unusable != "" {
		return i.reject(item, sub.ID, events.RejectUnknownWorkflow, fmt.Sprintf("version %d of workflow %q cannot be used: %s", v.Version, v.Workflow, unusable))
	}
	accepted, faults := i.sched.Accept(v.Hash, sub, v.Version)
	i.batch.cost += accepted.Cost
	if why := accepted.Unopened; why != nil {
		return why
	}
	if faults != "" {
		return i.reject(item, sub.ID, reasonOf(&accepted), faults)
	}
	parent, _ := sub.ParentLink() // it was checked
	if (sub.Schedule != "" || parent != nil) && startTooOld(i, item, accepted.RememberFor) {
		return i.reject(item, sub.ID, events.RejectTooOld, "the schedule or the parent sent it longer ago than task IDs are remembered, so its task may have ended and been forgotten")
	}
	times, err := sub.TimesFrom(i.stamp(), i.sched.Deadline(v.Hash))
	if err != nil {
		return i.reject(item, sub.ID, events.RejectInvalid, err.Error())
	}
	if adopted == nil {
		f := &events.Fact{Cause: events.CauseDefinition(v.Offset), Body: &events.DefinitionAdopted{Workflow: v.Workflow, Hash: v.Hash, Version: v.Version, Body: v.Body}}
		if err := i.record(f, nil); err != nil {
			return err
		}
	}
	if parent != nil {
		ofChild(&accepted, parent, i.settings())
	}
	f := i.caused(item, sub.ID, &events.Submitted{
		Workflow: v.Workflow, Version: v.Version, Hash: v.Hash, Input: sub.Input, Priority: accepted.Priority,
		Labels: accepted.Labels, Deadline: times.Deadline, NotBefore: times.NotBefore, Delay: times.Delay, Content: content, ReplyTo: sub.ReplyTo, ReplyKey: sub.ReplyKey,
		Concurrency: accepted.Concurrency, FairBy: accepted.FairBy, Schedule: sub.Schedule, ScheduleBegan: sub.ScheduleBegan, RemindAfter: accepted.RemindAfter,
		RememberFor: accepted.RememberFor, Parent: parent,
	})
	f.Traceparent = item.env.Traceparent
	return i.planner.recordAndPlan(f)
}

// prepareVersion makes a version known to the scheduler, or returns why it cannot be used. adopted is what this partition adopted of it, nil if nothing:
// that is used even if the defaults have changed since.
func prepareVersion(i *inbox, v *Version, adopted *events.Definition) (unusable string, err error) {
	switch {
	case adopted == nil && v.Unusable != "":
		return v.Unusable, nil
	case adopted != nil:
		v.Version = adopted.Version
		if !i.sched.Prepared(v.Hash) {
			if v.Body, err = i.state.DefinitionBody(v.Hash); err != nil {
				return "", err
			}
		}
	}
	if err := i.sched.Prepare(v.Hash, v.Body); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

func notFound(sub *events.Submission, deleted bool) string {
	switch {
	case deleted && sub.Version != 0:
		return fmt.Sprintf("version %d of workflow %q was deleted", sub.Version, sub.Workflow)
	case deleted:
		return fmt.Sprintf("workflow %q was deleted", sub.Workflow)
	case sub.Version != 0:
		return fmt.Sprintf("workflow %q has no version %d", sub.Workflow, sub.Version)
	}
	return fmt.Sprintf("no workflow %q has been applied", sub.Workflow)
}

// resolve finds the version for a submission. One that is stamped with a version that this partition adopted needs no question, unless
// the version is deleted: then it is judged by the definitions, as if it had no stamp. known is false if definitions must be read first: a submission without a
// version gets the one that is current after the submission was read.
func (i *inbox) resolve(item *input, sub *events.Submission) (v Version, found, known bool) {
	stamp := item.record.Header(events.HeaderDefinition)
	//mutant:deleted-takes-no-tasks
	if stamp != "" && (i.cfg.Deleted == nil || !i.cfg.Deleted(sub.Workflow, stamp)) {
		if d := i.state.Definition(stamp); d != nil && d.Workflow == sub.Workflow && (sub.Version == 0 || sub.Version == d.Version) {
			return Version{Workflow: d.Workflow, Version: d.Version, Hash: d.Hash}, true, true
		}
	}
	c := i.catalog.catalog
	if c == nil || item.delivery > i.catalog.seen {
		return Version{}, false, false
	}
	if stamp != "" {
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

// reasonOf returns the reason for which a submission with faults is rejected.
func reasonOf(a *events.Acceptance) string {
	if a.Closed {
		return events.RejectNoKey
	}
	return events.RejectSchema
}
