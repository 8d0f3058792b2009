package model

import (
	"fmt"
	"slices"
	"strings"
)

// Action is one thing that may happen next.
type Action struct {
	kind actionKind
	// node is the share of which node and partition it is, or the partition.
	node int16
	// i and j number what of it.
	i, j int16
	// Progress says that it happens in the end, if nothing else does: the rest is faults, and what people do.
	Progress bool
}

type actionKind uint8

const (
	actLearn actionKind = iota
	actRead
	actLand
	actAck
	actReadInput
	actReplay
	actFetch
	actSend
	actSendAck
	actTick
	actAnswer
	actSee
	actCatalog
	actReport
	actLandCopy
	actLandPart
	actReorder
	actLose
	actUnknown
	actUnknownTick
	actLate
	actLateEffect
	actSlow
	actRefuse
	actReassign
	actCrash
	actOlder
	actEmpty
	actClient
	actPass
)

// left says whether a budget is not used up.
func (w *World) left(b Budget) bool { return int(w.s.used[b]) < w.sp.cfg.Budgets[b] }

// Enabled returns what may happen next, always in the same order: in the first place what is under way, the oldest
// first, then faults and people.
func (w *World) Enabled() []Action {
	var list []Action
	if w.violation != "" {
		return nil
	}
	for n := range w.s.nodes {
		list = w.progress(list, n)
	}
	for i := range w.s.works {
		list = w.reports(list, i)
	}
	for n := range w.s.nodes {
		list = w.faults(list, n)
	}
	for p := range w.sp.cfg.Full {
		list = w.partFaults(list, int(p))
	}
	for i, c := range w.sp.cfg.Clients {
		if int(w.s.times[i]) < c.Times {
			list = append(list, Action{kind: actClient, i: int16(i)})
		}
	}
	if w.left(Passes) {
		list = append(list, Action{kind: actPass})
	}
	return list
}

// progress lists what a share has under way.
func (w *World) progress(list []Action, n int) []Action {
	x, p := &w.s.nodes[n], w.part(n)
	do := func(kind actionKind, i int) {
		list = append(list, Action{kind: kind, node: int16(n), i: int16(i), Progress: true})
	}
	if x.told != w.assigned(n) {
		do(actLearn, 0)
	}
	if x.tail >= 0 && (x.load || w.readMatters(n)) && w.mayRead(n) {
		do(actRead, 0)
	}
	for i := range x.flights {
		f := &x.flights[i]
		if !f.landed() && !f.lost {
			do(actLand, i)
			break // the others would overtake it
		}
	}
	for i := range x.flights {
		if f := &x.flights[i]; f.landed() {
			do(actAck, i)
		} else if f.lost {
			do(actUnknown, i)
		}
	}
	for i, at := range x.reads {
		if at >= 0 && at < int64(len(w.s.parts[p].inputs[i])) {
			do(actReadInput, i)
		}
	}
	if x.replayTo > 0 {
		do(actReplay, 0)
	}
	for i := range x.fetches {
		do(actFetch, i)
	}
	for i := range x.sends {
		if x.sends[i].landed {
			do(actSendAck, i)
		} else {
			do(actSend, i)
		}
	}
	switch {
	case x.ends.stage == 1:
		do(actAnswer, 0)
	case x.ends.stage == 2:
		do(actSee, 0)
	}
	if x.catalog {
		do(actCatalog, 0)
	}
	if w.tickMatters(n) {
		do(actTick, 0)
	}
	return list
}

func (w *World) assigned(n int) bool {
	return int(w.s.parts[w.part(n)].group) == n/int(w.sp.cfg.Full)
}

// tickMatters says whether the passing of a moment would move the owner.
func (w *World) tickMatters(n int) bool {
	x := &w.s.nodes[n]
	if !x.told || (w.sp.cfg.UnknownByTick && len(x.flights) > 0) {
		return false
	}
	r := w.sp.tell(x.slot, &event{kind: evTick, clock: w.s.clock})
	return len(r.outs) > 0 || w.sp.slots[r.slot].still != w.sp.slots[x.slot].still
}

// readMatters says whether reading its log would move the owner: to see its own facts does not. (What was not read
// then is read with what comes after it.)
func (w *World) readMatters(n int) bool {
	id := w.s.nodes[n].slot
	return w.reading(n, func(r *result) bool {
		return len(r.outs) > 0 || w.sp.slots[r.slot].still != w.sp.slots[id].still
	})
}

// mayRead says whether reading does not have a node claim that was replaced and has used up its budget.
func (w *World) mayRead(n int) bool {
	return w.assigned(n) || w.left(StaleClaims) || !w.reading(n, func(r *result) bool {
		return slices.ContainsFunc(r.outs, func(o output) bool { return o.kind == outClaim })
	})
}

// readEvents are what a share is told when it reads its log to the end.
func (w *World) readEvents(n int) (list []event) {
	x, l := &w.s.nodes[n], w.log(w.part(n))
	if x.load {
		list = append(list, event{kind: evLoaded, clock: w.s.clock, to: l.end()})
	}
	if x.tail < l.end() {
		list = append(list, event{kind: evTail, clock: w.s.clock, from: x.tail, to: l.end(), records: l.records[x.tail:]})
	}
	return list
}

// reading says whether something holds for a result of reading the log to its end.
func (w *World) reading(n int, is func(r *result) bool) bool {
	id := w.s.nodes[n].slot
	for _, e := range w.readEvents(n) {
		r := w.sp.tell(id, &e)
		if is(r) {
			return true
		}
		id = r.slot
	}
	return false
}

// reports lists what the agent that has an attempt may report.
func (w *World) reports(list []Action, i int) []Action {
	x := &w.s.works[i]
	if x.reports > 0 && !w.left(Repeats) {
		return list
	}
	list = append(list, Action{kind: actReport, i: int16(i), j: int16(Completed), Progress: x.reports == 0})
	if w.left(Failures) {
		for _, o := range w.sp.cfg.Outcomes {
			list = append(list, Action{kind: actReport, i: int16(i), j: int16(o)})
		}
	}
	return list
}

// faults lists what may go wrong for a share.
func (w *World) faults(list []Action, n int) []Action {
	x := &w.s.nodes[n]
	do := func(b Budget, kind actionKind, i int) {
		if w.left(b) {
			list = append(list, Action{kind: kind, node: int16(n), i: int16(i)})
		}
	}
	first := true
	for i := range x.flights {
		f := &x.flights[i]
		if f.lost {
			continue
		}
		if !f.landed() {
			if first {
				do(Doubles, actLandCopy, i)
				if len(f.records)-len(f.offsets) > 1 {
					do(Splits, actLandPart, i)
				}
			} else {
				do(Reorders, actReorder, i)
			}
			first = false
			do(LostAppends, actLose, i)
		}
		if !w.sp.cfg.UnknownByTick {
			do(Unknowns, actUnknown, i)
		}
	}
	if w.sp.cfg.UnknownByTick && len(x.flights) > 0 {
		do(Unknowns, actUnknownTick, 0)
	}
	for i := range x.sends {
		if !x.sends[i].landed {
			do(SlowAcks, actSlow, i)
			do(Refusals, actRefuse, i)
		}
	}
	if w.part(n) == 0 && w.awake(n) {
		do(Crashes, actCrash, 0)
		do(OlderStores, actOlder, 0)
		do(LostStores, actEmpty, 0)
	}
	return list
}

// awake says whether the node of the share has anything to lose.
func (w *World) awake(n int) bool {
	for p := range int(w.sp.cfg.Full) {
		if w.s.nodes[n+p].told || w.s.nodes[n+p].tail >= 0 {
			return true
		}
	}
	return false
}

func (w *World) partFaults(list []Action, p int) []Action {
	part := &w.s.parts[p]
	if w.left(LateAppends) {
		for i := range part.late {
			list = append(list, Action{kind: actLate, node: int16(p), i: int16(i)})
		}
	}
	if w.left(LateEffects) {
		for i := range part.lateEffects {
			list = append(list, Action{kind: actLateEffect, node: int16(p), i: int16(i)})
		}
	}
	if w.left(Reassigns) {
		for n := range w.sp.cfg.Nodes {
			if n != int(part.group) {
				list = append(list, Action{kind: actReassign, node: int16(p), i: int16(n)})
			}
		}
	}
	return list
}

// Name returns the action as a sentence: who does what, and then, behind a colon, of what.
func (w *World) Name(a Action) string {
	n := int(a.node)
	who := ""
	if a.kind < actReport || (a.kind >= actLandCopy && a.kind <= actUnknownTick) || a.kind == actSlow || a.kind == actRefuse {
		who = w.label(n)
	}
	switch a.kind {
	case actLearn:
		return fmt.Sprintf("%s learns: assigned=%t", who, w.assigned(n))
	case actRead:
		return fmt.Sprintf("%s reads its log up to %d", who, w.log(w.part(n)).end())
	case actReadInput:
		return fmt.Sprintf("%s reads %s up to %d", who, topics[a.i], len(w.s.parts[w.part(n)].inputs[a.i]))
	case actReplay:
		return who + " reads its facts again"
	case actFetch:
		f := w.s.nodes[n].fetches[a.i]
		return fmt.Sprintf("%s fetches %s %d", who, topics[f.in], f.offset)
	case actTick:
		return who + " ticks"
	case actAnswer:
		return fmt.Sprintf("the broker answers %s's question", who)
	case actSee:
		return who + " sees the answer"
	case actCatalog:
		return who + " reads definitions"
	case actUnknownTick:
		return who + " has no answer for too long"
	case actReport:
		wk := w.sp.effects[w.s.works[a.i].effect].work
		return fmt.Sprintf("the agent reports %s: %s", attemptName(wk.Task, wk.Step, wk.Operation, wk.Attempt), outcomeNames[a.j])
	case actClient:
		return w.sp.cfg.Clients[a.i].name()
	case actPass:
		return "the clock passes the next step"
	case actSend, actSendAck, actSlow, actRefuse:
		return w.nameSend(a, who)
	case actLate, actLateEffect, actReassign, actCrash, actOlder, actEmpty:
		return w.nameFault(a)
	}
	return w.nameFlight(a, who)
}

func (w *World) nameSend(a Action, who string) string {
	e := w.sp.effects[w.s.nodes[a.node].sends[a.i].effect].name
	switch a.kind {
	case actSend:
		return fmt.Sprintf("%s sends and has the ack: %s", who, e)
	case actSendAck:
		return fmt.Sprintf("%s has the ack of the effect: %s", who, e)
	case actSlow:
		return fmt.Sprintf("%s sends: %s", who, e)
	}
	return fmt.Sprintf("the broker refuses for good, from %s: %s", who, e)
}

func (w *World) nameFlight(a Action, who string) string {
	f := &w.s.nodes[a.node].flights[a.i]
	text, what := w.sp.describeAll(f.records[len(f.offsets):]), "append"
	if f.landed() {
		text = w.sp.describeAll(f.records)
	}
	if f.claim {
		what = "claim"
	}
	switch a.kind {
	case actAck:
		return fmt.Sprintf("%s has the ack of its %s: %s", who, what, text)
	case actLandCopy:
		return fmt.Sprintf("%s's %s lands, a copy is on its way: %s", who, what, text)
	case actLandPart:
		return fmt.Sprintf("%s's %s lands in part: %s", who, what, text)
	case actReorder:
		return fmt.Sprintf("%s's %s lands BEFORE an older one: %s", who, what, text)
	case actLose:
		return fmt.Sprintf("%s's %s is lost: %s", who, what, text)
	case actUnknown:
		return fmt.Sprintf("%s's %s has an unknown outcome: %s", who, what, text)
	}
	return fmt.Sprintf("%s's %s lands: %s", who, what, text)
}

func (w *World) nameFault(a Action) string {
	where := ""
	if w.sp.cfg.Full > 1 {
		where = fmt.Sprintf(" %d", a.node)
	}
	switch a.kind {
	case actLate:
		return fmt.Sprintf("a late append lands%s: %s", where, w.sp.describeAll(w.s.parts[a.node].late[a.i].records))
	case actLateEffect:
		return fmt.Sprintf("a late effect lands%s: %s", where, w.sp.effects[w.s.parts[a.node].lateEffects[a.i]].name)
	case actReassign:
		return fmt.Sprintf("the group gives the partition%s to %s", where, nodeName(int(a.i)))
	}
	name := nodeName(int(a.node) / int(w.sp.cfg.Full))
	return name + map[actionKind]string{actCrash: " crashes, keeps its store", actOlder: " crashes, finds an older store", actEmpty: " crashes, loses its store"}[a.kind]
}

// Do has the enabled action happen that has this name, or the first one whose name begins with it, so that a script
// need not tell of what it is where there is but one.
func (w *World) Do(name string) error {
	var names []string
	for _, exact := range []bool{true, false} {
		for _, a := range w.Enabled() {
			n := w.Name(a)
			if n == name || (!exact && strings.HasPrefix(n, name)) {
				w.Step(a)
				return nil
			}
			if exact {
				names = append(names, n)
			}
		}
	}
	return fmt.Errorf("%q cannot happen now; what can:\n  %s", name, strings.Join(names, "\n  "))
}
