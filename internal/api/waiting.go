package api

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// WaitingDocument says what a step waits for.
type WaitingDocument struct {
	Step  string         `json:"step,omitempty" doc:"absent if the task as a whole waits"`
	Kind  events.Waiting `json:"kind" doc:"What it waits for"`
	For   string         `json:"for,omitempty" doc:"The operation and the agent, and what is wrong with it; the names of the signals; the workflow and the key of a concurrency, and which tasks hold the permits; who paused the task, or why it is parked"`
	Since events.Instant `json:"since,omitzero" format:"date-time" doc:"Since when the task or the agent is paused, the task is parked or waits for its time or for a permit, or the step sleeps or waits for a signal; for kind agent: when steps of any task began to wait for the operation"`
	Until events.Instant `json:"until,omitzero" format:"date-time" doc:"When that is over; for kinds agent and capacity of a step that must start in time: when its time is over"`
}

// TransformSchema implements huma.SchemaTransformer: it writes the list of kinds into the document.
func (WaitingDocument) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	kind := s.Properties["kind"]
	kind.Enum = nil
	var texts []string
	for _, k := range events.Waitings() {
		kind.Enum = append(kind.Enum, string(k))
		texts = append(texts, string(k)+": "+k.Says())
	}
	kind.Description = "What it waits for. " + strings.Join(texts, "; ")
	return s
}

// waiting returns what the steps of a live task wait for. Running steps are left out.
func (s documents) waiting(ctx context.Context, t *events.Task) ([]WaitingDocument, error) {
	if t.State.Ended() {
		return nil, nil
	}
	var list []WaitingDocument
	if t.Paused != nil {
		list = append(list, WaitingDocument{Kind: events.WaitingPaused, For: pausedBy(t.Paused.By, t.Paused.Reason), Since: t.Paused.Since})
	}
	if t.State == events.TaskStateError {
		list = append(list, WaitingDocument{Kind: events.WaitingOperator, For: t.Reason, Since: t.ParkedAt})
	}
	if t.NotBefore != 0 {
		list = append(list, WaitingDocument{Kind: events.WaitingNotBefore, Since: t.SubmittedAt, Until: t.NotBefore})
	}
	for _, x := range t.Steps {
		if x.Waits() {
			list = append(list, WaitingDocument{Step: x.Path, Kind: x.Wait.For(), For: strings.Join(x.Wait.Signals, ", "), Since: x.StartedAt, Until: x.Wait.Until})
		}
	}
	if !t.Starts() {
		return list, nil
	}
	now := events.At(time.Now())
	list, err := s.withPermit(ctx, list, t, now)
	if err != nil {
		return nil, err
	}
	if undoWaits(t, now) {
		list = append(list, WaitingDocument{Kind: events.WaitingQuiet, Until: t.QuietAt})
	}
	for _, x := range t.Steps {
		switch {
		case x.Undo != nil && x.Undo.State == events.StepStateWaiting && x.Undo.RetryAt > now:
			list = append(list, againAt(x.Path, x.Undo.RetryAt, x.Undo.Error, x.Call(events.Undo)))
		case x.Undo != nil || x.State != events.StepStateWaiting || x.Waits() || x.RetryAt <= now:
		case x.Tries == 0 && x.CoolDowns > 0 && !notMade(x.Error):
			list = append(list, WaitingDocument{Step: x.Path, Kind: events.WaitingCoolDown, Until: x.RetryAt})
		default:
			list = append(list, againAt(x.Path, x.RetryAt, x.Error, x.Call(events.Do)))
		}
	}
	queued, err := s.tasks.Queued(ctx, t.ID)
	if err != nil {
		return nil, s.log.internal(ctx, "read what a task waits for", err)
	}
	if len(queued) == 0 {
		return list, nil
	}
	offered, missing, paused := s.offers.Offered(), s.offers.Missing(), s.pauses.Paused()
	for _, k := range queued {
		w := WaitingDocument{Step: k.Path, Kind: events.WaitingCapacity, For: k.Call().String(), Until: events.StartBy(t, k.Path, k.Operation)}
		m := missingOf(missing, k)
		by, held := paused[k.Agent]
		switch {
		case held:
			w.Kind, w.Since = events.WaitingPaused, by.Since
			w.For += ", paused by " + pausedBy(cmp.Or(by.By, "an operator"), by.Reason)
		case !offered(k.Call()) && m.NoTopic != "":
			w.Kind, w.Since, w.For = events.WaitingAgent, m.Since, w.For+": it has no work topic: "+m.NoTopic
		case !offered(k.Call()):
			w.Kind, w.Since, w.For = events.WaitingAgent, m.Since, w.For+": no live instance offers it"
		case m.Behind:
			w.Kind, w.Since, w.For = events.WaitingAgent, m.Since, w.For+": the brokers take no requests for it"
		}
		list = append(list, w)
	}
	return list, nil
}

// pausedBy says who paused a task or an agent, and why.
func pausedBy(by, reason string) string {
	if by == "" || reason == "" {
		return by + reason
	}
	return by + ": " + reason
}

// undoWaits says whether the undo of a task waits only for requests in doubt.
func undoWaits(t *events.Task, now events.Instant) bool {
	return t.State == events.TaskStateUndoing && t.QuietAt > now && !slices.ContainsFunc(t.Steps, func(x *events.Step) bool {
		return x.State == events.StepStateRunning || x.Undo != nil && x.Undo.State == events.StepStateRunning
	})
}

// againAt says why a step waits for its next attempt. If the agent did not make the last attempt, its service is failing.
func againAt(step string, at events.Instant, e *events.Error, c events.Call) WaitingDocument {
	w := WaitingDocument{Step: step, Kind: events.WaitingRetry, Until: at}
	if notMade(e) {
		w.Kind, w.For = events.WaitingAgent, c.String()+": its service is failing"
	}
	return w
}

// notMade says whether the agent did not make the attempt.
func notMade(e *events.Error) bool { return e != nil && e.Class == events.ClassUnavailable }

// missingOf returns what is known about the wait for an operation, or the zero value.
func missingOf(missing []events.Missing, k events.ReadyKey) events.Missing {
	for _, m := range missing {
		if m.Call() == k.Call() {
			return m
		}
	}
	return events.Missing{}
}
