package supervisor

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Effects that the broker refuses for good: dead letters are retried, replies too for a time, and the failure of any other effect is
// recorded as a fact.

// alertRefused raises one alert for a dead letter that is refused. It is not the effect of a fact: if it is lost with the
// epoch, the next refusal raises it again.
func (x *outbox) alertRefused(y *effect, refused error) {
	if y.alerted {
		return
	}
	y.alerted = true
	f := y.of.fact
	for _, a := range raise(x, x.taskOf(f), f, Alert{Kind: AlertEffect, Reason: "dead letter, will be retried: " + refused.Error()}) {
		x.say(Send{Generation: x.gen, Kind: a.kind, Topic: a.topic, Record: a.record})
	}
}

// retryRefused sends refused dead letters again when their pause is over.
func (x *outbox) retryRefused() {
	keep := x.refused[:0]
	for _, y := range x.refused {
		if y.retryAt <= x.now {
			x.fresh = append(x.fresh, y)
		} else {
			keep = append(keep, y)
		}
	}
	x.refused = keep
	x.send()
}

// giveUp treats an effect as done once its EffectFailed is durable, so that the watermark can pass it.
func (x *outbox) giveUp(failed *events.EffectFailed) {
	for e := range x.all {
		if e.at == failed.Of {
			for _, y := range e.effects {
				if y.failed != "" && y.kind == failed.Kind {
					x.settle(y)
				}
			}
			e.failing = false
			// Another effect of the fact may have been refused meanwhile.
			x.failed = x.failed || slices.ContainsFunc(e.effects, func(y *effect) bool { return y.failed != "" && !y.done })
		}
	}
	x.trim()
}

// recordFailed records the effects that the broker refused for good.
func (x *outbox) recordFailed() error {
	if !x.failed {
		return nil
	}
	x.failed = false
	for e := range x.all {
		for _, y := range e.effects {
			if y.failed == "" || y.done || e.failing {
				continue
			}
			e.failing = true
			if err := blaming(e.fact.Task, func() error { return x.recordFailure(e, y) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *outbox) recordFailure(e *entry, y *effect) error {
	body := &events.EffectFailed{Of: e.at, Kind: y.kind, Error: events.Clip(y.failed, maxDetail)}
	task := ""
	switch y.kind {
	case events.EffectForward:
		body.Input = e.fact.Cause
	case events.EffectStart:
		if !e.again { // otherwise the task may have been submitted before, and its end will come
			body.ScheduleEnded = x.schedules.unstarted(e.fact, y.failed)
			if _, child := e.fact.Body.(*events.StepStarted); child {
				task = e.fact.Task
				x.planner.failAttempt(e, body)
			}
		}
	case events.EffectWork:
		task = e.fact.Task
		x.planner.failAttempt(e, body)
	}
	f := &events.Fact{Task: task, Body: body, Cause: events.CauseFact(e.at)}
	if task != "" {
		return x.planner.recordAndPlan(f)
	}
	return x.record(f, nil)
}

// failAttempt makes a refused work request a failed attempt, if the attempt still runs. It had no effect, since no agent
// saw it; but if it was sent again after a take-over, or after a try without an answer, an agent may have got the earlier one. (What the
// Kafka client tries again within one call it may have sent unanswered too. A record that was taken once is refused then only if
// somebody lowers the topic's limit, takes a right away or deletes the topic within these seconds.)
func (p *planner) failAttempt(e *entry, body *events.EffectFailed) {
	t, err := p.outbox.taskAt(e.fact)
	if err != nil {
		return
	}
	began := changeOf(t, e.fact)
	if !began.running(t) {
		return
	}
	failure := Failure{
		Task: t, Path: began.path, Operation: began.op, Effect: events.EffectNone,
		Error: events.Error{Class: events.ClassDispatch, Message: body.Error},
	}
	if e.again {
		failure.Effect = events.EffectInDoubt
	}
	switch b := failureOf(failure, began.number, p.verdict(failure)).(type) {
	case *events.StepFailed:
		b.QuietAt = p.quietAt(t.Step(b.Step), events.Do, b.Effect)
		body.Failed = b
	case *events.CompensationFailed:
		b.QuietAt = p.quietAt(t.Step(b.Step), events.Undo, failure.Effect)
		body.CompensationFailed = b
	}
}
