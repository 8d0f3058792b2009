package model

import "slices"

// Step has an enabled action happen.
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
	actCrash: Crashes, actOlder: OlderStores, actEmpty: LostStores, actPass: Passes,
}

func (w *World) do(a Action) {
	if b, ok := cost[a.kind]; ok {
		w.s.used[b]++
	}
	n, i := int(a.node), int(a.i)
	switch a.kind {
	case actLearn:
		w.learn(n)
	case actRead:
		w.read(n)
	case actLand, actLandCopy, actLandPart, actReorder, actLose:
		w.flight(a)
	case actAck:
		w.ack(n, i)
	case actUnknown:
		w.unknown(n, i)
	case actReadInput:
		w.readInput(n, i)
	case actReplay:
		w.replay(n)
	case actFetch:
		w.fetch(n, i)
	case actSend:
		w.sendLands(n, i)
		w.sendAcked(n, i)
	case actSlow:
		w.sendLands(n, i)
	case actSendAck:
		w.sendAcked(n, i)
	case actRefuse:
		w.sendRefused(n, i)
	case actTick, actUnknownTick:
		w.tell(n, &event{kind: evTick})
	case actAnswer:
		w.answer(n)
	case actSee:
		w.see(n)
	case actCatalog:
		w.s.nodes[n].catalog = false
		w.tell(n, &event{kind: evDefinitions})
	case actReport:
		w.reported(i, Outcome(a.j))
	case actClient:
		w.client(i)
	case actPass:
		w.s.clock++
	default:
		w.world(a)
	}
	w.prune()
}

// prune forgets what can make no difference any more: late appends and effects whose budget is used up.
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

// world does what happens to a whole node or partition.
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
	case actReassign:
		p.group = uint8(i)
	case actCrash:
		w.crash(n, evCrash)
	case actOlder:
		w.crash(n, evCrashOlder)
	case actEmpty:
		w.crash(n, evCrashEmpty)
	}
}

func (w *World) learn(n int) {
	x := &w.s.nodes[n]
	x.told = w.assigned(n)
	e := event{kind: evRevoke}
	if x.told {
		e.kind = evAssign
	}
	w.tell(n, &e)
	if x = &w.s.nodes[n]; w.sp.cfg.Coarse && x.load && w.mayRead(n) {
		w.read(n)
	}
}

func (w *World) read(n int) {
	x := &w.s.nodes[n]
	if !w.assigned(n) {
		if w.reading(n, func(r *result) bool {
			return slices.ContainsFunc(r.outs, func(o output) bool { return o.kind == outClaim })
		}) {
			w.s.used[StaleClaims]++
		}
	}
	began := x.reads
	for _, e := range w.readEvents(n) {
		if e.kind == evLoaded {
			x.load = false
		} else {
			x.tail = e.to
		}
		w.tell(n, &e)
	}
	if !w.sp.cfg.Coarse || x.reads == began {
		return
	}
	var some []int
	for i, at := range x.reads {
		if at >= 0 && at < int64(len(w.s.parts[w.part(n)].inputs[i])) {
			some = append(some, i)
		}
	}
	if len(some) == 1 && x.replayTo == 0 {
		w.readInput(n, some[0])
	}
}

func (w *World) flight(a Action) {
	n, p := int(a.node), w.part(int(a.node))
	f := &w.s.nodes[n].flights[a.i]
	if a.kind == actLose {
		f.lost = true
		return
	}
	records := f.records[len(f.offsets):]
	if a.kind == actLandPart {
		records = records[:1]
	}
	if a.kind == actLandCopy {
		w.s.parts[p].late = append(w.s.parts[p].late, flight{records: records})
	}
	f.offsets = append(f.offsets, w.land(p, records)...)
	if f.claim && !w.sp.cfg.ClaimAcks && f.landed() {
		w.s.nodes[n].flights = nil
	}
}

func (w *World) ack(n, i int) {
	x := &w.s.nodes[n]
	f := x.flights[i]
	x.flights = slices.Delete(x.flights, i, i+1)
	if f.claim {
		w.tell(n, &event{kind: evClaimed, to: f.offsets[0]})
		return
	}
	e := event{kind: evAppended, rec: f.records[0]}
	for _, o := range f.offsets {
		e.records = append(e.records, int32(o))
	}
	w.tell(n, &e)
}

// unknown has an owner learn that nobody knows what became of an append.
func (w *World) unknown(n, i int) {
	x := &w.s.nodes[n]
	f := x.flights[i]
	if !f.lost { // what is lost is found out in the end, and costs nothing more
		w.s.used[Unknowns]++
	}
	if f.claim {
		w.tell(n, &event{kind: evClaimed, fail: true})
		return
	}
	w.tell(n, &event{kind: evAppended, rec: f.records[0], fail: true})
	x = &w.s.nodes[n]
	for k := range x.flights { // the epoch goes on while an older append is without an answer
		if x.flights[k].records[0] == f.records[0] {
			rest := x.flights[k]
			x.flights = slices.Delete(x.flights, k, k+1)
			if !rest.landed() && !rest.lost {
				p := &w.s.parts[w.part(n)]
				p.late = append(p.late, flight{records: rest.records[len(rest.offsets):]})
			}
			return
		}
	}
}

func (w *World) readInput(n, i int) {
	x, list := &w.s.nodes[n], w.s.parts[w.part(n)].inputs[i]
	e := event{kind: evInput, in: topics[i], from: x.reads[i], to: int64(len(list))}
	for _, l := range list[x.reads[i]:] {
		e.records = append(e.records, l.input)
	}
	x.reads[i] = e.to
	w.tell(n, &e)
}

func (w *World) fetch(n, i int) {
	x := &w.s.nodes[n]
	f := x.fetches[i]
	x.fetches = slices.Delete(x.fetches, i, i+1)
	id := w.s.parts[w.part(n)].inputs[f.in][f.offset].input
	w.tell(n, &event{kind: evFetched, in: topics[f.in], from: f.offset, records: []int32{id}})
}

func (w *World) sendLands(n, i int) {
	x := &w.s.nodes[n]
	x.sends[i].landed = true
	w.arrive(w.part(n), x.sends[i].effect)
}

func (w *World) sendAcked(n, i int) {
	x := &w.s.nodes[n]
	e := x.sends[i].effect
	x.sends = slices.Delete(x.sends, i, i+1)
	w.tell(n, &event{kind: evSent, rec: e})
}

func (w *World) sendRefused(n, i int) {
	x := &w.s.nodes[n]
	e := x.sends[i].effect
	x.sends = slices.Delete(x.sends, i, i+1)
	w.tell(n, &event{kind: evSent, rec: e, fail: true})
}

func (w *World) answer(n int) {
	x, p := &w.s.nodes[n], &w.s.parts[w.part(n)]
	x.ends = question{stage: 2, ends: [2]int64{int64(len(p.inputs[0])), int64(len(p.inputs[1]))}}
}

func (w *World) see(n int) {
	x := &w.s.nodes[n]
	ends := x.ends.ends
	x.ends = question{}
	w.tell(n, &event{kind: evEnds, from: ends[0], to: ends[1]})
}

func (w *World) reported(i int, o Outcome) {
	if w.s.works[i].reports > 0 {
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
		w.release(n + p)
		x.told = false
		e := kind
		if e == evCrashOlder && w.sp.slots[x.slot].older == nil {
			e = evCrash
		}
		w.tell(n+p, &event{kind: e})
	}
}
