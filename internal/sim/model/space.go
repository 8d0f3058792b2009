package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// space holds the parts of the worlds of one configuration, each part once: owners with their stores, logs, records,
// inputs and effects. A world names them by number, so it is small, and two worlds are equal when their numbers are.
// One goroutine owns it.
type space struct {
	cfg    Config
	plans  plans
	copies copies

	slots   []*slot
	slotIDs map[print]int32
	stores  map[*sim.Store]print
	results map[string]*result
	// ran counts the events that a real owner processed, as opposed to those answered from memory.
	ran      int
	key, buf []byte

	records   []events.Record
	recordIDs map[print]int32
	bodies    []*events.Fact
	// expected is, for the last fact of an append, the state hash that its owner expects after it.
	expected map[int32]events.Hash

	inputs   []input
	inputIDs map[print]int32

	effects   []effect
	effectIDs map[print]int32
	debts     []string
	// destinations of facts that are read again; the first is empty.
	destinations []events.Input
	debtIDs      map[string]int32

	logs   []*logNode
	logIDs map[[2]int32]int32

	// next is the space of the copy, and roots are the logs with which copies begin. spent are the incarnations of the tasks of the old
	// namespaces, stored the stores that copiers folded, and taken the checkpoints: see namespace_copy.go.
	next     *space
	spent    []string
	roots    map[string]int32
	made     map[string]*copied
	stored   map[int32]*sim.Store
	taken    []*sim.Store
	takenIDs map[print]int32
	// halves are the logs of copies of which it was checked that no owner claims a part of them.
	halves map[int32]bool
}

// input is a record in an input topic, with what the world knows about it.
type input struct {
	sim.Input
	in     events.Input
	record events.Record
	// origin is where a forwarded copy was found.
	origin events.Cause
	name   string
}

// effect is something that owners send.
type effect struct {
	kind, topic string
	record      events.Record
	// fact is the ce_id of the fact that has this effect. A forward names the input instead, and alerts that are not
	// the effect of a fact are unowed.
	fact   string
	origin events.Cause
	unowed bool
	work   *events.Work
	permit *events.PermitMessage
	// relative is set for what parents and children say to each other.
	relative *sim.Input
	name     string
}

func newSpace(cfg Config) *space {
	s := &space{
		cfg: cfg, destinations: []events.Input{""}, plans: plans{map[string]bool{}, map[string]bool{"core.now": cfg.Wrong, "cache.stored": cfg.Carries}, map[reflect.Type][]fieldPlan{}, map[reflect.Type]bool{}}, copies: copies{map[reflect.Type]bool{}, map[reflect.Type][]int{}}, slotIDs: map[print]int32{}, stores: map[*sim.Store]print{}, results: map[string]*result{},
		recordIDs: map[print]int32{}, inputIDs: map[print]int32{}, effectIDs: map[print]int32{}, debtIDs: map[string]int32{},
		logIDs: map[[2]int32]int32{}, expected: map[int32]events.Hash{},
		roots: map[string]int32{}, stored: map[int32]*sim.Store{}, takenIDs: map[print]int32{}, halves: map[int32]bool{}, made: map[string]*copied{},
	}
	if !cfg.Catalog && cfg.Deleted == "" {
		for _, f := range []string{"catalogReading.deliveries", "catalogReading.seen", "catalogReading.askedAt", "input.delivery"} {
			s.plans.skip[f] = true
		}
	}
	if cfg.Tasks > 8 {
		s.plans.skip["cache.idle"] = true
	}
	if cfg.Off&supervisor.RuleResume == 0 {
		s.plans.skip["inbox.position"] = true
	}
	return s
}

func (s *space) internSlot(x *slot) int32 {
	c := canon{plans: &s.plans, buf: s.buf[:0]}
	c.uint(uint64(x.node))
	c.uint(uint64(x.part))
	c.uint(uint64(x.claims))
	c.value(reflect.ValueOf(x.mark))
	for _, st := range []*sim.Store{x.store, x.older} {
		p := s.storePrint(st)
		c.buf = append(c.buf, p[:]...)
	}
	if x.owner != nil {
		c.value(field(x.sched, "Process", "known"))
		c.owner(x.owner)
	}
	x.still = c.sum()
	if x.owner != nil {
		c.text(read[string](x.owner, "dispatch", "queue", "turn"))
	}
	x.print, s.buf = c.sum(), c.buf
	if id, ok := s.slotIDs[x.print]; ok {
		return id
	}
	id := int32(len(s.slots))
	s.slots = append(s.slots, x)
	s.slotIDs[x.print] = id
	return id
}

func (s *space) storePrint(st *sim.Store) print {
	if st == nil {
		return print{}
	}
	if p, ok := s.stores[st]; ok {
		return p
	}
	c := canon{plans: &s.plans}
	c.structure(reflect.ValueOf(st).Elem())
	s.stores[st] = c.sum()
	return s.stores[st]
}

func recordPrint(r *events.Record, extra ...string) print {
	c := canon{}
	c.text(string(r.Key))
	c.text(string(r.Value))
	for _, h := range r.Headers {
		c.text(h.Key)
		c.text(string(h.Value))
	}
	c.uint(uint64(r.Partition))
	for _, x := range extra {
		c.text(x)
	}
	return c.sum()
}

func sameRecord(a, b events.Record) bool {
	return bytes.Equal(a.Value, b.Value) && bytes.Equal(a.Key, b.Key) && slices.EqualFunc(a.Headers, b.Headers, func(a, b events.Header) bool {
		return a.Key == b.Key && bytes.Equal(a.Value, b.Value)
	})
}

// internRecords numbers records that an owner appends to its log; leaves is the state hash after them.
func (s *space) internRecords(list []events.Record, leaves ...events.Hash) []int32 {
	ids := make([]int32, len(list))
	for i := range list {
		p := recordPrint(&list[i])
		if len(leaves) > 0 && i == len(list)-1 { // the judge must tell apart the same fact decided on two different states
			p = recordPrint(&list[i], fmt.Sprint(leaves[0]))
		}
		id, ok := s.recordIDs[p]
		if !ok {
			id = int32(len(s.records))
			f, err := events.DecodeFact(&list[i])
			if err != nil {
				panic(fmt.Sprintf("model: an owner appends what cannot be decoded: %v", err))
			}
			s.records, s.bodies = append(s.records, list[i]), append(s.bodies, f)
			s.recordIDs[p] = id
		}
		ids[i] = id
	}
	if len(leaves) > 0 {
		s.expected[ids[len(ids)-1]] = leaves[0]
	}
	return ids
}

// recordsAt returns the records of a log from the offset on.
func (s *space) recordsAt(ids []int32, from int64) []events.Record {
	list := make([]events.Record, len(ids))
	for i, id := range ids {
		list[i] = s.records[id]
		list[i].Offset = from + int64(i)
	}
	return list
}

// inputRecords does the same for an input.
func (s *space) inputRecords(part int32, in events.Input, ids []int32, from int64) []events.Record {
	list := make([]events.Record, len(ids))
	for i, id := range ids {
		list[i] = s.inputs[id].record
		list[i].Topic, list[i].Partition, list[i].Offset = "model."+string(in), part, from+int64(i)
	}
	return list
}

func (s *space) internInput(x input) int32 {
	p := recordPrint(&x.record, string(x.in), string(x.origin), fmt.Sprint(x.record.Control))
	if id, ok := s.inputIDs[p]; ok {
		return id
	}
	id := int32(len(s.inputs))
	s.inputs = append(s.inputs, x)
	s.inputIDs[p] = id
	return id
}

func (s *space) internEffect(part int32, a supervisor.Send) int32 {
	p := recordPrint(&a.Record, a.Kind, a.Topic, fmt.Sprint(part, a.ID == 0))
	if id, ok := s.effectIDs[p]; ok {
		return id
	}
	e := effect{kind: a.Kind, topic: a.Topic, record: a.Record, unowed: a.ID == 0}
	switch a.Kind {
	case events.EffectForward:
		e.origin = sim.OriginOf(&a.Record, events.Input(a.Topic))
		e.name = "the forward of " + string(e.origin)
	case events.EffectDeadLetter:
		e.fact = a.Record.Header(supervisor.DeadFact)
		e.name = "the dead letter of " + strings.TrimPrefix(a.Topic, "dlq.") + " " + a.Record.Header(supervisor.DeadOffset)
	case events.EffectWork:
		e.fact = a.Record.Header(events.HeaderID)
		w, _, err := events.DecodeWork(&a.Record)
		if err != nil {
			panic(fmt.Sprintf("model: an owner sends work that cannot be read: %v", err))
		}
		e.work = &w
		e.name = sim.Attempt{Task: w.Task, Step: w.Step, Op: w.Operation, N: w.Attempt}.String()
	case events.EffectPermit:
		e.fact = a.Record.Header(events.HeaderID)
		var m events.PermitMessage
		if err := json.Unmarshal(a.Record.Value, &m); err != nil {
			panic(fmt.Sprintf("model: an owner sends a permit that cannot be read: %v", err))
		}
		e.permit = &m
		x := sim.OfPermit(&a.Record, m)
		e.name = x.Permit.String()
	case events.EffectStart, events.EffectChild, events.EffectEnd:
		e.fact = a.Record.Header(events.HeaderID)
		if a.Record.Header(events.HeaderType) == events.TypeTaskEnd { // nobody reads it, because the world has no schedules
			e.name = "the end for " + a.Record.Header(events.HeaderSubject)
			break
		}
		x, err := sim.RelativeOf(&a.Record)
		if err != nil {
			panic(fmt.Sprintf("model: an owner sends what no parent or child can read: %v", err))
		}
		e.relative, e.name = &x, x.Relative.String()
	case events.EffectAlert:
		e.fact = a.Record.Header(events.HeaderID)
		var body supervisor.Alert
		if err := json.Unmarshal(a.Record.Value, &body); err != nil {
			panic(fmt.Sprintf("model: an owner sends an alert that cannot be read: %v", err))
		}
		e.name = "the alert " + body.Kind + " of " + body.Task
	case events.EffectReply:
		e.fact = a.Record.Header(events.HeaderID)
		e.name = "the reply " + strings.TrimPrefix(a.Record.Header(events.HeaderType), events.TypeReplyPrefix) + " of " + a.Record.Header(events.HeaderSubject)
	default:
		panic("model: an owner sends an effect of the kind " + a.Kind)
	}
	id := int32(len(s.effects))
	s.effects = append(s.effects, e)
	s.effectIDs[p] = id
	return id
}

// endOf returns where the end that a fact tells a schedule goes, "" if it tells none.
func (s *space) endOf(f *events.Fact) string {
	end, _ := events.TaskEndOf(f)
	if b, ok := f.Body.(*events.InputRejected); ok {
		end.Schedule = b.Schedule
	}
	if end.Schedule == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d", events.Reports, events.Home(events.ScheduleKey(end.Schedule), s.cfg.Partitions))
}

// destination numbers a destination.
func (s *space) destination(to events.Input) int32 {
	if at := slices.Index(s.destinations, to); at >= 0 {
		return int32(at)
	}
	s.destinations = append(s.destinations, to)
	return int32(len(s.destinations) - 1)
}

// debt numbers an effect that a fact owes, regardless of who sends it.
func (s *space) debt(fact, kind string) int32 {
	k := fact + " " + kind
	if id, ok := s.debtIDs[k]; ok {
		return id
	}
	id := int32(len(s.debts))
	s.debts = append(s.debts, k)
	s.debtIDs[k] = id
	return id
}
