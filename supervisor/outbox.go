package supervisor

import (
	"errors"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// outbox holds the durable facts whose effects are not all acknowledged, in the order of the log.
//
// Invariant: the watermark never passes a fact with an unacknowledged effect, and never counts facts in
// flight. docs/protocol.md, "The watermark is contiguous and counts nothing in flight".
type outbox struct {
	*core
	nextID  uint64
	entries []*entry
	// inputs are the records that effects of facts in flight need.
	inputs map[events.Position]events.Record
	// waiting are the effects that were sent and have no answer, by ID; fresh are the effects to send; refused are the dead
	// letters to retry.
	waiting map[uint64]*effect
	fresh   []*effect
	refused []*effect
	// last is the position of the last fact known to be durable, and next the offset after it.
	last events.Position
	next int64
	// judged says that the reports from before the epoch are judged.
	judged bool
	// lastDone is the position of the latest fact with an effect that the watermark has passed.
	lastDone events.Position
	// settled counts the entries whose effects are all done but that wait behind an older entry. bytes is the size of the
	// records that are not acknowledged.
	settled, bytes int
	measured
	// fetching counts the inputs being fetched because effects need their bytes.
	fetching int
	// works maps attempts to their unacknowledged requests. It is built on demand and kept until the next tick: it pays only when
	// many attempts time out together.
	works works
	// owing are the facts with effects above the folded watermark; needed by sweeps.
	owing []marked
	// starts counts the submissions of a child that are not acknowledged. Nothing else is said to the child before they are: it would count as lost.
	starts map[string]int
	// kept is what is sent again once the reports from before the epoch are judged: see keepWork.
	kept []*effect
	// failed says that some effect was refused for good and has no EffectFailed yet.
	failed bool
	// quietSince is when the last fact was decided. It determines when an idle partition records the watermark.
	quietSince events.Instant
}

type marked struct {
	at   events.Position
	task string
}

// entry is one fact with effects.
type entry struct {
	at, before events.Position
	fact       *events.Fact
	effects    []*effect
	// since is when it was first sent, or its input first requested; zero before that.
	since events.Instant
	// delayed is its destination if that is delayed.
	delayed *delayed
	// again says that the effects may have been sent before: by an earlier owner, or in a try that got no answer.
	again bool
	// failing is set while an EffectFailed for it is on its way.
	failing bool
}

// effect is one record to produce to a topic other than events.
type effect struct {
	id    uint64
	of    *entry
	kind  string
	topic string
	// part is "/" and the partition of a forward. For the other kinds all partitions of the topic are one destination.
	part   string
	record events.Record
	// until is the complete-by time of the attempt that a work request is for.
	until events.Instant
	// wants names the input whose bytes are still missing.
	wants  events.Cause
	done   bool
	failed string
	// alerted says that an alert was raised for its refusal.
	alerted bool
	// retryAt is when a refused dead letter is tried again.
	retryAt events.Instant
	// sentAt is when it was last sent.
	sentAt events.Instant
}

const (
	// deadLetterPause is how long a refused dead letter waits before the next try. It is never given up; an operator
	// has to repair the topic.
	deadLetterPause = 5 * time.Second
	// fetchedAtOnce is how many inputs are fetched at once. Each may have many megabytes.
	fetchedAtOnce = 8
	// settledKept is how many settled entries the list may hold before it is rewritten without them.
	settledKept = 64
	// watermarkAfter is how long a partition is idle before a separate fact records the watermark. If it were recorded at once, a
	// trickle of tasks would cost a fact for each effect.
	watermarkAfter = time.Second
)

func (x *outbox) reset() {
	//mutant:effects-end-with-epoch
	*x = outbox{core: x.core}
}

// fold queues the effects of a durable fact, and drops effects that were given up. offset is the fact's.
func (x *outbox) fold(t *events.Task, f *events.Fact, offset int64) {
	switch b := f.Body.(type) {
	case *events.EffectFailed:
		x.giveUp(b)
	case *events.Timeout:
		x.leave(attempt{f.Task, b.Step, b.Operation, b.Attempt})
	case *events.StepFailed:
		if b.Request != "" {
			x.leave(attempt{f.Task, b.Step, events.Do, b.Attempt})
		}
	case *events.CompensationFailed:
		if b.Request != "" {
			x.leave(attempt{f.Task, b.Step, events.Undo, b.Attempt})
		}
	}
	list := append(x.effects(t, f), x.replies.reply(t, f)...)
	delete(x.inputs, f.Position())
	x.pass(f, offset, list)
	x.forgetPassed()
}

// effects returns the effects of a fact, without the reply.
func (x *outbox) effects(t *events.Task, f *events.Fact) []*effect {
	switch b := f.Body.(type) {
	case *events.StepStarted, *events.CompensationStarted:
		if list := toChild(x, t, f); len(list) > 0 {
			return list
		}
		return x.work(t, f)
	case *events.ChildAsked, *events.ChildrenReleased, *events.ChildReturned:
		return toChild(x, t, f)
	case *events.Submitted, *events.ChildRefused, *events.ChildAnswered:
		return toParent(x, f)
	case *events.InputRejected:
		cause := f.Cause
		if b.HeldAt != "" {
			cause = b.HeldAt
		}
		letter := x.inputEffect(f, events.EffectDeadLetter, cause)
		return append(letter, x.schedules.end(f, events.TaskEnd{Schedule: b.Schedule, Began: b.ScheduleBegan, Task: b.Submission, State: events.EndRejected, Reason: b.Reason + ": " + b.Detail})...)
	case *events.InputForwarded:
		return x.inputEffect(f, events.EffectForward, f.Cause)
	case *events.EffectFailed:
		return x.failedEffects(t, f, b)
	case *events.TaskParked, *events.TaskReminded, *events.PermitBlocked, *events.SchedulePassed, *events.ScheduleTaskEnded, *events.SoftLimitPassed,
		*events.DeadlinePassed, *events.StepFailed:
		return x.alert(t, f)
	case *events.TaskUndone:
		list := append(x.alert(t, f), x.schedules.endOf(f)...)
		return append(append(list, permitEffects(x, f)...), toParent(x, f)...)
	case *events.TaskProcessed, *events.TaskTerminated:
		return append(append(x.schedules.endOf(f), permitEffects(x, f)...), toParent(x, f)...)
	case *events.PermitAsked, *events.PermitReleased, *events.PermitReturned, *events.PermitsDecided:
		return permitEffects(x, f)
	case *events.ScheduleFired:
		return x.schedules.start(f, b.Task, b.Submission)
	case *events.ScheduleCancelRequested:
		return x.schedules.cancel(f, b)
	}
	return nil
}

// all calls yield for each fact in memory with an unacknowledged effect.
func (x *outbox) all(yield func(*entry) bool) {
	for _, e := range x.entries {
		if !yield(e) {
			return
		}
	}
	for _, d := range x.delays.list {
		for _, e := range d.entries {
			if !yield(e) {
				return
			}
		}
	}
}

// pass takes note of a durable fact and its effects.
func (x *outbox) pass(f *events.Fact, offset int64, list []*effect) {
	if len(x.delays.list) > 0 {
		list = x.delays.separate(f, offset, list)
	}
	if len(list) > 0 {
		x.entries = append(x.entries, x.entryOf(f, x.last, list, nil))
		x.owing = append(x.owing, marked{f.Position(), f.Task})
	}
	x.trimming.note(f)
	x.last, x.next = f.Position(), offset+1
}

// keep stores the input that an effect of a fact in flight needs.
func (x *outbox) keep(at events.Position, input *events.Record) {
	if x.inputs == nil {
		x.inputs = map[events.Position]events.Record{}
	}
	x.inputs[at] = *input
}

// watermark returns the position up to which all effects are acknowledged.
func (x *outbox) watermark() events.Position {
	if x.cfg.Off.off(RuleWatermark) {
		return x.last
	}
	//mutant:watermark-is-contiguous
	if len(x.entries) > 0 {
		//mutant:watermark-stops-before-effect
		return x.entries[0].before
	}
	return x.last
}

// watermarkOverdue says whether an idle partition should record that its effects are acknowledged.
func (x *outbox) watermarkOverdue() bool {
	return x.state.Partition.Watermark.Before(x.lastDone) && !x.watermark().Before(x.lastDone) && x.now.Sub(x.quietSince) >= watermarkAfter
}

// bounded says whether the facts with unanswered effects are within their bound. Beyond it the owner records only refusals of
// effects and due timers, since only those end effects. The bound does not apply while work is held back, because that work waits
// for reports to be judged.
func (x *outbox) bounded() bool { return x.filled() < 1 || len(x.kept) > 0 }

// filled is how much of the room for unanswered effects is taken, by number or by size.
func (x *outbox) filled() float64 {
	return max(float64(x.unsent())/float64(x.cfg.Unacknowledged), float64(x.bytes)/float64(x.cfg.UnacknowledgedBytes))
}

func (x *outbox) unsent() int { return len(x.entries) - x.settled }

// oldest returns the first effect without an answer; the zero value if all have one.
func oldest(list []*entry) Unanswered {
	for _, e := range list {
		for _, y := range e.effects {
			if !y.done {
				return Unanswered{y.destination(), e.fact.Time}
			}
		}
	}
	return Unanswered{}
}

// entryOf returns an entry for a fact whose effects are to be sent, to the delayed destination if it is not nil.
func (x *outbox) entryOf(f *events.Fact, before events.Position, list []*effect, to *delayed) *entry {
	//mutant:refused-again-is-in-doubt
	e := &entry{at: f.Position(), before: before, fact: f, effects: list, delayed: to, again: f.Epoch != x.state.Partition.Epoch}
	for _, y := range list {
		x.nextID++
		y.id, y.of = x.nextID, e
		x.delays.weigh(y, y.record.Size())
		if x.works != nil {
			x.works.add(y)
		}
		if y.kind == events.EffectStart {
			if x.starts == nil {
				x.starts = map[string]int{}
			}
			x.starts[string(y.record.Key)]++
		}
	}
	x.fresh = append(x.fresh, list...)
	return e
}

// works finds requests by attempt.
type works map[attempt]*effect

func (w works) add(y *effect) {
	if y.kind == events.EffectWork && !y.done {
		b, _ := workOf(y.of.fact)
		w[attempt{y.of.fact.Task, b.Step, b.Operation, b.Attempt}] = y
	}
}

// request returns the request of an attempt, if it is in memory and was not acknowledged.
func (x *outbox) request(a attempt) *effect {
	if x.works == nil {
		x.works = works{}
		for e := range x.all {
			for _, y := range e.effects {
				x.works.add(y)
			}
		}
	}
	if y := x.works[a]; y != nil && !y.done {
		return y
	}
	return nil
}

// leave drops the work request of an attempt that timed out or that an operator failed. It is no longer needed, and if its topic accepts nothing, it must
// not hold back the watermark or take up room for other effects. If it does arrive, the agent drops it.
func (x *outbox) leave(over attempt) {
	if y := x.request(over); y != nil {
		delete(x.waiting, y.id)
		x.settle(y)
		x.trim()
	}
}

// settle notes that an effect needs nothing more.
func (x *outbox) settle(y *effect) {
	if y.done {
		return
	}
	if y.kind == events.EffectStart {
		if key := string(y.record.Key); x.starts[key] > 1 {
			x.starts[key]--
		} else {
			delete(x.starts, key)
		}
	}
	x.delays.weigh(y, -y.record.Size())
	y.record = events.Record{}
	if y.done = true; !y.of.done() {
		return
	}
	y.of.fact = nil // its bytes are not needed while it waits behind an older one
	if d := y.of.delayed; d != nil {
		d.settled++
	} else {
		x.settled++
	}
}

// send sends the effects that were not sent yet and have their bytes.
func (x *outbox) send() {
	//mutant:effects-wait-after-sleep
	if x.waking.held {
		return
	}
	//mutant:resuming-owner-sends-nothing
	if x.epoch.phase == phaseResuming { // some of these effects wait for the reports: see keepWork
		return
	}
	later := x.fresh[:0]
	for _, y := range x.fresh {
		if y.done || x.replies.hold(y) {
			continue
		}
		//mutant:cancel-waits-behind-its-submission
		if y.kind == events.EffectChild && x.starts[string(y.record.Key)] > 0 {
			later = append(later, y)
			continue
		}
		if y.wants != "" && !x.delays.mayFetch(y) {
			later = append(later, y)
			continue
		}
		if y.of.since == 0 {
			y.of.since = x.now
		}
		if y.wants != "" {
			x.fetching++
			x.say(FetchInput{x.gen, y.wants})
			continue
		}
		if x.waiting == nil {
			x.waiting = map[uint64]*effect{}
		}
		x.waiting[y.id], y.sentAt = y, x.now
		x.say(Send{Generation: x.gen, ID: y.id, Kind: y.kind, Topic: y.topic, Record: y.record, Within: x.within(y)})
	}
	x.fresh = later
}

// takeBack returns effects that were not sent after all to those that are to be sent.
func (x *outbox) takeBack(unsent []uint64) {
	back := make([]*effect, 0, len(unsent)+len(x.fresh))
	for _, id := range unsent {
		if y := x.waiting[id]; y != nil {
			delete(x.waiting, id)
			y.of.since = 0
			back = append(back, y)
		}
	}
	x.fresh = append(back, x.fresh...)
}

// within is how long an effect is worth sending, or zero if it always is.
func (x *outbox) within(y *effect) time.Duration {
	if y.until == 0 {
		return 0
	}
	return max(y.until.Sub(x.now), 1)
}

// answered takes the answer to Send. refused says that the broker refused the record for good. It returns false if
// nothing waits for the answer.
func (x *outbox) answered(id uint64, refused error) bool {
	y := x.waiting[id]
	if y == nil {
		return false
	}
	delete(x.waiting, id)
	switch {
	case refused == nil:
		x.replies.took(y)
		x.settle(y)
	//mutant:refused-reply-waits
	case y.kind == events.EffectReply:
		x.replies.refusedBy(y, refused)
	//mutant:dead-letter-is-never-given-up
	case y.kind == events.EffectDeadLetter:
		y.retryAt = x.now.Add(deadLetterPause)
		x.refused = append(x.refused, y)
		x.alertRefused(y, refused)
		if errors.Is(refused, events.ErrTooLarge) {
			x.delays.weigh(y, -y.record.Size())
			y.record = coordinatesAlone(&y.record)
			x.delays.weigh(y, y.record.Size())
		}
	default:
		y.failed = refused.Error()
		y.of.again = y.of.again || errors.Is(refused, ErrUnanswered)
		//mutant:refused-work-fails
		x.failed = true
	}
	x.trim()
	if len(x.fresh) > 0 { // these waited for room
		x.send()
	}
	return true
}

// trim drops facts whose effects are all acknowledged: those at the front, and the others once there are many. Otherwise they
// would fill the memory behind a front that waits for a long time.
func (x *outbox) trim() {
	for len(x.entries) > 0 && x.entries[0].done() {
		x.lastDone = x.entries[0].at
		x.entries[0] = nil
		x.entries = x.entries[1:]
		x.settled--
	}
	if len(x.entries) > 0 && x.settled > settledKept && x.settled > len(x.entries)/2 {
		x.entries = slices.DeleteFunc(x.entries, (*entry).done)
		x.settled = 0
	}
	for _, d := range x.delays.list {
		d.trim()
	}
}

func (e *entry) done() bool {
	for _, y := range e.effects {
		if !y.done {
			return false
		}
	}
	return true
}

// forgetPassed forgets the facts that the folded watermark has passed.
func (x *outbox) forgetPassed() {
	for p := x.state.Partition.Watermark; len(x.owing) > 0 && !p.Before(x.owing[0].at); {
		x.owing = x.owing[1:]
	}
}

// busy returns the tasks with an effect above the folded watermark. All facts in flight count, because they may have
// one.
func (x *outbox) busy() map[string]bool {
	x.forgetPassed()
	busy := map[string]bool{}
	for _, m := range x.owing {
		busy[m.task] = true
	}
	for _, d := range x.delays.list {
		for _, e := range d.entries {
			if d.work() && !e.done() {
				busy[e.fact.Task] = true
			}
		}
	}
	for _, b := range append([]*batch{x.batch}, x.flying...) {
		for _, f := range b.facts {
			busy[f.Task] = true
		}
	}
	return busy
}
