package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Action is one thing that may happen next.
type Action struct {
	kind actionKind
	// node is the index of the share (a node's part of a partition) that acts, or of the partition.
	node int16
	// i and j select the thing that the action affects, such as an append or an input.
	i, j int16
	// Progress says that the action happens eventually if nothing else does. All others are faults or actions of people.
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
	actTryAgain
	actAnswer
	actSee
	actCatalog
	actAnswerEnd
	actSeeEnd
	actReport
	actBeat
	actBeatAck
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
	actSleep
	actOwnTrim
	actTrim
	actAccept
	actReassign
	actCrash
	actOlder
	actEmpty
	actClient
	actPass
	actCopyBegin
	actCopyClaim
	actCopyRead
	actCopyLand
	actCopyPart
	actCopyCheck
	actCopy
	actCopierCrash
	actCheckpoint
	actLoseLog
)

// left says whether some of a budget is left.
func (w *World) left(b Budget) bool { return int(w.s.used[b]) < w.sp.cfg.Budgets[b] }

// Enabled returns the actions that may happen next, always in the same order: those under way, oldest first, then faults and
// actions of people.
func (w *World) Enabled() []Action {
	var list []Action
	if w.violation != "" {
		return nil
	}
	for n := range w.s.nodes {
		list = w.replica(n).progress(list)
	}
	for i := range w.s.works {
		list = beats(w, w.reports(list, i), i)
	}
	list = listCopies(w, list)
	for n := range w.s.nodes {
		list = w.replica(n).faults(list)
	}
	for p := range w.sp.cfg.Full {
		list = w.partFaults(list, int(p))
	}
	for i, c := range w.sp.cfg.Clients {
		if int(w.s.times[i]) < c.Times && mayHold(w, c.Kind) {
			list = append(list, Action{kind: actClient, i: int16(i)})
		}
	}
	if w.left(Passes) && (w.s.copied || w.sp.cfg.Budgets[Losses] == 0) && !(w.sp.cfg.Calm && slices.ContainsFunc(list, func(a Action) bool { return a.Progress })) {
		list = append(list, Action{kind: actPass})
	}
	return list
}

// progress lists the actions of a share that are under way.
func (x replica) progress(list []Action) []Action {
	do := func(kind actionKind, i int) {
		list = append(list, Action{kind: kind, node: int16(x.n), i: int16(i), Progress: true})
	}
	if x.believes != x.assigned() {
		do(actLearn, 0)
	}
	if x.tail >= 0 && (x.load || x.readMatters()) && x.mayRead() {
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
		if at >= 0 && (at < int64(len(x.part.inputs[i])) || x.gone(i)) {
			do(actReadInput, i)
		}
	}
	if x.stopped && x.news {
		do(actTryAgain, 0)
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
	switch {
	case x.woke.stage == 1:
		do(actAnswerEnd, 0)
	case x.woke.stage == 2:
		do(actSeeEnd, 0)
	}
	if x.tickMatters() {
		do(actTick, 0)
	}
	return list
}

// faults lists the faults that may happen to a share.
func (x replica) faults(list []Action) []Action {
	do := func(b Budget, kind actionKind, i int) {
		if x.w.left(b) {
			list = append(list, Action{kind: kind, node: int16(x.n), i: int16(i)})
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
		if !x.sp.cfg.UnknownByTick {
			do(Unknowns, actUnknown, i)
		}
	}
	if x.sp.cfg.UnknownByTick && len(x.flights) > 0 {
		do(Unknowns, actUnknownTick, 0)
	}
	for i := range x.sends {
		if !x.sends[i].landed {
			do(SlowAcks, actSlow, i)
			do(Refusals, actRefuse, i)
		}
	}
	if x.sp.slots[x.slot].owner.Status().Owning && (x.over() || x.sp.cfg.Budgets[Reassigns] == 0) {
		do(Sleeps, actSleep, 0)
	}
	if x.w.left(OwnTrims) && x.trimMatters() {
		do(OwnTrims, actOwnTrim, 0)
	}
	if begun := x.sp.cfg.Copy == 0 || x.w.s.copied || x.w.s.copier.stage != copyNone; begun && x.p == 0 && x.w.awake(x.n) {
		do(Crashes, actCrash, 0)
		do(OlderStores, actOlder, 0)
		do(LostStores, actEmpty, 0)
	}
	return list
}

// reports lists the results that the agent of an attempt may report.
func (w *World) reports(list []Action, i int) []Action {
	x := &w.s.works[i]
	if (x.reports > 0 || x.old) && !w.left(Repeats) {
		return list
	}
	list = append(list, Action{kind: actReport, i: int16(i), j: int16(Completed), Progress: x.reports == 0 && !x.old})
	if w.left(Failures) {
		for _, o := range w.sp.cfg.Outcomes {
			list = append(list, Action{kind: actReport, i: int16(i), j: int16(o)})
		}
	}
	return list
}

// awake says whether the share's node would lose anything in a crash.
func (w *World) awake(n int) bool {
	for p := range int(w.sp.cfg.Full) {
		if w.s.nodes[n+p].believes || w.s.nodes[n+p].tail >= 0 {
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
	if w.left(Trims) && part.start[0] < int64(len(part.inputs[topicOf(events.Submissions)])) {
		list = append(list, Action{kind: actTrim, node: int16(p)})
	}
	if w.refused(p) {
		list = append(list, Action{kind: actAccept, node: int16(p), Progress: true})
	}
	if w.left(Reassigns) && !(w.sp.cfg.CalmReassigns && slices.ContainsFunc(list, func(a Action) bool { return a.Progress })) {
		for n := range w.sp.cfg.Nodes {
			if n != int(part.group) {
				list = append(list, Action{kind: actReassign, node: int16(p), i: int16(n)})
			}
		}
	}
	return list
}

// Name returns the action as a sentence: who does what, and then, after a colon, to what.
func (w *World) Name(a Action) string {
	n := int(a.node)
	who := ""
	if a.kind < actReport || (a.kind >= actLandCopy && a.kind <= actUnknownTick) || a.kind >= actSlow && a.kind <= actOwnTrim {
		who = w.replica(n).label()
	}
	switch a.kind {
	case actLearn:
		return fmt.Sprintf("%s learns: assigned=%t", who, w.replica(n).assigned())
	case actRead:
		return fmt.Sprintf("%s reads its log up to %d", who, w.replica(n).log().end())
	case actReadInput:
		return fmt.Sprintf("%s reads %s up to %d", who, topics[a.i], len(w.replica(n).part.inputs[a.i]))
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
	case actAnswerEnd:
		return fmt.Sprintf("the broker tells %s the end of its log", who)
	case actSeeEnd:
		return who + " sees the end of its log"
	case actTryAgain:
		return who + " tries again, since a loss was accepted"
	case actTrim:
		return fmt.Sprintf("submissions %d is deleted", w.s.parts[n].start[0])
	case actAccept:
		from, to := w.loss(n)
		return fmt.Sprintf("an operator gives up the submissions from %d to before %d", from, to)
	case actOwnTrim:
		return who + " trims its inputs"
	case actSleep:
		return who + " slept, and wakes up"
	case actUnknownTick:
		return who + " has no answer for too long"
	case actReport:
		return fmt.Sprintf("the agent reports %s: %s", w.sp.effects[w.s.works[a.i].effect].name, outcomeNames[a.j])
	case actBeat:
		return fmt.Sprintf("the agent sends progress of %s", w.sp.effects[w.s.works[a.i].effect].name)
	case actBeatAck:
		return fmt.Sprintf("the agent has the ack of its progress of %s", w.sp.effects[w.s.works[a.i].effect].name)
	case actClient:
		return w.sp.cfg.Clients[a.i].name()
	case actPass:
		return "the clock passes the next step"
	case actCopyBegin, actCopyClaim, actCopyRead, actCopyLand, actCopyPart, actCopyCheck, actCopy, actCopierCrash, actCheckpoint, actLoseLog:
		return nameCopy(w, a)
	case actSend, actSendAck, actSlow, actRefuse:
		return fmt.Sprintf(sendNames[a.kind], who, w.sp.effects[w.s.nodes[n].sends[a.i].effect].name)
	case actLate, actLateEffect, actReassign, actCrash, actOlder, actEmpty:
		return w.nameFault(a)
	}
	return w.nameFlight(a, who)
}

// sendNames name the actions on an effect: who acts, and the effect.
var sendNames = map[actionKind]string{
	actSend:    "%s sends and has the ack: %s",
	actSendAck: "%s has the ack of the effect: %s",
	actSlow:    "%s sends: %s",
	actRefuse:  "the broker refuses for good, from %s: %s",
}

// flightNames name the actions on an append or a claim: whose it is, which of the two, and its facts.
var flightNames = map[actionKind]string{
	actLand:     "%s's %s lands: %s",
	actAck:      "%s has the ack of its %s: %s",
	actLandCopy: "%s's %s lands, a copy is on its way: %s",
	actLandPart: "%s's %s lands in part: %s",
	actReorder:  "%s's %s lands BEFORE an older one: %s",
	actLose:     "%s's %s is lost: %s",
	actUnknown:  "%s's %s has an unknown outcome: %s",
}

func (w *World) nameFlight(a Action, who string) string {
	f := &w.s.nodes[a.node].flights[a.i]
	records, what := f.records[len(f.offsets):], "append"
	if f.landed() {
		records = f.records
	}
	if f.claim {
		what = "claim"
	}
	return fmt.Sprintf(flightNames[a.kind], who, what, w.sp.describeAll(records))
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
	name := w.sp.cfg.nodeName(int(a.node) / int(w.sp.cfg.Full))
	return name + map[actionKind]string{actCrash: " crashes, keeps its store", actOlder: " crashes, finds an older store", actEmpty: " crashes, loses its store"}[a.kind]
}

// Do performs the enabled action with this name, or the first one whose name begins with it, so that a script can use the
// shortest unambiguous beginning.
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
	return fmt.Errorf("%q cannot happen now; these actions can:\n  %s", name, strings.Join(names, "\n  "))
}
