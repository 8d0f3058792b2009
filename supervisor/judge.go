package supervisor

import (
	"errors"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/events"
)

// judge gives each input topic its share of the batch, and judges its inputs in order.
func (i *inbox) judge(shares []share) (err error) {
	defer i.alone.rest()
	defer guard(&err, i.blamed)
	for _, s := range shares {
		if err := i.judgeQueue(i.queue(s.input), s.quarters); err != nil {
			return err
		}
	}
	return nil
}

// blamed names the input that is being judged as the cause of an error.
func (i *inbox) blamed(err error) error {
	return &poisoned{cause: i.judging.cause, judged: i.judging.task, err: err}
}

// judgeQueue judges inputs of a topic until the given number of quarters of the batch is full.
func (i *inbox) judgeQueue(q *inputQueue, quarters int) error {
	if q.verify != "" || q.keyless && i.now < q.retryAt {
		return nil
	}
	b, kind := i.batch, &inputKinds[q.kind]
	most := i.dispatch.most(kind)
	for len(q.items) > 0 && b.yielding < most && 4*len(b.facts) < quarters*i.cfg.BatchFacts && 4*b.bytes < quarters*i.cfg.BatchBytes && !i.costly() {
		item := &q.items[0]
		before := len(b.facts)
		if !item.record.Control {
			switch err := i.judgeOne(kind, item); {
			case errors.Is(err, errUndefined): // no later input may overtake it
				//mutant:undecided-stays-suspect
				//mutant:judged-in-topic-order
				return nil
			case err != nil:
				i.judging.cause = events.CauseInput(item.in, i.cfg.Partition, item.record.Offset)
				return i.blamed(err)
			}
			if len(b.facts) > before {
				q.silent = 0
				if kind.yields {
					b.yielding++
				}
			} else {
				q.silent++
			}
			if q.keyless {
				i.unopened.opens(q)
			}
			i.stats.Judged[q.kind].count(b.facts[before:])
			i.alone.judged(item)
		}
		q.passed()
		if err := i.timers.moveHorizon(); err != nil {
			return err
		}
	}
	if q.silent >= i.cfg.PassEvery {
		return i.pass()
	}
	return nil
}

// passed moves the judged position past the first input.
func (q *inputQueue) passed() {
	item := &q.items[0]
	q.keyless, q.missing = false, missing{}
	q.judged = item.record.Next()
	q.last = item.record
	q.items[0] = input{}
	q.items = q.items[1:]
	if len(q.items) == 0 {
		q.items = nil
		q.judged = max(q.judged, q.fetched)
	}
}

// judgeOne decides about one input.
func (i *inbox) judgeOne(kind *inputKind, item *input) error {
	r := &item.record
	cause := events.CauseInput(item.in, i.cfg.Partition, r.Offset)
	if p, bad := i.poison[cause]; bad && !parksChild(i, item, p) {
		return i.setAside(kind, item, p.judged, events.RejectInternal, p.Error()) // without looking at it
	}
	i.judging = judging{cause: cause}
	if why := i.alone.begin(item, cause); why != "" {
		return i.reject(item, "", events.RejectEnded, why)
	}
	if r.Unread > 0 {
		return i.rejectUnread(item)
	}
	if kind.limit != nil && len(r.Value) > kind.limit(i.settings()) && !fromParent(r) {
		return i.reject(item, "", events.RejectTooLarge, fmt.Sprintf("the submission has %d bytes; %d are allowed", len(r.Value), kind.limit(i.settings())))
	}
	var err error
	if item.env, item.data, err = events.Open(r); err != nil {
		return i.reject(item, "", events.RejectUnreadable, err.Error())
	}
	judge := kind.others
	if j, ok := kind.judgements[item.env.Type]; ok {
		judge = j
	}
	if judge == nil {
		return i.reject(item, "", events.RejectInvalid, fmt.Sprintf("ce_type %q is not known here", item.env.Type))
	}
	err = judge(i, item)
	if why, passes := errors.AsType[*events.NoKeyError](err); passes {
		return withoutKey(i, kind, item, why)
	}
	if errors.Is(err, events.ErrTooLarge) { // the planner records everything that follows, so no fact names the input yet
		return i.setAside(kind, item, i.judging.task, events.RejectTooLarge, err.Error())
	}
	return err
}

// withoutKey handles an input that cannot be opened now: the input waits, or it is set aside if it has held back others for too long.
func withoutKey(i *inbox, kind *inputKind, item *input, why *events.NoKeyError) error {
	q := i.queue(item.in)
	if q.keyless = !i.unopened.tooLong(q, why); q.keyless {
		q.retryAt = i.now.Add(inputRetry)
		return errUndefined
	}
	switch t := item.env.Type; {
	case item.submits:
		return i.reject(item, i.judging.task, events.RejectNoKey, "/input: "+why.Error())
	case t != "" && t != events.TypeReport: // a request leaves its task as it is
		return i.reject(item, i.judging.task, events.RejectRefused, why.Error())
	}
	return i.setAside(kind, item, i.judging.task, events.RejectNoKey, why.Error())
}

// setAside judges an input that cannot be judged normally. A report parks its task: its content is not lost, because the fact's
// cause names the record. Any other input becomes a dead letter.
func (i *inbox) setAside(kind *inputKind, item *input, task, reason, detail string) error {
	if kind.parks && task != "" {
		t, err := i.state.Task(task)
		if err != nil {
			return err
		}
		if t != nil && !t.State.Ended() && t.State != events.TaskStateError {
			parked := detail
			if reason == events.RejectInternal {
				parked = parkedInternal + detail
			}
			return i.record(i.caused(item, t.ID, &events.TaskParked{Reason: events.Clip(parked, maxDetail)}), nil)
		}
	}
	return i.reject(item, "", reason, detail)
}

// reject records that an input is unusable. The effect of the fact is a dead letter.
func (i *inbox) reject(item *input, task, reason, detail string) error {
	if done, err := refuseChild(i, item, reason, detail); done || err != nil {
		return err
	}
	b := &events.InputRejected{Reason: reason, Detail: events.Clip(detail, maxDetail)}
	scheduleOf(item, b)
	if n := item.record.Unread; n > 1 { // the rest of the batch is judged with its first record
		b.Last = item.record.Offset + n - 1
	}
	if item.submits {
		b.Reply = i.replies.asked(item, task)
	}
	return i.record(i.caused(item, task, b), &item.record)
}

// rejectUnread rejects all inputs of a batch at once, since a small batch can hold a million.
func (i *inbox) rejectUnread(item *input) error {
	return i.reject(item, "", events.RejectTooLarge, "the batch unpacks to more than the engine reads; its bytes stay at these coordinates until the topic is trimmed")
}

// maxDetail bounds the reason of a rejection in a fact; a schema can be violated in a thousand places.
const maxDetail = 4 << 10

// caused returns a fact that an input causes. The ID of the input is for the programs that chose it. That of a report says nothing that the
// fact does not say.
func (i *inbox) caused(item *input, task string, body events.Body) *events.Fact {
	r := &item.record
	f := &events.Fact{Task: task, Body: body, Cause: events.CauseInput(item.in, i.cfg.Partition, r.Offset), CauseHash: resumeHash(r)}
	if item.env.Type != events.TypeReport {
		f.CauseID = events.Clip(r.Header(events.HeaderID), events.MaxTaskID)
	}
	return f
}

// resumeHash returns the hash by which a claimer knows that the record is still there. A record that nobody read has none: a build that
// can read it would find another hash, and stop.
func resumeHash(r *events.Record) string {
	if r.Unread > 0 {
		return ""
	}
	return events.HashInput(r)
}

// misplaced forwards an input of another partition, and rejects one that was forwarded so long ago that a task it
// duplicates may have been forgotten. It returns true in both cases.
func (i *inbox) misplaced(item *input, id string) (bool, error) {
	if done, err := i.elsewhere(item, id); done || err != nil {
		return done, err
	}
	at := item.record.Header(events.HeaderForwardedAt)
	if at == "" {
		return false, nil
	}
	if !mayBeForgotten(i, at, past{i.settings().RememberFor.Std(), i.state.Partition.ForgottenBefore}) {
		return false, nil
	}
	return true, i.reject(item, id, events.RejectMisplaced, "forwarded longer ago than task IDs are remembered")
}

// past is what a partition knows about the tasks that it has forgotten: how long they were remembered, but for those that ended before the instant.
type past struct {
	remembered time.Duration
	before     events.Instant
}

// mayBeForgotten says whether a task that was accepted at that time may be forgotten. The clock decides how old it is, not the time of this log, which
// may be ahead of that of the partition from which the time comes.
func mayBeForgotten(i *inbox, at string, p past) bool {
	t, err := events.ParseInstant(at)
	return err != nil || i.core.read.Sub(t) > p.remembered || t < p.before && p.before <= i.core.read
}

// startTooOld says whether a schedule sent a submission so long ago that its task may be forgotten. The workflow may say that its tasks are
// remembered for longer than the settings do. If an older version said less, the partition knows when those tasks ended, as of all that a
// schedule started.
func startTooOld(i *inbox, item *input, own events.Duration) bool {
	remembered := max(own, i.settings().RememberFor)
	//mutant:late-start-is-refused
	return mayBeForgotten(i, item.env.Time, past{remembered.Std(), i.state.Partition.ScheduledForgottenBefore})
}

// elsewhere sends an input of another partition home, once. It returns true if the input belongs to another partition.
func (i *inbox) elsewhere(item *input, id string) (bool, error) {
	home := events.Home(id, i.cfg.Partitions)
	if home == i.cfg.Partition {
		return false, nil
	}
	r := &item.record
	if from := r.Header(events.HeaderForwardedFrom); from != "" {
		return true, i.reject(item, "", events.RejectMisplaced, fmt.Sprintf("forwarded from %s and still not in its home partition %d", from, home))
	}
	if i.cfg.Off.off(RuleForward) { // forwarded without a fact, which the rule forbids
		f := i.caused(item, "", &events.InputForwarded{To: home})
		f.Time = i.now
		i.say(Send{Generation: i.gen, Kind: events.EffectForward, Topic: string(item.in), Record: forward(f, r, home)})
		return true, nil
	}
	return true, i.record(i.caused(item, "", &events.InputForwarded{To: home}), r)
}
