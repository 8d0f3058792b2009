package supervisor

import (
	"strconv"

	"github.com/sagalog/sagalog/events"
)

// Alert is the value of a record in <ns>.alerts: what an operator must see.
type Alert struct {
	Kind     string         `json:"kind"`
	Task     string         `json:"task,omitempty"`
	Workflow string         `json:"workflow,omitempty"`
	Step     string         `json:"step,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Time     events.Instant `json:"time"`
	// Of is the ce_id of the fact that raised it.
	Of string `json:"of"`
}

// The kinds of alerts.
const (
	AlertParked    = "parked"
	AlertUndone    = "undone"
	AlertPermanent = "permanent_failure"
	AlertDeadline  = "deadline_passed"
	AlertEffect    = "effect_failed"
)

// The headers of a dead letter: names as in KIP-1191, whose prefix is reserved for them.
const (
	DeadTopic     = "__dlq.errors.topic"
	DeadPartition = "__dlq.errors.partition"
	DeadOffset    = "__dlq.errors.offset"
	DeadMessage   = "__dlq.errors.message"
	DeadReason    = "__dlq.errors.reason"
	DeadTime      = "__dlq.errors.time"
	DeadFact      = "__dlq.errors.fact"
)

// effectsOf returns the effects of a durable fact: a function of the fact, its task and the input's bytes. Where
// the bytes are missing, the effect says which input it wants.
func (o *Owner) effectsOf(f *events.Fact, input *events.Record) []*effect {
	switch b := f.Body.(type) {
	case *events.StepStarted:
		return o.work(f, events.Work{Step: b.Step, Agent: b.Agent, Operation: events.Do, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input})
	case *events.UndoStarted:
		return o.work(f, events.Work{Step: b.Step, Agent: b.Agent, Operation: events.Undo, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input, Output: b.Output})
	case *events.InputRejected:
		cause := f.Cause
		if b.HeldAt != "" {
			cause = b.HeldAt
		}
		return o.inputEffect(f, events.EffectDeadLetter, cause, input)
	case *events.InputForwarded:
		return o.inputEffect(f, events.EffectForward, f.Cause, input)
	case *events.EffectFailed:
		return o.failedEffects(f, b, input)
	case *events.TaskParked:
		return o.alert(f, AlertParked, b.Step, b.Reason)
	case *events.TaskUndone:
		return o.alert(f, AlertUndone, "", b.Reason)
	case *events.DeadlinePassed:
		return o.alert(f, AlertDeadline, "", "the deadline "+b.Deadline.String()+" passed; "+b.Action)
	case *events.StepFailed:
		if b.Error.Class == events.ClassPermanent {
			return o.alert(f, AlertPermanent, b.Step, b.Error.Message)
		}
	}
	return nil
}

func (o *Owner) work(f *events.Fact, w events.Work) []*effect {
	t, err := o.state.Task(f.Task)
	if err != nil || t == nil {
		return nil // forgotten: no attempt of it runs
	}
	w.Task, w.Run, w.Workflow, w.Version = t.ID, t.Run, t.Workflow, t.Version
	w.IdempotencyKey = events.IdempotencyKey(o.cfg.NamespaceID, t.ID, t.Run, w.Step, w.Operation)
	w.Home, w.Ticket = o.cfg.Partition, f.Position().String()
	r, err := events.EncodeWork(w, events.Subject{ID: events.FactID(f, o.cfg.Partition), Source: o.source, Time: f.Time, Traceparent: f.Traceparent})
	if err != nil {
		return nil
	}
	r.Partition = o.route(t, &w)
	return []*effect{{kind: events.EffectWork, topic: "work." + w.Agent, record: r}}
}

func (o *Owner) inputEffect(f *events.Fact, kind string, cause events.Cause, input *events.Record) []*effect {
	x := &effect{kind: kind}
	if input == nil {
		x.wants = cause
		return []*effect{x}
	}
	o.fillEffect(f, x, input)
	return []*effect{x}
}

// fillEffect completes an effect with the bytes of its input.
func (o *Owner) fillEffect(f *events.Fact, x *effect, input *events.Record) {
	in := events.Submissions
	if c, _, _, ok := o.inputOf(f).Input(); ok {
		in = c
	}
	if x.kind == events.EffectForward {
		to := f.Body.(*events.InputForwarded).To
		x.topic, x.record = string(in), forward(f, input, to)
		return
	}
	x.topic, x.record = "dlq."+string(in), o.deadLetter(f, in, input)
}

// inputOf returns the cause that names the input which the fact judged.
func (o *Owner) inputOf(f *events.Fact) events.Cause {
	switch b := f.Body.(type) {
	case *events.InputRejected:
		if b.HeldAt != "" {
			return b.HeldAt
		}
	case *events.EffectFailed:
		return b.Input
	}
	return f.Cause
}

// forward returns the input for its home partition, marked with where it was found and when.
func forward(f *events.Fact, input *events.Record, to int32) events.Record {
	r := events.Record{Partition: to, Key: input.Key, Value: input.Value}
	for _, h := range input.Headers {
		if h.Key != events.HeaderForwardedFrom && h.Key != events.HeaderForwardedAt {
			r.Headers = append(r.Headers, h)
		}
	}
	from := strconv.Itoa(int(input.Partition)) + "/" + strconv.FormatInt(input.Offset, 10)
	r.Headers = append(r.Headers,
		events.Header{Key: events.HeaderForwardedFrom, Value: []byte(from)},
		events.Header{Key: events.HeaderForwardedAt, Value: []byte(f.Time.String())})
	return r
}

// deadLetter returns the rejected input, bytes and headers untouched, with the reason and the coordinates.
func (o *Owner) deadLetter(f *events.Fact, in events.Input, input *events.Record) events.Record {
	reason, detail := events.RejectInternal, ""
	switch b := f.Body.(type) {
	case *events.InputRejected:
		reason, detail = b.Reason, b.Detail
	case *events.EffectFailed:
		reason, detail = events.RejectMisplaced, "the broker refused to take it in its home partition: "+b.Error
	}
	r := events.Record{Partition: o.cfg.Partition, Key: input.Key, Value: input.Value}
	r.Headers = append(append(r.Headers, input.Headers...),
		events.Header{Key: DeadTopic, Value: []byte(o.cfg.Namespace + "." + string(in))},
		events.Header{Key: DeadPartition, Value: []byte(strconv.Itoa(int(o.cfg.Partition)))},
		events.Header{Key: DeadOffset, Value: []byte(strconv.FormatInt(input.Offset, 10))},
		events.Header{Key: DeadReason, Value: []byte(reason)},
		events.Header{Key: DeadMessage, Value: []byte(detail)},
		events.Header{Key: DeadTime, Value: []byte(f.Time.String())},
		events.Header{Key: DeadFact, Value: []byte(events.FactID(f, o.cfg.Partition))})
	return r
}

// failedEffects are the effects of an effect that failed: an alert, and for a forward the dead letter of the input.
func (o *Owner) failedEffects(f *events.Fact, b *events.EffectFailed, input *events.Record) []*effect {
	var list []*effect
	if b.Kind == events.EffectForward {
		list = o.inputEffect(f, events.EffectDeadLetter, b.Input, input)
	}
	if b.Kind != events.EffectAlert { // an alert that cannot be sent raises none
		list = append(list, o.alert(f, AlertEffect, "", b.Kind+": "+b.Error)...)
	}
	return list
}

func (o *Owner) alert(f *events.Fact, kind, step, reason string) []*effect {
	a := Alert{Kind: kind, Task: f.Task, Step: step, Reason: reason, Time: f.Time, Of: events.FactID(f, o.cfg.Partition)}
	if t, err := o.state.Task(f.Task); err == nil && t != nil {
		a.Workflow = t.Workflow
	}
	r, err := events.EncodeAlert(a, f.Task, events.Subject{ID: a.Of, Source: o.source, Time: f.Time, Traceparent: f.Traceparent})
	if err != nil {
		return nil
	}
	return []*effect{{kind: events.EffectAlert, topic: "alerts", record: r}}
}
