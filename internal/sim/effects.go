package sim

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// effects tracks the effects of a partition's facts, and which of them were sent.
type effects struct {
	w *World
	p *partition
	// owed are the effects above the watermark; arrived are the effects that landed or were given up.
	owed    []debt
	arrived map[string]bool
	// sentTo lists the partitions of its topic to which each attempt was sent. Its keys include the ticket.
	sentTo map[taken][]int32
	// attempts holds where all attempts began and ended.
	attempts map[Attempt]span
}

// ticket returns the incarnation of a task, or "" if it does not exist.
func (p *partition) ticket(task string) string {
	if t, _ := p.state.Task(task); t != nil {
		return t.Incarnation
	}
	return ""
}

// runOf returns the run of the step of an attempt, as facts name it.
func runOf(p *partition, a Attempt) int {
	if t, _ := p.state.Task(a.Task); t != nil {
		return t.RunOf(a.Step)
	}
	return 0
}

// debt is one effect of an accepted fact.
type debt struct {
	at   events.Position
	key  string
	fact *events.Fact
	// to is the destination of the effect.
	to string
}

// DestinationOf says what an effect of a fact waits for, in the words of EffectsDelayed. It is independent of the owner's code.
func DestinationOf(f *events.Fact, kind string, partitions int32) string {
	switch kind {
	case events.EffectPermit:
		return permitTo(f, partitions)
	case events.EffectStart, events.EffectChild, events.EffectEnd:
		return relativeTo(f, partitions)
	case events.EffectAlert:
		return "alerts"
	case events.EffectWork:
		if b, ok := f.Body.(*events.StepStarted); ok {
			return "work." + b.Agent
		}
		return "work." + f.Body.(*events.CompensationStarted).Agent
	}
	in, _, _, _ := carriedBy(f).Input()
	if b, ok := f.Body.(*events.InputForwarded); ok {
		return string(in) + "/" + strconv.Itoa(int(b.To))
	}
	return "dlq." + string(in)
}

// carriedBy returns the input that a dead letter or a forward of the fact carries.
func carriedBy(f *events.Fact) events.Cause {
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

// Settled holds the positions up to which the log says effects are settled: the watermark and, for delayed destinations, their
// own.
type Settled struct {
	Watermark events.Position
	Delayed   map[string]events.Position
}

// SettledAfter returns Settled after one more fact.
func SettledAfter(p *events.PartitionState, f *events.Fact) Settled {
	s := Settled{p.Watermark, maps.Clone(p.Delayed)}
	if s.Watermark.Before(f.Watermark) {
		s.Watermark = f.Watermark
	}
	switch b := f.Body.(type) {
	case *events.EffectsDelayed:
		if s.Delayed == nil {
			s.Delayed = map[string]events.Position{}
		}
		s.Delayed[b.Destination] = b.After
	case *events.EffectsCaughtUp:
		delete(s.Delayed, b.Destination)
	}
	return s
}

// Covers says whether the effects of the fact at a position for a destination are settled.
func (s Settled) Covers(at events.Position, destination string) bool {
	after, delayed := s.Delayed[destination]
	return !delayed && !s.Watermark.Before(at) || delayed && !after.Before(at)
}

func (e *effects) key(at events.Position, kind string) string {
	return strconv.Itoa(int(e.p.id)) + "/" + at.String() + " " + kind
}

// goes notes to which partition a request is sent.
func (e *effects) goes(a *supervisor.Send) {
	if a.Kind != events.EffectWork {
		return
	}
	work, _, err := events.DecodeWork(&a.Record)
	if err != nil {
		return // their agents report it
	}
	if e.sentTo == nil {
		e.sentTo = map[taken][]int32{}
	}
	k := taken{ticket: work.Ticket, attempt: Attempt{work.Task, work.Step, work.Operation, work.Attempt}}
	if !slices.Contains(e.sentTo[k], a.Record.Partition) {
		e.sentTo[k] = append(e.sentTo[k], a.Record.Partition)
	}
}

// believes checks that no attempt that two instances may have counts as one without effect.
func (e *effects) believes(f *events.Fact, b *events.StepFailed) {
	k := taken{ticket: e.p.ticket(f.Task), attempt: Attempt{f.Task, b.Step, events.Do, b.Attempt}}
	if to := e.sentTo[k]; b.Effect == events.EffectNone && len(to) > 1 {
		e.w.fail("attempt %d of %s.%s counts as without effect, and was sent to partitions %v", b.Attempt, f.Task, b.Step, to)
	}
}

// EffectsOf lists the effects of a fact. It is independent of the owner's code.
func EffectsOf(f *events.Fact) (kinds []string) {
	kinds = append(otherEffectsOf(f), relativeEffectsOf(f)...)
	if _, _, _, ok := permitOf(f); ok {
		kinds = append(kinds, events.EffectPermit)
	}
	return kinds
}

// otherEffectsOf lists the effects of a fact that are not about permits.
func otherEffectsOf(f *events.Fact) []string {
	switch b := f.Body.(type) {
	case *events.StepStarted, *events.CompensationStarted:
		if relativeEffectsOf(f) == nil {
			return []string{events.EffectWork}
		}
	case *events.InputRejected:
		return []string{events.EffectDeadLetter}
	case *events.InputForwarded:
		return []string{events.EffectForward}
	case *events.TaskParked, *events.TaskReminded, *events.DeadlinePassed, *events.PermitBlocked, *events.SoftLimitPassed:
		return []string{events.EffectAlert}
	case *events.TaskUndone:
		if b.Answers == nil {
			return []string{events.EffectAlert}
		}
	case *events.SchedulePassed:
		if b.Why == events.PassedMissed || b.Why == events.PassedFailed || b.Why == events.PassedOverlap && b.InRow == events.ScheduleBlockedAfter {
			return []string{events.EffectAlert}
		}
	case *events.ScheduleTaskEnded:
		if b.State == events.EndRejected {
			return []string{events.EffectAlert}
		}
	case *events.StepFailed:
		if b.Error.Class == events.ClassPermanent && b.Verdict.Action != events.ActionContinue {
			return []string{events.EffectAlert}
		}
	case *events.EffectFailed:
		switch b.Kind {
		case events.EffectForward:
			return []string{events.EffectDeadLetter, events.EffectAlert}
		case events.EffectWork, events.EffectPermit, events.EffectStart, events.EffectChild, events.EffectEnd, events.EffectCancel:
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
	if _, answered := e.p.answers.owed[id]; answered {
		owed = append(owed, events.EffectReply)
	}
	if sendsRelative(&a) {
		e.says(f, &a)
	} else if a.Kind == events.EffectStart || a.Kind == events.EffectEnd || a.Kind == events.EffectCancel {
		if why := e.p.schedules.leaves(f, &a); why != "" {
			e.w.fail("INV8: the %s of %s %s: %s", a.Kind, f.Body.Name(), id, why)
		}
		owed = append(owed, a.Kind)
	}
	if !slices.Contains(owed, a.Kind) {
		e.w.fail("%s/%d sends %s for %s %s", s.node.name, e.p.id, a.Kind, f.Body.Name(), id)
	}
	if a.Kind == events.EffectWork {
		e.asks(s, f, &a)
	}
	if a.Kind == events.EffectPermit {
		e.speaks(f, &a)
	}
	e.w.note("%s/%d sends %s %s", s.node.name, e.p.id, a.Kind, id)
	return e.key(f.Position(), a.Kind)
}

// asks checks that a work request says what its fact says, under an identifier that all attempts share (docs/protocol.md, "Attempts and effect none").
func (e *effects) asks(s *slot, f *events.Fact, a *supervisor.Send) {
	x, _, err := events.DecodeWork(&a.Record)
	want, began := events.Work{Task: f.Task}, f.Time
	switch b := f.Body.(type) {
	case *events.StepStarted:
		want = events.Work{Task: f.Task, Step: b.Step, Agent: b.Agent, Function: b.Function, Operation: events.Do, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input, Run: events.RunOf(b.Run)}
	case *events.CompensationStarted:
		want = events.Work{Task: f.Task, Step: b.Step, Agent: b.Agent, Function: b.Function, Operation: events.Undo, Attempt: b.Attempt, CompleteBy: b.CompleteBy, Input: b.Input, Output: b.Output, Run: events.RunOf(b.Run)}
	}
	if t, _ := e.p.state.Task(f.Task); t != nil && t.Incarnation == e.p.ticket(f.Task) { // the time may have been corrected since
		started, by := t.Times(want.Step, want.Operation, want.Attempt)
		if b, ok := f.Body.(*events.StepStarted); ok && b.Heartbeat > 0 && started != 0 { // the task allows it more time, as after progress
			by = started.Add(b.CompleteBy.Sub(f.Time))
		}
		if by == x.CompleteBy && started != 0 {
			want.CompleteBy, began = by, started
		}
	}
	want.Ticket = e.p.ticket(f.Task)
	key, undoes := want.Key(e.w.cfg.NamespaceID, want.Operation), ""
	if want.Operation == events.Undo {
		undoes = e.w.doKey(&want)
	}
	if err != nil || x.Task != want.Task || x.Step != want.Step || x.Call() != want.Call() || x.Attempt != want.Attempt || x.Run != want.Run || x.CompleteBy != want.CompleteBy || x.CompleteWithin.Std() != want.CompleteBy.Sub(began) ||
		!bytes.Equal(x.Input, want.Input) || !bytes.Equal(x.Output, want.Output) || x.IdempotencyKey != key || x.Undoes != undoes || x.Ticket != want.Ticket || x.Home != e.p.id || a.Topic != "work."+want.Agent {
		e.w.fail("INV8: the work request of %s asks for something else: %+v: %v", events.FactID(f, e.p.id), x, err)
	}
	if t, _ := e.p.state.Task(f.Task); t != nil && t.Running(want.Step, want.Operation, want.Attempt) {
		s.goesTo(&x, a.Record.Partition)
	}
	e.resends(s, f, Attempt{want.Task, want.Step, want.Operation, want.Attempt})
}

// arrives notes an effect that landed.
func (e *effects) arrives(key string) { e.arrived[key] = true }

// settled checks that the log calls no unsent effect settled.
func (e *effects) settled(s Settled) {
	e.owed = slices.DeleteFunc(e.owed, func(d debt) bool {
		covered := s.Covers(d.at, d.to)
		if covered && !e.arrived[d.key] && StillOwed(e.p.state, d.fact, d.to) {
			e.w.fail("the watermark passes %s, which nobody sent", d.key)
		}
		return covered
	})
}

// StillOwed says whether an effect for a destination must still be sent, given the facts after its own: work only while its attempt runs.
func StillOwed(s *events.State, f *events.Fact, to string) bool {
	if isReplies(to) {
		return true
	}
	t, _ := s.Task(f.Task)
	if t != nil && f.Position().String() != t.Incarnation {
		if accepted, err := events.ParsePosition(t.Incarnation); err != nil || f.Position().Before(accepted) {
			t = nil // another task has the ID now
		}
	}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		return t != nil && t.Running(b.Step, events.Do, b.Attempt)
	case *events.CompensationStarted:
		return t != nil && t.Running(b.Step, events.Undo, b.Attempt)
	case *events.ChildAsked:
		return t != nil && events.AwaitsChild(t, b.Child, b.Link)
	case *events.ScheduleFired:
		return !scheduleKnowsEnd(s, b.Schedule, b.Task)
	case *events.ScheduleCancelRequested:
		return !scheduleKnowsEnd(s, b.Schedule, b.Task)
	}
	return true
}

func scheduleKnowsEnd(s *events.State, name, task string) bool {
	x := s.Schedules[name]
	return x != nil && slices.ContainsFunc(x.Fires, func(f events.ScheduleFire) bool { return f.Task == task && f.State != "" })
}
