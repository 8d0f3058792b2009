package model

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// replica is a node's share of a partition in a running world: its owner, and the messages in flight to and from it.
type replica struct {
	w  *World
	sp *space
	// n is its index among the shares of the world, and p is its partition.
	n int
	p int32
	*share
	part *part
}

func (w *World) replica(n int) replica {
	p := int32(n) % w.sp.cfg.Full
	return replica{w, w.sp, n, p, &w.s.nodes[n], &w.s.parts[p]}
}

func (x replica) log() *logNode { return x.sp.logs[x.part.log] }

// label names a node, with the partition if there are several.
func (x replica) label() string {
	name := x.sp.cfg.nodeName(x.n / int(x.sp.cfg.Full))
	if x.sp.cfg.Full > 1 {
		name += fmt.Sprintf("/%d", x.p)
	}
	return name
}

func (x replica) assigned() bool {
	return int(x.part.group) == x.n/int(x.sp.cfg.Full)
}

// deliver passes an event to the owner, and executes its actions.
func (x replica) deliver(e *event) {
	e.clock = x.w.s.clock
	r := x.sp.deliver(x.slot, e)
	x.slot = r.slot
	for i := range r.outs {
		x.execute(&r.outs[i])
	}
	x.skipDelays()
}

// skipDelays executes at once the actions that take no time in this configuration.
func (x replica) skipDelays() {
	if x.w.violation != "" {
		return
	}
	if !x.sp.cfg.Replays && x.replayTo > 0 {
		x.replay()
	}
	for i := range x.sends {
		if !x.sp.cfg.Alerts && x.sp.effects[x.sends[i].effect].kind == events.EffectAlert {
			x.sendLands(i)
			x.sendAnswered(i, event{})
			return // a nested call received the acknowledgement and handled the other actions
		}
	}
}

func (x replica) replay() {
	records := x.log().records[x.replayFrom:x.replayTo]
	if x.sp.cfg.Pages && len(records) > 1 {
		records = records[:1]
	}
	e := event{kind: evReplayed, in: x.sp.destinations[x.replayFor], from: x.replayFrom, records: records}
	x.replayFrom, x.replayTo = 0, 0
	x.deliver(&e)
}

// execute executes an action of the owner.
func (x replica) execute(out *output) {
	switch out.kind {
	case outRelease:
		x.release()
	case outLoad:
		x.load, x.tail = true, out.from
	case outClaim:
		sendClaim(x, out)
	case outAppend:
		x.startsAtHeld(out)
		x.flights = append(x.flights, flight{records: out.records})
		x.w.note("%s decides %s (%d in flight)", x.label(), x.sp.describeAll(out.records), len(x.flights))
	case outCommit:
		x.committed(out)
	case outReadInputs:
		for i, from := range [...]int64{out.from, out.to} {
			if from >= 0 {
				x.reads[i] = from
			}
		}
		x.w.note("%s owns epoch %s and reads submissions from %d, reports from %d", x.label(), claimName(x.sp.slots[x.slot].owner.Status().Epoch.ID), out.from, out.to)
	case outReadFacts:
		x.replayFor = x.sp.destination(out.in)
		if x.replayFrom, x.replayTo = out.from, out.to; out.to == 0 {
			x.w.fail("%s reads nothing again", x.label())
		}
	case outFetch:
		x.fetches = append(x.fetches, fetch{uint8(topicOf(out.in)), out.from})
	case outSend:
		x.w.judge(x.p).leaves(out.effect, x.sp.slots[x.slot].owner.Status().Epoch)
		if x.stale && x.sp.effects[out.effect].kind == events.EffectWork {
			x.w.fail("work is sent in an epoch that was over when its owner woke up: %s", x.sp.effects[out.effect].name)
		}
		if w := x.sp.effects[out.effect].work; w != nil && x.sp.cfg.far(w.CompleteBy) && x.sp.cfg.compared(x.n/int(x.sp.cfg.Full)) {
			x.w.fail("work leaves whose complete-by time is days ahead: %s", x.sp.effects[out.effect].name)
		}
		x.sends = append(x.sends, send{effect: out.effect})
		x.w.note("%s is about to send %s", x.label(), x.sp.effects[out.effect].name)
	case outAskEnds:
		x.ends = question{stage: 1}
		x.w.note("%s asks for the end offsets", x.label())
	case outAskEnd:
		x.woke = endQuestion{stage: 1}
		x.w.note("%s asks for the end of its log", x.label())
	case outAskCatalog:
		x.catalog = true
	case outTrim:
		x.trim(out)
	case outEnd:
		x.w.note("the process of %s ends while it judges", x.label())
		x.release()
		x.believes = false
	case outStop:
		stops(x, out)
	}
}

func sendClaim(x replica, out *output) {
	x.flights = []flight{{records: out.records, claim: true}}
	x.w.note("%s sends %s", x.label(), x.sp.describeAll(out.records))
	if x.log().state.Partition.Closed != nil {
		x.w.fail("%s claims a partition that is closed", x.label())
	}
	if x.sp.slots[x.slot].claims > claimsMax {
		x.w.fail("livelock: %s claims again and again", x.label())
	}
}

func stops(x replica, out *output) {
	switch {
	case out.lost && x.sp.cfg.Budgets[Trims] > 0:
		x.stopped = true
		x.w.note("%s stops: %s", x.label(), out.err)
	case x.sp.cfg.older(x.n/int(x.sp.cfg.Full)) && strings.Contains(out.err, events.ErrReaderTooOld.Error()):
		x.w.note("%s gives the partition up: %s", x.label(), out.err)
		x.part.group = uint8(x.sp.cfg.Older % x.sp.cfg.Nodes)
	case out.closed && x.log().state.Partition.Closed != nil:
		x.w.note("%s stops: %s", x.label(), out.err)
	default:
		x.w.fail("%s stops: %s", x.label(), out.err)
	}
}

// sleep is a pause of the process, right before it would have sent its effects.
func (x replica) sleep() {
	e := event{kind: evWoke}
	x.sends = slices.DeleteFunc(x.sends, func(s send) bool {
		if !s.landed {
			e.records = append(e.records, s.effect)
		}
		return !s.landed
	})
	x.stale = x.over()
	x.deliver(&e)
}

// over says whether the epoch that the owner believes in is over.
func (x replica) over() bool {
	return x.sp.slots[x.slot].owner.Status().Epoch != x.log().state.Partition.Epoch
}

// abandon forgets an append in flight, which may still land.
func (x replica) abandon(f flight) {
	if !f.landed() && !f.lost {
		x.part.late = append(x.part.late, flight{records: f.records[len(f.offsets):]})
	}
}

// release ends a generation: nobody waits for its answers any more, but its appends and effects in flight may still
// land.
func (x replica) release() {
	for _, f := range x.flights {
		x.abandon(f)
	}
	for _, s := range x.sends {
		if !s.landed {
			x.part.lateEffects = append(x.part.lateEffects, s.effect)
		}
	}
	x.reset()
}

// committed checks a commit against the judge's fold at the same offset (INV2, INV3), and that every live task has
// something that moves it (INV10).
func (x replica) committed(out *output) {
	d, l := out.delta, x.log()
	switch {
	case out.err != "":
		x.w.fail("INV3: %s: %s", x.label(), out.err)
	case d.Next > l.end():
		x.w.fail("INV3: %s commits up to %d, the log ends at %d", x.label(), d.Next, l.end())
	case d.Sum != l.sums[d.Next-1]:
		x.w.fail("INV2: a store differs from the fold at its offset: %s at %d", x.label(), d.Next)
	}
	for _, t := range d.Tasks {
		k := t.Keys
		if t.Encoding != nil && !k.State.Ended() && k.State != events.TaskStateError && !bytes.Contains(t.Encoding, []byte(`"paused":`)) && k.Due == 0 && k.Wake == 0 && len(k.Ready) == 0 && !k.Unplanned {
			x.w.fail("INV10: %s commits task %s, %s, with nothing that moves it", x.label(), t.ID, k.State)
		}
	}
	x.w.note("%s commits up to %d", x.label(), d.Next)
}

func (x replica) learn() {
	x.believes = x.assigned()
	e := event{kind: evRevoke}
	if x.believes {
		e.kind = evAssign
	}
	x.deliver(&e)
	if x.sp.cfg.Coarse && x.load && x.mayRead() {
		x.read()
	}
}

func (x replica) read() {
	if !x.assigned() && x.reading(claims) {
		x.w.s.used[StaleClaims]++
	}
	began := x.reads
	for _, e := range x.readEvents() {
		if e.kind == evLoaded {
			x.load = false
		} else {
			x.tail = e.to
		}
		x.deliver(&e)
	}
	if !x.sp.cfg.Coarse || x.reads == began {
		return
	}
	var some []int
	for i, at := range x.reads {
		if at >= 0 && (at < int64(len(x.part.inputs[i])) || x.gone(i)) {
			some = append(some, i)
		}
	}
	if len(some) == 1 && x.replayTo == 0 {
		x.readInput(some[0])
	}
}

// readEvents returns the events by which the owner reads its log to the end.
func (x replica) readEvents() (list []event) {
	l := x.log()
	if x.load {
		list = append(list, event{kind: evLoaded, clock: x.w.s.clock, to: l.end()})
	}
	if x.tail < l.end() {
		list = append(list, event{kind: evTail, clock: x.w.s.clock, from: x.tail, to: l.end(), records: l.records[x.tail:]})
	}
	return list
}

// reading says whether something holds for some result of reading the log to its end.
func (x replica) reading(is func(r *result) bool) bool {
	id := x.slot
	for _, e := range x.readEvents() {
		r := x.sp.deliver(id, &e)
		if is(r) {
			return true
		}
		id = r.slot
	}
	return false
}

// readMatters says whether reading its log would change the owner. Its own facts do not: they are read later, together
// with the records after them.
func (x replica) readMatters() bool {
	return x.reading(x.moved)
}

func claims(r *result) bool {
	return slices.ContainsFunc(r.outs, func(o output) bool { return o.kind == outClaim })
}

// mayRead says whether the node may read its log: reading makes a replaced node claim, which costs a budget.
func (x replica) mayRead() bool {
	return x.assigned() || x.w.left(StaleClaims) || !x.reading(claims)
}

// moved says whether an event changes the owner or makes it act.
func (x replica) moved(r *result) bool {
	return len(r.outs) > 0 || x.sp.slots[r.slot].still != x.sp.slots[x.slot].still
}

// tickMatters says whether a tick would change the owner.
func (x replica) tickMatters() bool {
	if !x.believes || (x.sp.cfg.UnknownByTick && len(x.flights) > 0) {
		return false
	}
	return x.moved(x.sp.deliver(x.slot, &event{kind: evTick, clock: x.w.s.clock}))
}

func (x replica) readInput(i int) {
	if x.gone(i) {
		x.meetLoss(i)
		return
	}
	list := x.part.inputs[i]
	e := event{kind: evInput, in: topics[i], from: x.reads[i], to: int64(len(list))}
	for _, l := range list[x.reads[i]:] {
		e.records = append(e.records, l.input)
	}
	x.reads[i] = e.to
	x.deliver(&e)
}

func (x replica) fetch(i int) {
	f := x.fetches[i]
	x.fetches = slices.Delete(x.fetches, i, i+1)
	if f.offset < x.part.start[f.in] {
		x.deliver(&event{kind: evFetched, in: topics[f.in], from: f.offset, fail: true})
		return
	}
	id := x.part.inputs[f.in][f.offset].input
	x.deliver(&event{kind: evFetched, in: topics[f.in], from: f.offset, records: []int32{id}})
}

func (x replica) flight(a Action) {
	f := &x.flights[a.i]
	if a.kind == actLose {
		f.lost = true
		return
	}
	records := f.records[len(f.offsets):]
	if a.kind == actLandPart {
		records = records[:1]
	}
	if a.kind == actLandCopy {
		x.part.late = append(x.part.late, flight{records: records})
	}
	f.offsets = append(f.offsets, x.w.land(x.p, records)...)
	if f.claim && !x.sp.cfg.ClaimAcks && f.landed() {
		x.flights = nil
	}
}

func (x replica) ack(i int) {
	f := x.flights[i]
	x.flights = slices.Delete(x.flights, i, i+1)
	if f.claim {
		x.deliver(&event{kind: evClaimed, to: f.offsets[0]})
		return
	}
	e := event{kind: evAppended, rec: f.records[0]}
	for _, o := range f.offsets {
		e.records = append(e.records, int32(o))
	}
	x.deliver(&e)
}

// unknown answers an append with an unknown outcome.
func (x replica) unknown(i int) {
	f := x.flights[i]
	if !f.lost { // the budget was spent when the append was lost
		x.w.s.used[Unknowns]++
	}
	if f.claim {
		x.deliver(&event{kind: evClaimed, fail: true})
		return
	}
	x.deliver(&event{kind: evAppended, rec: f.records[0], fail: true})
	for k := range x.flights { // the epoch continues while an older append has no answer
		if x.flights[k].records[0] == f.records[0] {
			rest := x.flights[k]
			x.flights = slices.Delete(x.flights, k, k+1)
			x.abandon(rest)
			return
		}
	}
}

func (x replica) sendLands(i int) {
	x.sends[i].landed = true
	x.w.arrive(x.p, x.sends[i].effect)
}

// sendAnswered acknowledges or refuses an effect.
func (x replica) sendAnswered(i int, e event) {
	e.kind, e.rec = evSent, x.sends[i].effect
	x.sends = slices.Delete(x.sends, i, i+1)
	x.deliver(&e)
}

func (x replica) answer() {
	x.ends = question{stage: 2, ends: [2]int64{int64(len(x.part.inputs[0])), int64(len(x.part.inputs[1]))}}
}

func (x replica) see() {
	ends := x.ends.ends
	x.ends = question{}
	x.deliver(&event{kind: evEnds, from: ends[0], to: ends[1]})
}
