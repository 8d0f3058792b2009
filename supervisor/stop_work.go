package supervisor

import (
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// A stop says to an agent that nobody needs the outcome of an attempt any more. It is sent once, after the fact that makes the attempt
// useless is durable, and by no later owner: no watermark waits for it, and nothing is decided by whether it arrives. Without it an
// undo would wait until the attempt ends by itself, which may take hours.

// stopWithin is how long sending a stop is tried: an agent that gets it much later has ended the attempt anyway.
const stopWithin = 5 * time.Second

// stopWork sends the stops that follow from a durable fact. t is the task as it is now.
func stopWork(x *outbox, t *events.Task, f *events.Fact) {
	if t == nil || x.waking.held || x.epoch.phase != phaseOwning {
		return
	}
	switch b := f.Body.(type) {
	case *events.Timeout:
		sendStop(x, t, f, attempt{t.ID, b.Step, b.Operation, b.Attempt}, "its complete-by time passed")
	case *events.StepProgressed:
		if t.Undoing() && !turnsLater(x, t) { // the stop that was sent when the task turned back was lost, or is still on its way
			sendStop(x, t, f, attempt{t.ID, b.Step, events.Do, b.Attempt}, "the task is being undone")
		}
	case *events.StepFailed:
		if b.Request != "" && b.Attempt > 0 {
			sendStop(x, t, f, attempt{t.ID, b.Step, events.Do, b.Attempt}, "an operator failed it")
		}
	case *events.CompensationFailed:
		if b.Request != "" && b.Attempt > 0 {
			sendStop(x, t, f, attempt{t.ID, b.Step, events.Undo, b.Attempt}, "an operator failed it")
		}
	}
	if !turned(t, f) {
		return
	}
	for _, s := range t.Live() {
		if s.State == events.StepStateRunning {
			sendStop(x, t, f, attempt{t.ID, s.Path, events.Do, s.Attempt}, "the task is being undone")
		}
	}
}

// turned says whether the fact made the task turn back.
func turned(t *events.Task, f *events.Fact) bool {
	reason, may := turns(f)
	return may && t.Undoing() && (reason == "" || reason == t.Reason) // later failures of a task that is being undone have another reason
}

// turns says whether the fact makes a task that goes forward turn back, and the reason if the fact has one.
func turns(f *events.Fact) (reason string, _ bool) {
	v := events.Verdict{}
	switch b := f.Body.(type) {
	case *events.CancelRequested, *events.ChildUndoRequested:
		return "", true
	case *events.DeadlinePassed:
		return "", b.Action == events.DeadlineUndo
	case *events.Timeout:
		v = b.Verdict
	case *events.StepFailed:
		v = b.Verdict
	case *events.EffectFailed:
		if b.Failed != nil {
			v = b.Failed.Verdict
		}
	}
	return v.Reason, v.Action == events.ActionUndo
}

// turnsLater says whether a fact that may have turned the task back is not durable yet. By now the task may be parked, for another reason.
func turnsLater(x *outbox, t *events.Task) bool {
	for _, b := range append([]*batch{x.batch}, x.flying...) {
		if b != nil && slices.ContainsFunc(b.facts, func(f *events.Fact) bool {
			_, may := turns(f)
			return may && f.Task == t.ID
		}) {
			return true
		}
	}
	return false
}

func sendStop(x *outbox, t *events.Task, f *events.Fact, a attempt, reason string) {
	s := t.Step(a.path)
	if s == nil || a.op == events.Undo && s.Undo == nil {
		return
	}
	call := s.Call(a.op)
	if call.Agent == "" { // a child does it, and turns back with its parent
		return
	}
	stop := events.Stop{Task: t.ID, Run: events.RunOf(s.Run), Step: a.path, Operation: a.op, Attempt: a.number, Ticket: t.Incarnation, Reason: reason}
	r, err := events.EncodeStop(stop, events.Subject{ID: events.FactID(f, x.cfg.Partition) + "/stop/" + a.path, Source: x.source, Time: f.Time, Traceparent: f.Traceparent})
	if err != nil {
		return
	}
	for _, p := range x.dispatch.routing.holders(call, a, x.dispatch.place()) {
		r.Partition = p
		x.say(Send{Generation: x.gen, Kind: events.EffectStop, Topic: workTopic + call.Agent, Record: r, Within: stopWithin})
	}
}

// holders returns partitions of a work topic through which each instance that may have the attempt can be reached.
func (r *routing) holders(c events.Call, key attempt, at place) []int32 {
	if t := r.sent[key]; t != nil {
		return []int32{r.pick(c.Agent, t, at)}
	}
	list := r.agents[c.Agent].offering(c)
	if len(list) == 0 {
		return []int32{at.home}
	}
	var all []int32
	for _, t := range list {
		if p := r.pick(c.Agent, t, at); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}
