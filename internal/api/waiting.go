package api

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// WaitingDocument says what a step waits for.
type WaitingDocument struct {
	Step  string         `json:"step,omitempty" doc:"absent if the task as a whole waits"`
	Kind  events.Waiting `json:"kind" doc:"What it waits for"`
	For   string         `json:"for,omitempty" doc:"The operation and the agent, and what is wrong with it; the names of the signals; the task that does the step; the workflow and the key of a concurrency, and which tasks hold the permits; who paused the task, or why it is parked"`
	Since events.Instant `json:"since,omitzero" format:"date-time" doc:"Since when the task or the agent is paused, the task is parked or waits for its time or for a permit, or the step sleeps or waits for a signal, or when the failed attempt ended that is to be repeated; for kind agent otherwise: when steps of any task began to wait for the operation"`
	Until events.Instant `json:"until,omitzero" format:"date-time" doc:"When that is over; for kinds agent and capacity of a step that must start in time: when its time is over"`
	// agent is the agent that a step waits for, if it waits for one.
	agent string
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

// look is how it is found out what tasks wait for.
type look struct {
	// brief leaves out what a parked task may have done, who has the permits of a limit, and how many wait ahead: otherwise a list would read the limit
	// once for each task.
	brief bool
	// agents looks at the agents when it is first called. The map has those that are paused.
	agents func() (events.Availability, map[string]PausedAgent)
	// nodes looks at the nodes when it is first called.
	nodes func() []NodeDocument
}

func (s documents) look(brief bool) look {
	return look{brief, sync.OnceValues(func() (events.Availability, map[string]PausedAgent) {
		paused := s.pauses.Paused()
		held := func(agent string) bool { _, held := paused[agent]; return held }
		return events.Availability{Offered: s.offers.Offered(), Missing: s.offers.Missing(), Paused: held}, paused
	}), sync.OnceValue(s.nodes.Nodes)}
}

// waiting returns what the steps of a live task wait for. Running steps are left out.
func (s documents) waiting(ctx context.Context, t *events.Task, l look) ([]WaitingDocument, error) {
	var list []WaitingDocument
	now := events.At(s.now())
	if s.past {
		return s.waitedThen(ctx, t, l.brief, now)
	}
	for w := range events.WaitingFor(t, now) {
		who, err := s.waitsFor(ctx, t, w, l.brief, now)
		if err != nil {
			return nil, err
		}
		list = append(list, WaitingDocument{Step: w.Step, Kind: w.Kind, For: who, Since: w.Since, Until: w.Until, agent: w.Call.Agent})
	}
	keys, err := s.tasks.Keys(ctx, t)
	if err != nil {
		return nil, s.log.internal(ctx, "read what a task waits for", err)
	}
	if events.HeldForKey(t, &keys) {
		list = append(list, WaitingDocument{Kind: events.WaitingKey, For: "the owner of its partition cannot open its content; the log of that node says which key it lacks"})
	}
	if since, waits := events.WaitsForOwner(&keys, now); waits {
		// It comes first, because everything else is as old as the latest decision.
		list = slices.Insert(list, 0, WaitingDocument{Kind: events.WaitingOwner, For: s.awaitsOwner(t, l.nodes()), Since: since})
	}
	if !t.Starts() || len(keys.Ready) == 0 {
		return list, nil
	}
	agents, paused := l.agents()
	for _, k := range keys.Ready {
		if k.Agent == "" { // a child, which starts at once
			continue
		}
		kind, m := agents.QueuedFor(k.Call())
		w := WaitingDocument{Step: k.Path, Kind: kind, For: k.Call().String(), agent: k.Agent, Until: events.StartBy(t, k.Path, k.Operation)}
		switch {
		case kind == events.WaitingPaused:
			by := paused[k.Agent]
			w.Since = by.Since
			w.For += ", paused by " + pausedBy(cmp.Or(by.By, "an operator"), by.Reason)
		case kind != events.WaitingAgent:
		case agents.Offered(k.Call()):
			w.Since, w.For = m.Since, w.For+": the brokers take no requests for it"
		case m.NoTopic != "":
			w.Since, w.For = m.Since, w.For+": it has no work topic: "+m.NoTopic
		default:
			w.Since, w.For = m.Since, w.For+": no live instance offers it"
		}
		list = append(list, w)
	}
	return list, nil
}

// waitedThen returns what a task waited for in a copy of the past. Nothing is known there of agents.
func (s documents) waitedThen(ctx context.Context, t *events.Task, brief bool, now events.Instant) (list []WaitingDocument, err error) {
	for w := range events.WaitingFor(t, now) {
		d := s.waitedDocument(t, w, brief)
		if !brief && (w.Kind == events.WaitingConcurrency || w.Kind == events.WaitingLimit) { // the copy has the limit, and the tasks that hold its permits
			if d.For, err = s.waitsFor(ctx, t, w, brief, now); err != nil {
				return nil, err
			}
		}
		list = append(list, d)
	}
	return list, nil
}

// waitsFor names what a task or a step waits for, as far as its kind leaves something to name.
func (s documents) waitsFor(ctx context.Context, t *events.Task, w events.WaitReason, brief bool, now events.Instant) (string, error) {
	switch w.Kind {
	case events.WaitingPaused:
		return pausedBy(t.Paused.By, t.Paused.Reason), nil
	case events.WaitingOperator:
		return s.parkedBecause(t, s.opened(t).Reason, brief), nil
	case events.WaitingSignal:
		return strings.Join(t.Step(w.Step).Wait.Signals, ", "), nil
	case events.WaitingChild:
		return doneByChild(t.Step(w.Step)), nil
	case events.WaitingLimit:
		if p := waitingPermit(t, w.Step); brief && p != nil {
			return limitName(p.Limit), nil
		}
		return s.waitsWithin(ctx, t, w.Step, now)
	case events.WaitingConcurrency:
		if brief {
			return limitName(t.Permit.Limit), nil
		}
		return s.holders(ctx, t.Permit.Limit, now)
	case events.WaitingAgent, events.WaitingKey:
		return refusedBy(s.opened(t), w), nil
	}
	return "", nil
}

// refusedBy names the operation whose agent did not make the last attempt, and says why not.
func refusedBy(t *events.Task, w events.WaitReason) string {
	if w.Kind == events.WaitingAgent {
		return w.Call.String() + ": its service is failing"
	}
	s := t.Step(w.Step)
	e := s.Error
	if s.Undo != nil {
		e = s.Undo.Error
	}
	return w.Call.String() + ": " + e.Message
}

// pausedBy says who paused a task or an agent, and why.
func pausedBy(by, reason string) string {
	if by == "" || reason == "" {
		return by + reason
	}
	return by + ": " + reason
}

// doneByChild returns the child that does or undoes the step now.
func doneByChild(s *events.Step) string {
	return cmp.Or(s.DoneByChild(events.Do), s.DoneByChild(events.Undo))
}
