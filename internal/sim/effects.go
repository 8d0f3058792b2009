package sim

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

func (p *partition) key(at events.Position, kind string) string {
	return strconv.Itoa(int(p.id)) + "/" + at.String() + " " + kind
}

// effectsOf is what a fact owes, told again apart from the owner.
func effectsOf(f *events.Fact) []string {
	switch b := f.Body.(type) {
	case *events.StepStarted, *events.UndoStarted:
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

// leaves checks INV8: the fact of an effect that leaves is durable, accepted and committed by who sends it. It returns
// the effect's key.
func (p *partition) leaves(s *slot, a supervisor.Send) string {
	if a.Kind == events.EffectForward && p.w.opt.Off&supervisor.RuleForward != 0 {
		return ""
	}
	id := a.Record.Header(events.HeaderID)
	switch a.Kind {
	case events.EffectDeadLetter:
		id = a.Record.Header(supervisor.DeadFact)
	case events.EffectForward:
		id = ""
		for _, in := range bothInputs {
			if m := p.origin(&a.Record, in); string(in) == a.Topic && m != "" {
				if f := p.byCause[m]; f != nil && f.Body.Name() == events.NameInputForwarded {
					id = events.FactID(f, p.id)
				}
			}
		}
	}
	f := p.facts[id]
	if f == nil {
		p.w.fail("INV8: %s/%d sends %s %q to %s, whose fact the log does not hold", s.node.name, p.id, a.Kind, id, a.Topic)
		return ""
	}
	if s.acked <= p.at[f] {
		p.w.fail("INV8: %s/%d sends %s %s before it knows that its fact is durable", s.node.name, p.id, a.Kind, id)
	}
	if s.store.Next() <= p.at[f] {
		p.w.saw(sawEffectUnstored)
	}
	owed := effectsOf(f)
	if slices.Contains(owed, events.EffectDeadLetter) {
		owed = append(owed, events.EffectAlert) // that it was refused: owed by nobody, sent once an epoch
	}
	if !slices.Contains(owed, a.Kind) {
		p.w.fail("%s/%d sends %s for %s %s", s.node.name, p.id, a.Kind, f.Body.Name(), id)
	}
	if a.Kind == events.EffectWork {
		p.asks(s, f, &a)
	}
	p.w.note("%s/%d sends %s %s", s.node.name, p.id, a.Kind, id)
	return p.key(f.Position(), a.Kind)
}

// asks checks that a work request says what its fact says, under an identifier that all attempts share (DESIGN 3).
func (p *partition) asks(s *slot, f *events.Fact, a *supervisor.Send) {
	x, _, err := events.DecodeWork(&a.Record)
	want := events.Work{Task: f.Task}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		want = events.Work{Task: f.Task, Step: b.Step, Agent: b.Agent, Operation: events.Do, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input}
	case *events.UndoStarted:
		want = events.Work{Task: f.Task, Step: b.Step, Agent: b.Agent, Operation: events.Undo, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input, Output: b.Output}
	}
	key := events.IdempotencyKey(p.w.cfg.NamespaceID, f.Task, 1, want.Step, want.Operation)
	if err != nil || x.Task != want.Task || x.Step != want.Step || x.Operation != want.Operation || x.Attempt != want.Attempt || x.CompleteBy != want.CompleteBy ||
		!bytes.Equal(x.Input, want.Input) || !bytes.Equal(x.Output, want.Output) || x.IdempotencyKey != key || x.Home != p.id || a.Topic != "work."+want.Agent {
		p.w.fail("INV8: the work request of %s asks for something else: %+v: %v", events.FactID(f, p.id), x, err)
	}
	p.resends(s, f, attempt{want.Task, want.Step, want.Operation, want.Attempt})
}

func (p *partition) origin(r *events.Record, in events.Input) events.Cause {
	var part, offset int64
	from := r.Header(events.HeaderForwardedFrom)
	for i := range from {
		if from[i] == '/' {
			part, _ = strconv.ParseInt(from[:i], 10, 32)
			offset, _ = strconv.ParseInt(from[i+1:], 10, 64)
			return events.CauseInput(in, int32(part), offset)
		}
	}
	return ""
}

// arrives notes an effect that landed.
func (p *partition) arrives(key string) { p.arrived[key] = true }
