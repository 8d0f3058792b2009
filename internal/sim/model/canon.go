package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/sagalog/sagalog/supervisor"
)

// print identifies a value by its content.
type print [16]byte

// leftOut lists the fields that the identity of an owner does not need, each with its reason. None of them affects what an owner
// does next; a search that took two different owners for one would be worthless.
//
//	core.now             every call brings the world's time, which is never earlier and is part of the world (unless Config.Wrong is set)
//	core.gen             answers carry it, and the model hands over answers of the current generation alone
//	core.stats           for metrics
//	core.judging         set before each decision, and read when that decision panics, which the model takes for a fault
//	core.cfg, sched      the same in a whole search
//	core.seq             batches differ by their order; seq of batches and of touched tasks is taken relative to it
//	core of each part    written once, as the owner's
//	outbox.nextID        effects differ by their records
//	outbox.works         follows from the entries
//	outbox.bytes, delayed.bytes: follow from the effects
//	core.refused         for an operator
//	effect.of            its entry, which lists it
//	entry.delayed        its destination, which lists it
//	question.number      the model answers the latest question alone
//	epoch.sentAt, batch.sentAt, logReading.lagSince: compared with bounds that no time of the model reaches (or, where
//	                     Config.UnknownByTick is set, that every time does)
//	logReading.next      compared with nothing but the lag
//	epoch.last           the store's anchor
//	State.Void           for metrics
//	State.load, loadPart, lax: the same in a whole search
//	cache.adopted        evicts nothing here, since the bodies of definitions stay in memory
//	deliveries           a reading differs from an earlier one only where definitions are asked for (Config.Catalog, Config.Deleted)
//	Store.last           the anchor, which is nothing to an owner
//	queue.turn           no part of it here, but of the slot's identity
//	lane.heads, head.place: follow from the attempts in memory and the turns
//	lane.dry, tried, head.dry: follow from what memory lacks, as long as no keys wait, which no workflow of the model has
//	lane.spare           scratch space
//	ring.lanes           the lanes of the queue
//	queue.order, able, taken, rooms: what a round works with, written before it is read
//	writer.at, credit    read only where Config.FlushEvery is positive, which it never is here
//	logReading.quietSince, tickedAt, counted: read only where Config.PauseLogAbove is set
//	cache.idle           read only when more tasks are in memory than Config.Tasks, which is set aside unless it is small
//	dispatch.endedAt     read only where more submissions wait than Config.Beside, which no world of the model has
//	limits.known         the same for all owners of a node and a partition
//	inbox.position       read only where RuleResume is off
//	State.carry          follows from the state, since no owner of the model loads a log that was cut
//	State.carries        offsets of the log, for its nodes
//	core.unopened, inputQueue.keyless, missing, retryAt: nothing is sealed here
//	cache.stored         read only while a carry is under way: Config.Carries keeps it
var leftOut = map[string]bool{
	"core.now": true, "core.gen": true, "core.stats": true, "core.judging": true, "core.cfg": true, "core.sched": true,
	"core.store": true, "core.seq": true,
	"epoch.core": true, "inbox.core": true, "core.unopened": true, "inputQueue.keyless": true, "inputQueue.missing": true, "inputQueue.retryAt": true, "alone.core": true, "planner.core": true, "timers.core": true, "outbox.core": true, "dispatch.core": true, "writer.core": true, "waking.core": true, "delays.core": true, "replies.core": true, "schedules.core": true, "limits.core": true, "trimming.core": true, "limits.known": true,
	"dispatch.endedAt": true, "outbox.nextID": true, "outbox.works": true, "outbox.bytes": true, "delayed.bytes": true, "core.refused": true, "effect.id": true, "effect.of": true, "entry.delayed": true, "question.number": true,
	"epoch.sentAt": true, "epoch.last": true, "batch.sentAt": true, "logReading.lagSince": true, "logReading.next": true, "State.Void": true,
	"State.load": true, "State.loadPart": true, "cache.adopted": true, "State.lax": true, "batch.seq": true, "Store.last": true,
	"queue.turn": true, "queue.order": true, "queue.able": true, "queue.taken": true, "queue.rooms": true,
	"lane.heads": true, "lane.dry": true, "lane.tried": true, "lane.spare": true, "head.place": true, "head.dry": true, "ring.lanes": true,
	"carry.core": true, "State.carry": true, "State.carries": true, "cache.stored": true,
	"writer.at": true, "writer.credit": true,
	"logReading.quietSince": true, "logReading.tickedAt": true, "logReading.counted": true,
}

// fieldPlan says how a field is written.
type fieldPlan struct {
	index int
	how   uint8
}

const (
	byValue uint8 = iota
	byTouched
	bySet
)

// plans holds how structs of each type are written.
type plans struct {
	// skip are further fields that a configuration leaves out.
	skip map[string]bool
	// keep are fields of leftOut that it does not leave out.
	keep   map[string]bool
	fields map[reflect.Type][]fieldPlan
	// errors says which types are errors.
	errors map[reflect.Type]bool
}

func (p *plans) of(t reflect.Type) []fieldPlan {
	if plan, ok := p.fields[t]; ok {
		return plan
	}
	plan := []fieldPlan{}
	for i := range t.NumField() {
		name, how := t.Name()+"."+t.Field(i).Name, byValue
		switch {
		case leftOut[name] && !p.keep[name] || p.skip[name] || name == "cache.committed":
			continue
		case name == "cache.touched":
			how = byTouched
		case name == "outbox.waiting":
			how = bySet
		}
		plan = append(plan, fieldPlan{i, how})
	}
	p.fields[t] = plan
	return plan
}

// canon writes each value in a single, canonical way.
type canon struct {
	buf []byte
	*plans
	// base is the number that sequence numbers of batches are relative to, and done is the last committed one.
	base, done uint64
}

func (c *canon) sum() print {
	return printOf(c.buf)
}

func printOf(b []byte) print {
	h := sha256.Sum256(b)
	return print(h[:16])
}

func (c *canon) uint(n uint64) { c.buf = binary.AppendUvarint(c.buf, n) }

func (c *canon) text(s string) {
	c.uint(uint64(len(s)))
	c.buf = append(c.buf, s...)
}

// value writes v, which must be reachable for reading.
func (c *canon) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			c.uint(1)
		} else {
			c.uint(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.buf = binary.AppendVarint(c.buf, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.uint(v.Uint())
	case reflect.Float64:
		c.buf = binary.AppendUvarint(c.buf, uint64(v.Float()*1e6))
	case reflect.String:
		c.text(v.String())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			c.uint(uint64(v.Len()))
			c.buf = append(c.buf, v.Bytes()...)
			return
		}
		c.uint(uint64(v.Len()))
		for i := range v.Len() {
			c.value(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			c.value(v.Index(i))
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			c.uint(0)
			return
		}
		c.uint(1)
		if v.Kind() == reflect.Interface {
			if c.isError(v.Elem().Type()) {
				c.text(open(v).Interface().(error).Error())
				return
			}
			c.text(v.Elem().Type().String())
		} else if c.isError(v.Type()) { // it may be a map's value, which cannot be opened
			c.text(reflect.NewAt(v.Type().Elem(), v.UnsafePointer()).Interface().(error).Error())
			return
		}
		c.value(v.Elem())
	case reflect.Map:
		c.dict(v)
	case reflect.Struct:
		c.structure(v)
	case reflect.Func:
		panic("model: a function in " + v.Type().String() + " has no identity")
	default:
		panic("model: a " + v.Kind().String() + " has no identity")
	}
}

func (c *canon) structure(v reflect.Value) {
	t := v.Type()
	if t.Name() == "readyList" {
		c.ready(v)
		return
	}
	for _, f := range c.of(t) {
		switch x := v.Field(f.index); f.how {
		case byTouched:
			c.touched(open(x).Interface().(map[string]uint64))
		case bySet:
			c.set(x)
		default:
			c.value(x)
		}
	}
}

var errorType = reflect.TypeFor[error]()

func (p *plans) isError(t reflect.Type) bool {
	is, known := p.errors[t]
	if !known {
		is = t.Implements(errorType)
		p.errors[t] = is
	}
	return is
}

// ready writes the attempts of a list in order; their places in memory make no difference.
func (c *canon) ready(v reflect.Value) {
	field := v.FieldByName
	places, order := field("places"), field("order")
	head := int(field("head").Int())
	c.uint(uint64(order.Len() - head))
	for i := head; i < order.Len(); i++ {
		c.value(places.Index(int(order.Index(i).Int())))
	}
}

// dict writes a map in the order of its keys.
func (c *canon) dict(v reflect.Value) {
	c.sorted(v, func(e *canon, key, value reflect.Value) {
		e.value(key)
		e.value(value)
	})
}

// set writes the values of a map without their keys.
func (c *canon) set(v reflect.Value) {
	c.sorted(v, func(e *canon, _, value reflect.Value) { e.value(value) })
}

// sorted writes the entries of a map in the order of their bytes.
func (c *canon) sorted(v reflect.Value, entry func(e *canon, key, value reflect.Value)) {
	c.uint(uint64(v.Len()))
	from := len(c.buf)
	ends := make([]int, 1, 9)
	ends[0] = from
	for i := v.MapRange(); i.Next(); {
		entry(c, i.Key(), i.Value())
		ends = append(ends, len(c.buf))
	}
	if len(ends) <= 2 {
		return
	}
	written := bytes.Clone(c.buf[from:])
	entries := make([][]byte, len(ends)-1)
	for i := range entries {
		entries[i] = written[ends[i]-from : ends[i+1]-from]
	}
	slices.SortFunc(entries, bytes.Compare)
	c.buf = c.buf[:from]
	for _, e := range entries {
		c.buf = append(c.buf, e...)
	}
}

// touched writes the tasks changed by a batch in flight: tasks whose batch is committed count as never touched.
func (c *canon) touched(m map[string]uint64) {
	rest := map[string]int64{}
	for id, seq := range m {
		if seq > c.done {
			rest[id] = int64(seq) - int64(c.base)
		}
	}
	c.dict(reflect.ValueOf(rest))
}

// owner writes an owner.
func (c *canon) owner(o *supervisor.Owner) {
	c.base, c.done = read[uint64](o, "core", "seq"), read[uint64](o, "core", "cache", "committed")
	c.structure(reflect.ValueOf(o).Elem())
}
