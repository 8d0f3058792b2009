package model

import (
	"encoding/base32"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// slot is a node's share of a partition between two events: the owner and its store. Slots are immutable; an event
// makes a new one from a copy.
type slot struct {
	node int
	// name is that of the node.
	name  byte
	part  int32
	owner *supervisor.Owner
	sched *process
	store *sim.Store
	// older is the store as it was before the last commit, kept if a crash may bring it back.
	older *sim.Store
	// mark is what the process keeps next to its store, for the next process to find.
	mark supervisor.Mark
	// claims counts the claims of the slot, over all its crashes, so that their identifiers are unique.
	claims int
	// print is its identity. still is its identity without the turn among the agents, which changes every time they are looked
	// at.
	print, still print
}

// view is the store as the owner sees it.
type view struct{ *sim.Store }

// Snapshot implements supervisor.Store. The bodies of definitions stay in memory, since evicting them would only multiply the worlds.
func (v *view) Snapshot() (events.Snapshot, error) {
	snap, err := v.Store.Snapshot()
	snap.Load = nil
	return snap, err
}

// event is an input of an owner. Its kind says which fields count.
type event struct {
	kind    eventKind
	clock   uint8
	in      events.Input
	from    int64
	to      int64
	records []int32
	rec     int32
	fail    bool
}

type eventKind uint8

const (
	evStart eventKind = iota
	evCrash
	evCrashOlder
	evCrashEmpty
	evAssign
	evRevoke
	evLoaded
	evTail
	evClaimed
	evAppended
	evInput
	evReplayed
	evFetched
	evSent
	evEnds
	evDefinitions
	evWoke
	evEnd
	evTick
	evLost
	evOffers
	evTrim
)

var (
	errUnknown = errors.New("the outcome is unknown")
	errRefused = errors.New("the broker refuses the record for good")
)

// output is an action of an owner in the terms of the model.
type output struct {
	kind outputKind
	// from and to are offsets, in loads and reads.
	from, to int64
	// in is an input, or the destination of facts that are read.
	in      events.Input
	records []int32
	effect  int32
	delta   *events.Delta
	err     string
	// lost says that the owner stops because an input is lost.
	lost bool
	// closed says that it stops because the namespace is closed.
	closed bool
}

type outputKind uint8

const (
	outRelease outputKind = iota
	outLoad
	outClaim
	outAppend
	outCommit
	outReadInputs
	outReadFacts
	outFetch
	outSend
	outAskEnds
	outAskEnd
	outAskCatalog
	outStop
	outEnd
	outTrim
)

// result is the outcome of an event for a slot.
type result struct {
	slot int32
	outs []output
}

// key identifies an event for a slot.
func (e *event) key(buf []byte, slot int32) []byte {
	c := canon{buf: buf[:0]}
	c.uint(uint64(slot))
	c.buf = append(c.buf, byte(e.kind), e.clock)
	c.text(string(e.in))
	c.uint(uint64(e.from + 1))
	c.uint(uint64(e.to + 1))
	c.uint(uint64(e.rec + 1))
	if e.fail {
		c.buf = append(c.buf, 1)
	}
	for _, r := range e.records {
		c.uint(uint64(r))
	}
	return c.buf
}

// deliver returns the result of the event for the slot. Since an owner is a function of its inputs, a known result is
// returned from memory; otherwise the real owner runs on a copy.
func (s *space) deliver(id int32, e *event) *result {
	s.key = e.key(s.key, id)
	if r, ok := s.results[string(s.key)]; ok {
		return r
	}
	k := string(s.key)
	n := s.slots[id].copy(s)
	s.ran++
	r := &result{}
	n.carryOut(s, e, r)
	r.slot = s.internSlot(n)
	s.results[k] = r
	return r
}

// copy returns a slot that may be changed.
func (x *slot) copy(s *space) *slot {
	c := *x
	if x.owner != nil {
		c.owner = copyOf(&s.copies, x.owner)
		c.sched = copyOf(&s.copies, x.sched)
		c.bind(s)
	}
	return &c
}

// bind makes a copied owner call the copy and not the original.
func (x *slot) bind(s *space) {
	v := &view{x.store}
	o := x.owner
	field(o, "core", "store").Set(reflect.ValueOf(v))
	field(o, "core", "sched").Set(reflect.ValueOf(x.sched))
	cfg := field(o, "core", "cfg").Addr().Interface().(*supervisor.Config)
	cfg.Entropy = x.entropy
	if cfg.Mark != nil {
		cfg.Mark = x.keep
	}
	if st := read[*events.State](o, "core", "state"); st != nil {
		field(st, "load").Set(reflect.ValueOf(events.Loader(func(id string) (events.StoredTask, error) { return v.Store.Load(id) })))
	}
}

// keep keeps a mark, unless the process has ended.
func (x *slot) keep(m supervisor.Mark) {
	if !x.sched.ended {
		x.mark, x.sched.marks = m, m.Judging.Input != ""
	}
}

// entropy returns the identifier of the slot's next claim, which is the same on every path to it.
func (x *slot) entropy() (b [16]byte) {
	b[6], b[7], b[8], b[9] = 'c', byte(x.part), x.name, byte(x.claims+1)
	return b
}

// claimName returns the identifier of a claim in readable form.
func claimName(id string) string {
	b, err := base32.StdEncoding.DecodeString(strings.ToUpper(id))
	if err != nil || len(b) != 10 {
		return id
	}
	return string(rune(b[8])) + strconv.Itoa(int(b[9]))
}

func (x *slot) carryOut(s *space, e *event, r *result) {
	defer func() {
		if p := recover(); p != nil {
			r.outs = append(r.outs, output{kind: outStop, err: fmt.Sprintf("panic: %v", p)})
		}
	}()
	x.call(s, e)
	for {
		x.owner.Decide()
		if x.sched.ended { // the process ended while it decided: nothing of that is left
			x.start(s)
			r.outs = append(r.outs, output{kind: outEnd})
			return
		}
		if x.sched.marks {
			r.outs = append(r.outs, output{kind: outStop, err: "a mark stands, and nothing is judged"})
		}
		list := x.owner.TakeActions()
		if len(list) == 0 {
			// Every call of an owner begins by evicting tasks that the store holds. An answer to a question that was never asked
			// does only that. So two owners do not count as different just because one of them has not been called again yet.
			x.owner.Sent(s.cfg.shows(x.node, e.clock), x.owner.Status().Generation, ^uint64(0), nil)
			return
		}
		for _, a := range list {
			x.do(s, a, r)
		}
	}
}

// call passes the event to the real owner.
func (x *slot) call(s *space, e *event) {
	now, o := s.cfg.shows(x.node, e.clock), x.owner
	switch e.kind {
	case evCrash:
		x.start(s)
	case evCrashOlder:
		x.store, x.older = x.older, nil
		x.start(s)
	case evStart, evCrashEmpty:
		x.store, x.older, x.mark = sim.NewStore(), nil, supervisor.Mark{}
		x.start(s)
	case evAssign:
		o.Assign(now)
	case evRevoke:
		o.Revoke(now)
	case evLoaded:
		o.LogEnd(now, o.Status().Generation, 0, e.to, nil)
	case evTail:
		o.LogRecords(now, o.Status().Generation, s.recordsAt(e.records, e.from), e.to)
	case evClaimed:
		o.Claimed(now, o.Status().Generation, e.to, e.err(errUnknown))
	case evAppended:
		seq, n, ok := x.flying(s, e.rec)
		if !ok {
			return
		}
		if e.fail {
			o.Appended(now, o.Status().Generation, seq, nil, errUnknown)
			return
		}
		at := make([]int64, n)
		for i := range at {
			at[i] = int64(e.records[i])
		}
		o.Appended(now, o.Status().Generation, seq, at, nil)
	case evInput:
		o.Input(now, o.Status().Generation, e.in, s.inputRecords(x.part, e.in, e.records, e.from), e.to)
	case evReplayed:
		o.Replayed(now, o.Status().Generation, string(e.in), s.recordsAt(e.records, e.from), e.from+int64(len(e.records)))
	case evFetched:
		list := append(s.inputRecords(x.part, e.in, e.records, e.from), events.Record{}) // nothing was found of a trimmed input
		o.Fetched(now, o.Status().Generation, events.CauseInput(e.in, x.part, e.from), list[0], e.err(supervisor.ErrPosition))
	case evSent:
		if id, ok := x.waiting(s, e.rec); ok {
			o.Sent(now, o.Status().Generation, id, e.err(errRefused))
		}
	case evEnds:
		o.Ends(now, o.Status().Generation, read[uint64](o, "timers", "ends", "number"), map[events.Input]int64{events.Submissions: e.from, events.Reports: e.to}, nil)
	case evDefinitions:
		o.Definitions(now, o.Status().Generation, read[uint64](o, "inbox", "catalog", "question", "number"), s.cfg.definitions(), nil)
	case evWoke:
		var unsent []uint64
		for _, r := range e.records {
			if id, ok := x.waiting(s, r); ok {
				unsent = append(unsent, id)
			}
		}
		o.Woke(now, o.Status().Generation, unsent)
	case evEnd:
		o.LogEnd(now, o.Status().Generation, read[uint64](o, "waking", "question", "number"), e.to, nil)
	case evTick:
		o.Tick(now)
	case evTrim:
		supervisor.Trim(o, now)
	case evOffers:
		o.SetOffers(now, offers(e.fail))
	case evLost:
		o.Lost(now, o.Status().Generation, supervisor.Topic(e.in), x.loss(e), supervisor.ErrPosition)
	}
}

// loss is the loss that an event of the kind evLost tells of, and what an operator accepted.
func (x *slot) loss(e *event) supervisor.Loss {
	loss := supervisor.Loss{Start: e.from, Offset: e.to}
	if e.to > 0 {
		loss.Accepted = &events.AcceptedLoss{Input: e.in, Partition: x.part, From: int64(e.records[0]), To: int64(e.records[1])}
	}
	return loss
}

// err returns the error if the event is a failure.
func (e *event) err(failure error) error {
	if e.fail {
		return failure
	}
	return nil
}

// start makes a new owner on the slot's store.
func (x *slot) start(s *space) {
	x.sched = &process{Process: sim.NewProcess()}
	cfg := s.cfg.owner(x.node, x.part)
	cfg.Entropy = x.entropy
	if s.cfg.lethal() { // otherwise the questions of an owner after a crash would only multiply the worlds
		cfg.Marked, cfg.Mark = x.mark, x.keep
	}
	o, err := supervisor.NewOwner(cfg, x.sched, &view{x.store})
	if err != nil {
		panic(err)
	}
	x.owner = o
	if list := s.cfg.limitsOf(x.node, x.part); list != nil {
		supervisor.SetLimits(o, Begin, list)
	}
	if s.cfg.compared(x.node) {
		o.Suspend(Begin, false, true)
	}
}

// flying finds the batch in flight that begins with the record, and returns its number and its length.
func (x *slot) flying(s *space, rec int32) (seq uint64, n int, ok bool) {
	list := field(x.owner, "core", "flying")
	id := s.records[rec].Header(events.HeaderID)
	for i := range list.Len() {
		b := list.Index(i).Interface()
		records := read[[]events.Record](b, "records")
		if len(records) > 0 && records[0].Header(events.HeaderID) == id && !read[bool](b, "answered") {
			return read[uint64](b, "seq"), len(records), true
		}
	}
	return 0, 0, false
}

// leaves returns the state hash that a batch in flight should lead to, if the store is written with each batch.
func (x *slot) leaves(seq uint64) (sum []events.Hash) {
	list := field(x.owner, "core", "flying")
	for i := range list.Len() {
		if b := list.Index(i).Interface(); read[uint64](b, "seq") == seq {
			if d := read[*events.Delta](b, "delta"); d != nil {
				sum = append(sum, d.Sum)
			}
		}
	}
	return sum
}

// waiting finds an effect that was sent and has no answer.
func (x *slot) waiting(s *space, effect int32) (uint64, bool) {
	want := &s.effects[effect]
	var ids []uint64
	for i := field(x.owner, "outbox", "waiting").MapRange(); i.Next(); {
		e := i.Value().Interface()
		if read[string](e, "kind") == want.kind && read[string](e, "topic") == want.topic && sameRecord(read[events.Record](e, "record"), want.record) {
			ids = append(ids, i.Key().Uint())
		}
	}
	if len(ids) == 0 {
		return 0, false
	}
	return slices.Min(ids), true
}

// do notes an action. It executes a commit at once, which must happen before the next call.
func (x *slot) do(s *space, a supervisor.Action, r *result) {
	out := output{}
	switch a := a.(type) {
	case supervisor.Release:
		out.kind = outRelease
	case supervisor.Load:
		out.kind, out.from = outLoad, a.From
	case supervisor.Claim:
		x.claims++
		out.kind, out.records = outClaim, s.internRecords([]events.Record{a.Record})
	case supervisor.Append:
		out.kind, out.records = outAppend, s.internRecords(a.Records, x.leaves(a.Batch)...)
	case supervisor.Commit:
		next := x.store.Clone()
		if s.cfg.Off != 0 { // the anchor is not a rule of the protocol, and must not hide the effect of a rule
			a.Last.Offset = a.Delta.Next - 1
		}
		if err := next.Apply(a.Delta, a.Last); err != nil {
			out.err = err.Error()
		}
		if s.cfg.Budgets[OlderStores] > 0 {
			x.older = x.store
		}
		x.store = next
		field(x.owner, "core", "store").Interface().(*view).Store = next
		out.kind, out.delta = outCommit, a.Delta
	case supervisor.ReadInputs:
		out.kind, out.from, out.to = outReadInputs, offsetOf(a.From, events.Submissions), offsetOf(a.From, events.Reports)
	case supervisor.ReadFacts:
		out.kind, out.from, out.to = outReadFacts, a.From, a.To
		out.in = events.Input(a.Destination)
	case supervisor.FetchInput:
		in, _, offset, _ := a.Cause.Input()
		out.kind, out.in, out.from = outFetch, in, offset
	case supervisor.Send:
		if a.Kind == events.EffectStop { // it may be lost, and is here: an agent that acts on it only reports earlier
			return
		}
		out.kind, out.effect = outSend, s.internEffect(x.part, a)
	case supervisor.AskEnds:
		out.kind = outAskEnds
	case supervisor.AskEnd:
		out.kind = outAskEnd
	case supervisor.AskCatalog:
		out.kind = outAskCatalog
	case supervisor.TrimInputs:
		out.kind, out.from, out.to = outTrim, a.Below[events.Submissions], a.Below[events.Reports]
	case supervisor.Stop:
		out.kind, out.err, out.lost, out.closed = outStop, a.Err.Error(), errors.Is(a.Err, supervisor.ErrInputLost), errors.Is(a.Err, supervisor.ErrClosed)
	}
	r.outs = append(r.outs, out)
}

// offsetOf returns where an input is to be read from, -1 if its reading simply continues.
func offsetOf(from map[events.Input]int64, in events.Input) int64 {
	if at, ok := from[in]; ok {
		return at
	}
	return -1
}
