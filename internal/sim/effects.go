package sim

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// effects tracks the effects of a partition's facts, and which of them were sent.
type effects struct {
	w *World
	p *partition
	// owed are the effects above the watermark; arrived are those that landed or were given up.
	owed    []debt
	arrived map[string]bool
	// attempts are where all attempts began and ended.
	attempts map[Attempt]span
}

// ticket returns the incarnation of a task, or "" if it does not exist.
func (p *partition) ticket(task string) string {
	if t, _ := p.state.Task(task); t != nil {
		return t.Incarnation
	}
	return ""
}

// debt is one effect of an accepted fact.
type debt struct {
	at   events.Position
	key  string
	fact *events.Fact
}

func (e *effects) key(at events.Position, kind string) string {
	return strconv.Itoa(int(e.p.id)) + "/" + at.String() + " " + kind
}

// EffectsOf lists the effects of a fact. It is independent of the owner's code.
func EffectsOf(f *events.Fact) []string {
	switch b := f.Body.(type) {
	case *events.StepStarted, *events.CompensationStarted:
		return []string{events.EffectWork}
	case *events.InputRejected:
		return []string{events.EffectDeadLetter}
	case *events.InputForwarded:
		return []string{events.EffectForward}
	case *events.TaskParked, *events.TaskUndone, *events.DeadlinePassed:
		return []string{events.EffectAlert}
	case *events.StepFailed:
		if b.Error.Class == events.ClassPermanent {
			return []string{events.EffectAlert}
		}
	case *events.EffectFailed:
		switch b.Kind {
		case events.EffectForward:
			return []string{events.EffectDeadLetter, events.EffectAlert}
		case events.EffectWork:
			return []string{events.EffectAlert}
		}
	}
	return nil
}

// leaves checks INV8: the fact of an effect that is sent is durable, accepted and committed by the sender. It returns
// the effect's key.
func (e *effects) leaves(s *slot, a supervisor.Send) string {
	if a.Kind == events.EffectForward && e.w.opt.Off&supervisor.RuleForward != 0 {
		return ""
	}
	id := a.Record.Header(events.HeaderID)
	switch a.Kind {
	case events.EffectDeadLetter:
		id = a.Record.Header(supervisor.DeadFact)
	case events.EffectForward:
		id = ""
		for _, in := range bothInputs {
			if m := OriginOf(&a.Record, in); string(in) == a.Topic && m != "" {
				if f := e.p.inputs.facts[m]; f != nil && f.Body.Name() == events.NameInputForwarded {
					id = events.FactID(f, e.p.id)
				}
			}
		}
	}
	f := e.p.facts[id]
	if f == nil {
		e.w.fail("INV8: %s/%d sends %s %q to %s, whose fact the log does not hold", s.node.name, e.p.id, a.Kind, id, a.Topic)
		return ""
	}
	if s.acked <= e.p.at[f] {
		e.w.fail("INV8: %s/%d sends %s %s before it knows that its fact is durable", s.node.name, e.p.id, a.Kind, id)
	}
	if s.store.Next() <= e.p.at[f] {
		e.w.saw(sawEffectUnstored)
	}
	owed := EffectsOf(f)
	if slices.Contains(owed, events.EffectDeadLetter) {
		owed = append(owed, events.EffectAlert) // the alert about a refusal, which no fact owes and which is sent once in an epoch
	}
	if !slices.Contains(owed, a.Kind) {
		e.w.fail("%s/%d sends %s for %s %s", s.node.name, e.p.id, a.Kind, f.Body.Name(), id)
	}
	if a.Kind == events.EffectWork {
		e.asks(s, f, &a)
	}
	e.w.note("%s/%d sends %s %s", s.node.name, e.p.id, a.Kind, id)
	return e.key(f.Position(), a.Kind)
}

// asks checks that a work request says what its fact says, under an identifier that all attempts share (docs/protocol.md, "Attempts and effect none").
func (e *effects) asks(s *slot, f *events.Fact, a *supervisor.Send) {
	x, _, err := events.DecodeWork(&a.Record)
	want := events.Work{Task: f.Task}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		want = events.Work{Task: f.Task, Step: b.Step, Agent: b.Agent, Operation: events.Do, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input}
	case *events.CompensationStarted:
		want = events.Work{Task: f.Task, Step: b.Step, Agent: b.Agent, Operation: events.Undo, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input, Output: b.Output}
	}
	want.Ticket, want.Run = e.p.ticket(f.Task), 1
	key, undoes := want.Key(e.w.cfg.NamespaceID, want.Operation), ""
	if want.Operation == events.Undo {
		undoes = e.w.doKey(&want)
	}
	if err != nil || x.Task != want.Task || x.Step != want.Step || x.Operation != want.Operation || x.Attempt != want.Attempt || x.CompleteBy != want.CompleteBy || x.CompleteWithin.Std() != want.CompleteBy.Sub(f.Time) ||
		!bytes.Equal(x.Input, want.Input) || !bytes.Equal(x.Output, want.Output) || x.IdempotencyKey != key || x.Undoes != undoes || x.Ticket != want.Ticket || x.Home != e.p.id || a.Topic != "work."+want.Agent {
		e.w.fail("INV8: the work request of %s asks for something else: %+v: %v", events.FactID(f, e.p.id), x, err)
	}
	e.resends(s, f, Attempt{want.Task, want.Step, want.Operation, want.Attempt})
}

// arrives notes an effect that landed.
func (e *effects) arrives(key string) { e.arrived[key] = true }

// watermark checks that the watermark passes no unsent effect.
func (e *effects) watermark(to events.Position) {
	for len(e.owed) > 0 && !to.Before(e.owed[0].at) {
		d := e.owed[0]
		if !e.arrived[d.key] && StillOwed(e.p.state, d.fact) {
			e.w.fail("the watermark passes %s, which nobody sent", d.key)
		}
		e.owed = e.owed[1:]
	}
}

// StillOwed says whether an effect must still be sent, given the facts after its own: work only while its attempt runs.
func StillOwed(s *events.State, f *events.Fact) bool {
	t, _ := s.Task(f.Task)
	switch b := f.Body.(type) {
	case *events.StepStarted:
		return t != nil && t.Running(b.Step, events.Do, b.Attempt)
	case *events.CompensationStarted:
		return t != nil && t.Running(b.Step, events.Undo, b.Attempt)
	}
	return true
}
