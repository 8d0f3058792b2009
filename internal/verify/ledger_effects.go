package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// ledgerEffects judges what the calls of a step did, whatever the answers or reports said.
func (p *partition) ledgerEffects(x ledgerStep, wrong func(kind, format string, args ...any)) {
	l, st := p.cfg.Ledgers, x.st
	for _, c := range []*calls{x.do, x.undo} {
		if first, second, ok := c.twice(x.undo); ok {
			wrong("twice", "line %d of the ledger %s is a %s of it that took effect, although the one in line %d of %s had",
				second.line, l.names[second.ledger], c.op, first.line, l.names[first.ledger])
		}
	}
	if x.do == nil || x.do.done == 0 {
		return
	}
	do := x.do.last
	// A step that runs once more was undone, as those of a task that ended undone.
	switch ended := (x.s.end == events.NameTaskUndone || x.s.again != nil) && st.undoable; {
	case st.undone && x.undo != nil && x.undo.done > 0 && do.behind(x.undo.last):
		wrong("do_after_undo", "line %d of the ledger %s is a do of it that took effect after its undo in line %d of %s", do.line, l.names[do.ledger], x.undo.last.line, l.names[x.undo.last.ledger])
	case ended && !st.undone:
		wrong("left", "line %d of the ledger %s is a do of it that took effect, but the task ended undone without its undo", do.line, l.names[do.ledger])
	case ended && x.undo != nil && x.undo.answered && x.undo.done == 0 && !x.undo.unknown:
		wrong("left", "line %d of the ledger %s is a do of it that took effect, but no call to undo it did", do.line, l.names[do.ledger])
	}
}

// twice returns two effects under one identifier between which no undo took effect.
func (c *calls) twice(undo *calls) (first, second effect, ok bool) {
	if c == nil || c.done < 2 {
		return first, second, false
	}
	all := c.effects()
	for i, e := range c.before {
		next := all[i+1]
		if c == undo || !undo.between(e, next) {
			return e, next, true
		}
	}
	return first, second, false
}

// between says whether one of the effects may lie between two others.
func (c *calls) between(a, b effect) bool {
	if c == nil || c.done == 0 {
		return false
	}
	for _, e := range c.effects() {
		if !a.behind(e) && !e.behind(b) {
			return true
		}
	}
	return false
}

// effects returns the effects, if any, in the order in which they were read.
func (c *calls) effects() []effect { return append(c.before[:len(c.before):len(c.before)], c.last) }

// behind says whether the effect came after another: by line number if both are in one ledger, otherwise by time.
func (e effect) behind(other effect) bool {
	if e.ledger == other.ledger {
		return e.line > other.line
	}
	return e.time != 0 && other.time != 0 && e.time > other.time
}

// ledgerOrder checks that the steps of a task were undone at the services in the reverse order of completion, but for the items of one fan-out,
// several of which are undone at a time. If two steps are in two ledgers, the clocks of the services must agree to within the time that an undo takes.
func (p *partition) ledgerOrder(steps []ledgerStep) {
	undone := slices.DeleteFunc(slices.Clone(steps), func(x ledgerStep) bool { return x.undo == nil || x.undo.done == 0 })
	slices.SortStableFunc(undone, func(a, b ledgerStep) int { // the one that was undone first comes first: 0 is of unknown outcome
		return cmp.Compare(uint(b.st.completion-1), uint(a.st.completion-1))
	})
	latest := map[string]*undoneLast{} // of each step, with its items
	for _, x := range undone {
		own := events.DefinedStep(x.st.id)
		first := x.undo.effects()[0]
		for _, step := range slices.Sorted(maps.Keys(latest)) {
			if later := latest[step].behind(first); step != own && x.st.completion > 0 && later != nil {
				a, b := first, later.undo.effects()[0]
				p.book.add(Finding{Check: CheckLedgers, Kind: "undo_order", Place: x.at, Task: x.s.id, Step: x.st.id, What: fmt.Sprintf(
					"line %d of the ledger %s is its undo, which took effect before that of step %s, which completed later or is of unknown outcome, in line %d of %s",
					a.line, p.cfg.Ledgers.names[a.ledger], later.st.id, b.line, p.cfg.Ledgers.names[b.ledger])})
			}
		}
		if latest[own] == nil {
			latest[own] = &undoneLast{byLine: map[int]ledgerStep{}, byTime: map[int]ledgerStep{}}
		}
		latest[own].add(x)
	}
}

// undoneLast is what was undone last of a step and its items, in each ledger.
type undoneLast struct {
	byLine, byTime map[int]ledgerStep
}

func (l *undoneLast) add(x ledgerStep) {
	e := x.undo.effects()[0]
	if old, ok := l.byLine[e.ledger]; !ok || e.line > old.undo.effects()[0].line {
		l.byLine[e.ledger] = x
	}
	if old, ok := l.byTime[e.ledger]; !ok || e.time > old.undo.effects()[0].time {
		l.byTime[e.ledger] = x
	}
}

// behind returns a step whose undo took effect after the given effect; nil if none did.
func (l *undoneLast) behind(e effect) *ledgerStep {
	for _, by := range []map[int]ledgerStep{l.byLine, l.byTime} {
		for _, ledger := range slices.Sorted(maps.Keys(by)) {
			if x := by[ledger]; x.undo.effects()[0].behind(e) {
				return &x
			}
		}
	}
	return nil
}
