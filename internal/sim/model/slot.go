package model

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// slot is a node's share of a partition as it is between two events: the owner and its store. Slots are never changed;
// an event makes another one of a copy.
type slot struct {
	node  int
	part  int32
	owner *supervisor.Owner
	sched *process
	store *sim.Store
	// older is the store as it was before the last commit, kept where a crash may find it.
	older *sim.Store
	// claims counts the claims of the slot, over all its crashes: it makes their identifiers fresh.
	claims int
	// print is its identity, and still the identity but for whose turn it is among the agents, which moves on with every
	// look at them.
	print, still print
}

// view is the store as the owner sees it.
type view struct{ *sim.Store }

// event is something that an owner is told. Which fields count, its kind says.
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
	evTick
)

var (
	errUnknown = errors.New("the outcome is unknown")
	errRefused = errors.New("the broker refuses the record for good")
)

// output is an action of an owner in the terms of the model.
type output struct {
	kind outputKind
	// from and to are offsets; in loads and readings.
	from, to int64
	in       events.Input
	records  []int32
	effect   int32
	delta    *events.Delta
	err      string
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
	outAskCatalog
	outStop
)

// result is what an event makes of a slot.
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

// tell returns what the event makes of the slot: by memory where the same was asked before, since an owner is a
// function of what it is told, and otherwise by running the real owner on a copy.
func (s *space) tell(id int32, e *event) *result {
	s.key = e.key(s.key, id)
	if r, ok := s.told[string(s.key)]; ok {
		return r
	}
	k := string(s.key)
	n := s.slots[id].copy(s)
	s.ran++
	r := &result{}
	n.carryOut(s, e, r)
	r.slot = s.internSlot(n)
	s.told[k] = r
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

// bind points what a copied owner calls to the copy.
func (x *slot) bind(s *space) {
	v := &view{x.store}
	o := x.owner
	field(o, "store").Set(reflect.ValueOf(v))
	field(o, "sched").Set(reflect.ValueOf(x.sched))
	cfg := field(o, "cfg").Addr().Interface().(*supervisor.Config)
	cfg.Entropy = x.entropy
	if st := read[*events.State](o, "state"); st != nil {
		field(st, "load").Set(reflect.ValueOf(events.Loader(func(id string) (encoding, keys []byte, err error) { return v.Store.Load(id) })))
	}
}

// entropy gives the next claim of the slot its identifier: the same on every path that comes to it.
func (x *slot) entropy() (b [16]byte) {
	b[12], b[13], b[14], b[15] = 'c', byte(x.part), byte('A'+x.node), byte(x.claims+1)
	return b
}

// claimName is the identifier of a claim as people read it.
func claimName(id string) string {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 16 {
		return id
	}
	return string(rune(b[14])) + strconv.Itoa(int(b[15]))
}

func (x *slot) carryOut(s *space, e *event, r *result) {
	defer func() {
		if p := recover(); p != nil {
			r.outs = append(r.outs, output{kind: outStop, err: fmt.Sprintf("panic: %v", p)})
		}
	}()
	x.call(s, e)
	for {
		list := x.owner.Actions()
		if len(list) == 0 {
			// Every call of an owner begins by letting go of tasks that the store holds. An answer to no question does only
			// that: so two owners are not taken for different ones because one of them has not yet been called again.
			x.owner.Sent(at(e.clock), x.owner.Generation(), ^uint64(0), nil)
			return
		}
		for _, a := range list {
			x.do(s, a, r)
		}
	}
}

// call tells the real owner.
func (x *slot) call(s *space, e *event) {
	now, o := at(e.clock), x.owner
	switch e.kind {
	case evCrash:
		x.start(s)
	case evCrashOlder:
		x.store, x.older = x.older, nil
		x.start(s)
	case evStart, evCrashEmpty:
		x.store, x.older = sim.NewStore(), nil
		x.start(s)
	case evAssign:
		o.Assign(now)
	case evRevoke:
		o.Revoke(now)
	case evLoaded:
		o.Loaded(now, o.Generation(), e.to, nil)
	case evTail:
		o.Tail(now, o.Generation(), s.take(e.records, e.from), e.to)
	case evClaimed:
		o.Claimed(now, o.Generation(), e.to, failure(e.fail))
	case evAppended:
		seq, n, ok := x.flying(s, e.rec)
		if !ok {
			return
		}
		if e.fail {
			o.Appended(now, o.Generation(), seq, nil, errUnknown)
			return
		}
		at := make([]int64, n)
		for i := range at {
			at[i] = int64(e.records[i])
		}
		o.Appended(now, o.Generation(), seq, at, nil)
	case evInput:
		o.Input(now, o.Generation(), e.in, s.inputRecords(x.part, e.in, e.records, e.from), e.to)
	case evReplayed:
		o.Replayed(now, o.Generation(), s.take(e.records, e.from), true)
	case evFetched:
		list := s.inputRecords(x.part, e.in, e.records, e.from)
		o.Fetched(now, o.Generation(), events.CauseInput(e.in, x.part, e.from), list[0], nil)
	case evSent:
		refused := error(nil)
		if e.fail {
			refused = errRefused
		}
		if id, ok := x.waiting(s, e.rec); ok {
			o.Sent(now, o.Generation(), id, refused)
		}
	case evEnds:
		o.Ends(now, o.Generation(), read[uint64](o, "times", "question"), map[events.Input]int64{events.Submissions: e.from, events.Reports: e.to}, nil)
	case evDefinitions:
		o.Definitions(now, o.Generation(), read[uint64](o, "defs", "question"), definitions{}, nil)
	case evTick:
		o.Tick(now)
	}
}

func failure(yes bool) error {
	if yes {
		return errUnknown
	}
	return nil
}

// start makes a new owner on the store that the slot has.
func (x *slot) start(s *space) {
	x.sched = &process{known: map[string]bool{}}
	cfg := s.cfg.owner(x.node, x.part)
	cfg.Entropy = x.entropy
	o, err := supervisor.NewOwner(cfg, x.sched, &view{x.store})
	if err != nil {
		panic(err)
	}
	x.owner = o
}

// flying finds the batch in flight that begins with the record: its number and its length.
func (x *slot) flying(s *space, rec int32) (seq uint64, n int, ok bool) {
	list := field(x.owner, "pipe", "flying")
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

// leaves returns the state hash that a batch in flight was decided to leave; none where the store is written later.
func (x *slot) leaves(seq uint64) (sum []events.Hash) {
	list := field(x.owner, "pipe", "flying")
	for i := range list.Len() {
		if b := list.Index(i).Interface(); read[uint64](b, "seq") == seq {
			if d := read[*events.Delta](b, "delta"); d != nil {
				sum = append(sum, d.Sum)
			}
		}
	}
	return sum
}

// waiting finds the effect that was sent and has no answer.
func (x *slot) waiting(s *space, effect int32) (uint64, bool) {
	want := &s.effects[effect]
	var ids []uint64
	for i := field(x.owner, "box", "waiting").MapRange(); i.Next(); {
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

// do notes an action, and carries out a commit, which has to be done before the next call.
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
		if s.cfg.Off != 0 { // the anchor is no rule of the protocol, and must not hide what one is for
			a.Last.Offset = a.Delta.Next - 1
		}
		if err := next.Apply(a.Delta, a.Last); err != nil {
			out.err = err.Error()
		}
		if s.cfg.Budgets[OlderStores] > 0 {
			x.older = x.store
		}
		x.store = next
		field(x.owner, "store").Interface().(*view).Store = next
		out.kind, out.delta = outCommit, a.Delta
	case supervisor.ReadInputs:
		out.kind, out.from, out.to = outReadInputs, a.From[events.Submissions], a.From[events.Reports]
	case supervisor.ReadFacts:
		out.kind, out.from, out.to = outReadFacts, a.From, a.To
	case supervisor.FetchInput:
		in, _, offset, _ := a.Cause.Input()
		out.kind, out.in, out.from = outFetch, in, offset
	case supervisor.Send:
		out.kind, out.effect = outSend, s.internEffect(x.part, a)
	case supervisor.AskEnds:
		out.kind = outAskEnds
	case supervisor.AskCatalog:
		out.kind = outAskCatalog
	case supervisor.Stop:
		out.kind, out.err = outStop, a.Err.Error()
	}
	r.outs = append(r.outs, out)
}
