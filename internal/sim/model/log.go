package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// logNode is a log that ends with a certain record, and its judge: the fold of it all.
type logNode struct {
	records []int32
	fates   []events.Fate
	state   *events.State
	sum     events.Hash
	// sums is the state hash after each record.
	sums []events.Hash
	// owed are the effects behind the folded settled position.
	owed []debt
	// cancelled are the tasks whose cancel was held when they were accepted: none of their steps starts.
	cancelled []string
	// fault is what the fold itself found.
	fault string
}

// debt is one effect of an accepted fact.
type debt struct {
	at   events.Position
	id   int32
	fact *events.Fact
}

func (l *logNode) end() int64 { return int64(len(l.records)) }

// last returns the fact of the last record, nil if it is void.
func (l *logNode) last(s *space) *events.Fact {
	n := len(l.records) - 1
	if l.fates[n] != events.FateAccepted {
		return nil
	}
	return s.bodies[l.records[n]]
}

// accepted calls yield for each accepted fact until it returns false.
func (l *logNode) accepted(s *space, yield func(f *events.Fact) bool) {
	for i, r := range l.records {
		if l.fates[i] == events.FateAccepted && !yield(s.bodies[r]) {
			return
		}
	}
}

// find returns the accepted fact for which is holds.
func (l *logNode) find(s *space, is func(f *events.Fact) bool) (found *events.Fact) {
	l.accepted(s, func(f *events.Fact) bool {
		if is(f) {
			found = f
		}
		return found == nil
	})
	return found
}

func (s *space) lax() events.Lax {
	return events.Lax{AnyClaim: s.cfg.Off&supervisor.RuleClaimPrev != 0, AnySequence: s.cfg.Off&supervisor.RuleSequence != 0}
}

// root is the log with which a partition begins: somebody owned it before, who adopted the settings and the
// definitions, so that a search begins with what it is about.
func (s *space) root(part int32) int32 {
	l := &logNode{state: events.NewState(part, nil)}
	l.state.SetLax(s.lax())
	s.logs = append(s.logs, l)
	id := int32(len(s.logs) - 1)
	add := func(f *events.Fact) {
		f.Time, f.Epoch, f.Sequence = Begin, s.logs[id].state.Partition.Epoch, s.logs[id].state.Partition.NextSequence
		r, err := events.EncodeFact(f, part, fmt.Sprintf("/model/events/%d/genesis", part))
		if err != nil {
			panic(err)
		}
		id = s.extend(part, id, s.internRecords([]events.Record{r})[0])
	}
	add(&events.Fact{Body: &events.PartitionClaimed{ID: "g", Owner: "genesis", Reader: events.FormatVersion}})
	cause := events.CauseFact(events.Position{Epoch: events.Epoch{N: 1, ID: "g"}})
	add(&events.Fact{Body: &events.SettingsAdopted{Settings: settings()}, Cause: cause})
	var names []string
	for _, c := range s.cfg.Clients {
		if !slices.Contains(names, c.Workflow) && !s.cfg.Catalog {
			names = append(names, c.Workflow)
			v := compiled()[c.Workflow].version
			add(&events.Fact{Cause: events.CauseDefinition(v.Offset), Body: &events.DefinitionAdopted{Workflow: v.Workflow, Hash: v.Hash, Version: v.Version, Body: v.Body}})
		}
	}
	return id
}

// extend returns the log with one more record at its end.
func (s *space) extend(part int32, log, rec int32) int32 {
	k := [2]int32{log, rec}
	if id, ok := s.logIDs[k]; ok {
		return id
	}
	from := s.logs[log]
	l := &logNode{records: add(from.records, rec), state: copyOf(&s.copies, from.state), owed: from.owed, cancelled: from.cancelled}
	f := s.bodies[rec]
	fate, err := l.state.Apply(f, from.end())
	if err != nil {
		l.fault = fmt.Sprintf("INV2: %s at %d cannot be folded: %v", s.describe(rec), from.end(), err)
	} else if d, err := l.state.Flush(nil); err != nil {
		l.fault = fmt.Sprintf("INV2: %s at %d: %v", s.describe(rec), from.end(), err)
	} else {
		l.sum = d.Sum
	}
	l.fates, l.sums = add(from.fates, fate), add(from.sums, l.sum)
	if fate == events.FateAccepted {
		for _, kind := range effectsOf(f) {
			l.owed = add(l.owed, debt{f.Position(), s.debt(events.FactID(f, part), kind), f})
		}
		l.owed = slices.DeleteFunc(slices.Clone(l.owed), func(d debt) bool { return !f.Settled.Before(d.at) })
		if _, ok := f.Body.(*events.Submitted); ok {
			l.cancelled = slices.DeleteFunc(slices.Clone(l.cancelled), func(t string) bool { return t == f.Task })
			for _, h := range from.state.HeldFor(f.Task) {
				if h.Request.Kind == events.RequestCancel {
					l.cancelled = add(l.cancelled, f.Task)
				}
			}
		}
	}
	id := int32(len(s.logs))
	s.logs = append(s.logs, l)
	s.logIDs[k] = id
	return id
}

// add appends to a copy: what it is appended to stays as it is.
func add[T any](list []T, v T) []T {
	return append(list[:len(list):len(list)], v)
}

// effectsOf is what a fact owes, told apart from the owner.
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

// describe is a fact in a few words: Submitted(T1)[A1/0]. The epoch is named by its claim.
func (s *space) describe(rec int32) string {
	f := s.bodies[rec]
	var what string
	switch b := f.Body.(type) {
	case *events.PartitionClaimed:
		return fmt.Sprintf("Claim{%s, prev %s}", claimName(b.ID), claimName(b.Prev))
	case *events.StepStarted:
		what = attemptName(f.Task, b.Step, events.Do, b.Attempt)
	case *events.StepCompleted:
		what = attemptName(f.Task, b.Step, events.Do, b.Attempt)
	case *events.StepFailed:
		what = attemptName(f.Task, b.Step, events.Do, b.Attempt)
	case *events.Timeout:
		what = attemptName(f.Task, b.Step, b.Operation, b.Attempt)
	case *events.UndoStarted:
		what = attemptName(f.Task, b.Step, events.Undo, b.Attempt)
	case *events.Compensated:
		what = attemptName(f.Task, b.Step, events.Undo, b.Attempt)
	case *events.InputsPassed:
		var parts []string
		for _, in := range topics {
			if p, ok := b.Inputs[in]; ok {
				parts = append(parts, fmt.Sprintf("%s<%d", in, p.Next))
			}
		}
		what = strings.Join(parts, " ")
	case *events.TasksSwept:
		what = strings.Join(b.Tasks, " ")
	case *events.InputRejected:
		what = b.Reason
		if f.Task != "" {
			what += " " + f.Task
		}
	default:
		what = f.Task
	}
	text := fmt.Sprintf("%s(%s)[%s/%d", f.Body.Name(), what, claimName(f.Epoch.ID), f.Sequence)
	if !f.Settled.IsZero() {
		text += fmt.Sprintf(" settled<=%s/%d", claimName(f.Settled.Epoch.ID), f.Settled.Sequence)
	}
	if _, _, _, ok := f.Cause.Input(); ok {
		text += " cause=" + string(f.Cause)
	}
	return text + "]"
}

// describeAll is the facts of an append.
func (s *space) describeAll(records []int32) string {
	var parts []string
	for _, r := range records {
		parts = append(parts, s.describe(r))
	}
	return strings.Join(parts, ", ")
}
