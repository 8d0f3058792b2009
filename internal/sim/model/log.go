package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// logNode is a log that ends with a given record, and its judge, the fold of the whole log.
type logNode struct {
	records  []int32
	verdicts []events.Fate
	state    *events.State
	sum      events.Hash
	// sums is the state hash after each record.
	sums []events.Hash
	// owed are the effects above the folded watermark.
	owed []debt
	// cancelled are the tasks whose cancel was held when they were accepted: none of their steps starts.
	cancelled []string
	// loads are readers that begin at the carries of the log, as if it had been cut there.
	loads []*sim.Load
	// inherited are the accepted facts of the old namespace, if this is the log of a copy. They have no causes, since their inputs are elsewhere.
	inherited []*events.Fact
	// fault is the violation that the fold itself found.
	fault string
}

// debt is one effect of an accepted fact.
type debt struct {
	at   events.Position
	id   int32
	fact *events.Fact
	// to is the destination of the effect.
	to string
}

func (l *logNode) end() int64 { return int64(len(l.records)) }

// last returns the fact of the last record, nil if it is void.
func (l *logNode) last(s *space) *events.Fact {
	n := len(l.records) - 1
	if l.verdicts[n] != events.FateAccepted {
		return nil
	}
	return s.bodies[l.records[n]]
}

// logsByFact counts the logs that end with an accepted fact, by its name.
func (s *space) logsByFact() map[events.Name]int {
	count := map[events.Name]int{}
	for _, l := range s.logs {
		if l.end() == 0 {
			continue
		}
		if f := l.last(s); f != nil {
			count[f.Body.Name()]++
		}
	}
	return count
}

// accepted calls yield for each accepted fact until it returns false. The facts of the old namespace come first.
func (l *logNode) accepted(s *space, yield func(f *events.Fact) bool) {
	for _, f := range l.inherited {
		if !yield(f) {
			return
		}
	}
	for i, r := range l.records {
		if l.verdicts[i] == events.FateAccepted && !yield(s.bodies[r]) {
			return
		}
	}
}

// find returns the accepted fact for which the function is returns true.
func (l *logNode) find(s *space, is func(f *events.Fact) bool) (found *events.Fact) {
	l.accepted(s, func(f *events.Fact) bool {
		if is(f) {
			found = f
		}
		return found == nil
	})
	return found
}

// answersIn returns the topic in which an accepted fact of the log is answered, "" if it is not. Of the facts by which steps begin, the first of
// a task is.
func (l *logNode) answersIn(s *space, f *events.Fact) (to string) {
	if b, ok := f.Body.(*events.InputRejected); ok {
		return sim.AnsweredRejection(b)
	}
	var of sim.Answers
	l.accepted(s, func(g *events.Fact) bool {
		if g.Task == f.Task {
			to = of.Next(g)
		}
		return g != f
	})
	return to
}

func (s *space) lax() events.Lax {
	return events.Lax{AnyClaim: s.cfg.Off&supervisor.RuleClaimPrev != 0, AnySequence: s.cfg.Off&supervisor.RuleSequence != 0}
}

// root is the log with which a partition begins: an earlier owner has adopted the settings and the definitions, so that a search
// need not repeat that.
func (s *space) root(part int32) int32 {
	l := &logNode{state: events.NewState(part, nil)}
	l.state.SetLevel(newerLevel)
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
	adopted := &events.SettingsAdopted{Settings: s.cfg.settings()}
	if s.cfg.Settings {
		adopted.Offset = settingsAt
	}
	add(&events.Fact{Body: adopted, Cause: cause})
	var names []string
	for _, c := range s.cfg.Clients {
		if !slices.Contains(names, c.Workflow) && !s.cfg.Catalog {
			names = append(names, c.Workflow)
			v, _ := definitions().Current(c.Workflow)
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
	l := &logNode{records: add(from.records, rec), state: copyOf(&s.copies, from.state), owed: from.owed, cancelled: from.cancelled, inherited: from.inherited}
	f := s.bodies[rec]
	fate, err := l.state.Apply(f, from.end())
	if err != nil {
		l.fault = fmt.Sprintf("INV2: %s at %d cannot be folded: %v", s.describe(rec), from.end(), err)
	} else if d, err := l.state.Flush(nil); err != nil {
		l.fault = fmt.Sprintf("INV2: %s at %d: %v", s.describe(rec), from.end(), err)
	} else {
		l.sum = d.Sum
	}
	l.verdicts, l.sums = add(from.verdicts, fate), add(from.sums, l.sum)
	if fate == events.FateAccepted {
		for _, kind := range sim.EffectsOf(f) {
			l.owed = add(l.owed, debt{f.Position(), s.debt(events.FactID(f, part), kind), f, sim.DestinationOf(f, kind, s.cfg.Partitions)})
		}
		if to := l.answersIn(s, f); to != "" {
			l.owed = add(l.owed, debt{f.Position(), s.debt(events.FactID(f, part), events.EffectReply), f, supervisor.RepliesPrefix + to})
		}
		if to := s.endOf(f); to != "" {
			l.owed = add(l.owed, debt{f.Position(), s.debt(events.FactID(f, part), events.EffectEnd), f, to})
		}
		settled := sim.SettledAfter(&from.state.Partition, f)
		l.owed = slices.DeleteFunc(slices.Clone(l.owed), func(d debt) bool { return settled.Covers(d.at, d.to) })
		if _, ok := f.Body.(*events.Submitted); ok {
			l.cancelled = slices.DeleteFunc(slices.Clone(l.cancelled), func(t string) bool { return t == f.Task })
			for _, h := range from.state.HeldFor(f.Task) {
				if h.Request.Kind == events.RequestCancel {
					l.cancelled = add(l.cancelled, f.Task)
				}
			}
		}
	}
	if l.fault == "" {
		s.load(part, from, l, f)
	}
	id := int32(len(s.logs))
	s.logs = append(s.logs, l)
	s.logIDs[k] = id
	return id
}

// load folds the record into the readers that began at a carry, and checks where the log may be cut.
func (s *space) load(part int32, from, l *logNode, f *events.Fact) {
	for _, x := range from.loads {
		l.loads = append(l.loads, x.With(copyOf(&s.copies, x.State)))
	}
	if b, begun := f.Body.(*events.CarryBegun); begun && !b.Copied && l.verdicts[from.end()] == events.FateAccepted {
		fresh := events.NewState(part, nil)
		fresh.SetLevel(newerLevel)
		fresh.SetLax(s.lax())
		l.loads = append(l.loads, &sim.Load{State: fresh, From: from.end()})
	}
	for _, x := range l.loads {
		if fault := x.Follow(f, from.end(), l.state, l.sum); fault != "" {
			l.fault = fault
		}
	}
	stored := events.Snapshot{Next: l.state.Next, Runs: l.state.Runs(), Carries: events.CarryOffsets(l.state)}
	at, ok := stored.Cut(&l.state.Partition, Begin.Add(1<<40))
	for _, d := range l.owed {
		if i := slices.IndexFunc(l.records, func(r int32) bool { return s.bodies[r] == d.fact }); ok && int64(i) < at {
			l.fault = "the log may be cut behind an effect that is owed: " + s.debts[d.id]
		}
	}
}

// add appends to a copy, so that the original stays unchanged.
func add[T any](list []T, v T) []T {
	return append(list[:len(list):len(list)], v)
}

// describe returns a fact in a few words: Submitted(T1)[A1/0]. The epoch is named by its claim.
func (s *space) describe(rec int32) string {
	f := s.bodies[rec]
	var what string
	switch b := f.Body.(type) {
	case *events.PartitionClaimed:
		return fmt.Sprintf("Claim{%s, prev %s}", claimName(b.ID), claimName(b.Prev))
	case *events.StepStarted, *events.StepCompleted, *events.StepFailed, *events.Timeout, *events.CompensationStarted, *events.Compensated:
		what = sim.AttemptOf(f.Task, f.Body).String()
	case *events.InputsPassed:
		var parts []string
		for _, in := range topics {
			if p, ok := b.Inputs[in]; ok {
				parts = append(parts, fmt.Sprintf("%s<%d", in, p.Next))
			}
		}
		what = strings.Join(parts, " ")
	case *events.InputLossAccepted:
		what = fmt.Sprintf("%s %d to before %d", b.Input, b.From, b.To)
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
	if !f.Watermark.IsZero() {
		text += fmt.Sprintf(" watermark<=%s/%d", claimName(f.Watermark.Epoch.ID), f.Watermark.Sequence)
	}
	if _, _, _, ok := f.Cause.Input(); ok {
		text += " cause=" + string(f.Cause)
	}
	return text + "]"
}

// describeAll describes the facts of an append.
func (s *space) describeAll(records []int32) string {
	var parts []string
	for _, r := range records {
		parts = append(parts, s.describe(r))
	}
	return strings.Join(parts, ", ")
}
