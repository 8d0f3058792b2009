package model

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Step performs an enabled action.
func (w *World) Step(a Action) {
	if w.noting {
		w.path = append(w.path, w.Name(a))
		w.notes = nil
	}
	w.do(a)
	for _, n := range w.notes {
		w.path = append(w.path, "    "+n)
	}
	w.notes = nil
}

// cost is the budget that an action uses up.
var cost = map[actionKind]Budget{
	actLandCopy: Doubles, actLandPart: Splits, actReorder: Reorders, actLose: LostAppends, actUnknownTick: Unknowns,
	actLate: LateAppends, actLateEffect: LateEffects, actSlow: SlowAcks, actRefuse: Refusals, actReassign: Reassigns,
	actSleep: Sleeps, actCrash: Crashes, actOlder: OlderStores, actEmpty: LostStores, actPass: Passes,
	actTrim: Trims, actBeat: Beats, actOwnTrim: OwnTrims,
	actCopyPart: Splits, actCopierCrash: CopierCrashes, actCheckpoint: Checkpoints, actLoseLog: Losses,
}

// crashes are the events of a node that crashes.
var crashes = map[actionKind]eventKind{actCrash: evCrash, actOlder: evCrashOlder, actEmpty: evCrashEmpty}

func (w *World) do(a Action) {
	if b, ok := cost[a.kind]; ok {
		w.s.used[b]++
	}
	x, i := w.replica(int(a.node)), int(a.i)
	switch a.kind {
	case actLearn:
		x.learn()
	case actRead:
		x.read()
	case actLand, actLandCopy, actLandPart, actReorder, actLose:
		x.flight(a)
	case actAck:
		x.ack(i)
	case actUnknown:
		x.unknown(i)
	case actReadInput:
		x.readInput(i)
	case actReplay:
		x.replay()
	case actFetch:
		x.fetch(i)
	case actSend:
		x.sendLands(i)
		x.sendAnswered(i, event{})
	case actSlow:
		x.sendLands(i)
	case actSendAck:
		x.sendAnswered(i, event{})
	case actRefuse:
		x.sendAnswered(i, event{fail: true})
	case actTick, actUnknownTick:
		x.deliver(&event{kind: evTick})
	case actAnswer:
		x.answer()
	case actSee:
		x.see()
	case actCatalog:
		x.catalog = false
		x.deliver(&event{kind: evDefinitions})
	case actAnswerEnd:
		x.woke = endQuestion{stage: 2, end: x.log().end()}
	case actSeeEnd:
		end := x.woke.end
		x.woke = endQuestion{}
		x.deliver(&event{kind: evEnd, to: end})
	case actTryAgain:
		x.tryAgain()
	case actSleep:
		x.sleep()
	case actOwnTrim:
		x.deliver(&event{kind: evTrim})
	case actReport:
		w.reported(i, Outcome(a.j))
	case actBeat:
		beat(w, i)
	case actBeatAck:
		beatAnswered(w, i)
	case actClient:
		w.client(i)
	case actPass:
		w.s.clock++
	case actCopyBegin, actCopyClaim, actCopyRead, actCopyLand, actCopyPart, actCopyCheck, actCopy, actCopierCrash, actCheckpoint, actLoseLog:
		doCopy(w, a)
	default:
		w.world(a)
	}
	w.prune()
}

// prune drops everything that can no longer make a difference: late appends and effects whose budget is used up.
func (w *World) prune() {
	for i := range w.s.parts {
		if p := &w.s.parts[i]; !w.left(LateAppends) {
			p.late = nil
		}
		if p := &w.s.parts[i]; !w.left(LateEffects) {
			p.lateEffects = nil
		}
	}
}

// world performs an action on a whole node or partition.
func (w *World) world(a Action) {
	n, i := int(a.node), int(a.i)
	p := &w.s.parts[n%len(w.s.parts)]
	switch a.kind {
	case actLate:
		records := p.late[i].records
		p.late = slices.Delete(p.late, i, i+1)
		w.land(int32(n), records)
	case actLateEffect:
		e := p.lateEffects[i]
		p.lateEffects = slices.Delete(p.lateEffects, i, i+1)
		w.arrive(int32(n), e)
	case actTrim:
		p.start[topicOf(events.Submissions)]++
	case actAccept:
		w.accept(n)
	case actReassign:
		p.group = uint8(i)
	case actCrash, actOlder, actEmpty:
		w.crash(n, crashes[a.kind])
	}
}

func (w *World) reported(i int, o Outcome) {
	if w.s.works[i].reports > 0 || w.s.works[i].old {
		w.s.used[Repeats]++
	}
	if o != Completed {
		w.s.used[Failures]++
	}
	w.report(i, o)
}

// crash takes a node's memory, in all partitions, and starts it again.
func (w *World) crash(n int, kind eventKind) {
	for p := range int(w.sp.cfg.Full) {
		x := &w.s.nodes[n+p]
		w.replica(n + p).release()
		x.believes = false
		e := kind
		if e == evCrashOlder && w.sp.slots[x.slot].older == nil {
			e = evCrash
		}
		w.replica(n + p).deliver(&event{kind: e})
		w.replica(n + p).hear()
	}
}
