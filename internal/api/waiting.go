package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// WaitingDocument says what a step waits for.
type WaitingDocument struct {
	Step  string         `json:"step,omitempty" doc:"absent if the task as a whole waits"`
	Kind  string         `json:"kind" enum:"agent,topic,broker,capacity,retry,cool_down,quiet" doc:"agent: no live instance of the agent offers the operation, or its service is failing; topic: the agent has no work topic, and it cannot be created; broker: the brokers take no requests for it; capacity: all its instances are busy; retry and cool_down: the pause after a failed attempt; quiet: nothing is undone while a request of an attempt without an answer may still take effect"`
	For   string         `json:"for,omitempty" doc:"The operation and the agent; for kind topic also why it is missing"`
	Since events.Instant `json:"since,omitzero" format:"date-time" doc:"for kinds agent, topic and broker: when steps of any task began to wait for the operation"`
	Until events.Instant `json:"until,omitzero" format:"date-time"`
}

// The kinds of WaitingDocument.
const (
	waitsAgent    = "agent"
	waitsTopic    = "topic"
	waitsBroker   = "broker"
	waitsCapacity = "capacity"
	waitsRetry    = "retry"
	waitsCoolDown = "cool_down"
	waitsQuiet    = "quiet"
)

// waiting returns what the steps of a live task wait for. Running steps are left out.
func (s documents) waiting(ctx context.Context, t *events.Task) ([]WaitingDocument, error) {
	if t.State.Ended() || t.State == events.TaskStateError {
		return nil, nil
	}
	var list []WaitingDocument
	now := events.At(time.Now())
	if undoWaits(t, now) {
		list = append(list, WaitingDocument{Kind: waitsQuiet, Until: t.QuietAt})
	}
	for _, x := range t.Steps {
		switch {
		case x.Undo != nil && x.Undo.State == events.StepStateWaiting && x.Undo.RetryAt > now:
			list = append(list, againAt(x.Path, x.Undo.RetryAt, x.Undo.Error, events.Undo, x.Undo.Agent))
		case x.Undo != nil || x.State != events.StepStateWaiting || x.RetryAt <= now:
		case x.Tries == 0 && x.CoolDowns > 0 && !notMade(x.Error):
			list = append(list, WaitingDocument{Step: x.Path, Kind: waitsCoolDown, Until: x.RetryAt})
		default:
			list = append(list, againAt(x.Path, x.RetryAt, x.Error, events.Do, x.Agent))
		}
	}
	queued, err := s.tasks.Queued(ctx, t.ID)
	if err != nil {
		return nil, s.log.internal(ctx, "read what a task waits for", err)
	}
	if len(queued) == 0 {
		return list, nil
	}
	offered, missing := s.offers.Offered(), s.offers.Missing()
	for _, k := range queued {
		w := WaitingDocument{Step: k.Path, Kind: waitsCapacity, For: fmt.Sprintf("%s of agent %s", k.Operation, k.Agent)}
		m := missingOf(missing, k)
		switch {
		case !offered(k.Agent, k.Operation) && m.NoTopic != "":
			w.Kind, w.Since, w.For = waitsTopic, m.Since, w.For+": "+m.NoTopic
		case !offered(k.Agent, k.Operation):
			w.Kind, w.Since = waitsAgent, m.Since
		case m.Behind:
			w.Kind, w.Since = waitsBroker, m.Since
		}
		list = append(list, w)
	}
	return list, nil
}

// undoWaits says whether the undo of a task waits only for requests in doubt.
func undoWaits(t *events.Task, now events.Instant) bool {
	return t.State == events.TaskStateUndoing && t.QuietAt > now && !slices.ContainsFunc(t.Steps, func(x *events.Step) bool {
		return x.State == events.StepStateRunning || x.Undo != nil && x.Undo.State == events.StepStateRunning
	})
}

// againAt says why a step waits for its next attempt. If the agent did not make the last attempt, its service is failing.
func againAt(step string, at events.Instant, e *events.Error, op events.Operation, agent string) WaitingDocument {
	w := WaitingDocument{Step: step, Kind: waitsRetry, Until: at}
	if notMade(e) {
		w.Kind, w.For = waitsAgent, fmt.Sprintf("%s of agent %s: its service is failing", op, agent)
	}
	return w
}

// notMade says whether the agent did not make the attempt.
func notMade(e *events.Error) bool { return e != nil && e.Class == events.ClassUnavailable }

// missingOf returns what is known about the wait for an operation, or the zero value.
func missingOf(missing []events.Missing, k events.ReadyKey) events.Missing {
	for _, m := range missing {
		if m.Agent == k.Agent && m.Operation == k.Operation {
			return m
		}
	}
	return events.Missing{}
}
