package model

import (
	"encoding/binary"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// state is everything in a world that makes a difference: the contents of the topics, the messages in flight, the
// beliefs of each node, and the budgets left. Its bytes are its identity.
type state struct {
	clock uint8
	used  [budgets]uint8
	// times holds how often each client has acted.
	times []uint8
	parts []part
	nodes []share
	works []work
	// held says that an operator has paused the agent that operators pause: see held.go.
	held bool
	// copied says that this is the copy of the namespace that the world began with. copier is the copy under way, and checkpoints are those of the
	// partitions, 0 for none: see namespace_copy.go.
	copied      bool
	copier      copyRun
	checkpoints []int32
}

// part holds the topics of one partition.
type part struct {
	// group is the node that should own it.
	group uint8
	log   int32
	// inputs are submissions and reports.
	inputs [2][]landed
	// start are the offsets of the first submission and the first report that were not deleted. accepted are the bounds of the loss that an operator accepted last.
	start    [2]int64
	accepted [2]int64
	// before is the number of reports in the topic when the current claim landed.
	before int32
	// arrived are the effects that have landed and that the folded watermark has not passed.
	arrived []int32
	// late are appends of ended epochs that may still land, and lateEffects effects likewise.
	late        []flight
	lateEffects []int32
}

// landed is an input and the time at which it landed.
type landed struct {
	input int32
	clock uint8
}

// share is a node's state for one partition besides the owner and the store.
type share struct {
	slot int32
	// believes says that the node believes that it should own the partition, as it last heard from the group.
	believes bool
	// stopped says that the owner stopped because submissions are lost, and news that a loss has been accepted since.
	stopped, news bool
	// load says that the owner still waits for the end of the log. tail is how far the log was read, -1 for not at all.
	load bool
	tail int64
	// flights are the claim and the appends in flight in this generation, the oldest first.
	flights []flight
	// reads are the offsets up to which the inputs were read; -1 means not at all.
	reads [2]int64
	// replay is the range of facts to read again, while to is positive, and the number of the delayed destination that they are
	// read for, if any.
	replayFrom, replayTo int64
	replayFor            int32
	fetches              []fetch
	ends                 question
	// catalog says that definitions were requested.
	catalog bool
	sends   []send
	// stale says that the owner's epoch was over when its process woke up. woke is the question that it has asked about the end
	// of its log since.
	stale bool
	woke  endQuestion
}

// flight is an append in flight.
type flight struct {
	records []int32
	// offsets are the offsets of the records that have landed.
	offsets []int64
	claim   bool
	lost    bool
}

func (f *flight) landed() bool { return len(f.offsets) == len(f.records) }

type fetch struct {
	in     uint8
	offset int64
}

// question is a request for the ends of the inputs.
type question struct {
	// stage is 0 for none, 1 if asked, 2 if answered with the ends.
	stage uint8
	ends  [2]int64
}

// endQuestion is a request for the end of the log, with stages as in question.
type endQuestion struct {
	stage uint8
	end   int64
}

type send struct {
	effect int32
	landed bool
}

// work is an attempt that an agent has received.
type work struct {
	debt    int32
	effect  int32
	reports uint8
	// sent is when the last acknowledged progress was sent, and unanswered when the one was that is not acknowledged yet: the clock plus one,
	// 0 for none.
	sent, unanswered uint8
	// old says that an agent of the old namespace has it. What it reports comes to the copy only as a callback.
	old bool
}

var topics = [2]events.Input{events.Submissions, events.Reports}

func topicOf(in events.Input) int {
	if in == events.Reports {
		return 1
	}
	return 0
}

// codec writes or reads a state, with one list of fields for both.
type codec struct {
	buf     []byte
	reading bool
}

// encode appends the state's bytes. It sorts collections without an order.
func (s *state) encode(buf []byte) []byte {
	s.order()
	c := codec{buf: buf}
	s.code(&c)
	return c.buf
}

func decode(b []byte) *state {
	s := &state{}
	s.code(&codec{buf: b, reading: true})
	return s
}

// order sorts the sets.
func (s *state) order() {
	for i := range s.parts {
		p := &s.parts[i]
		slices.Sort(p.arrived)
		slices.Sort(p.lateEffects)
		slices.SortFunc(p.late, func(a, b flight) int { return slices.Compare(a.records, b.records) })
	}
	for i := range s.nodes {
		slices.SortFunc(s.nodes[i].sends, func(a, b send) int { return int(a.effect - b.effect) })
	}
	slices.SortFunc(s.works, func(a, b work) int { return int(a.debt - b.debt) })
}

func (s *state) code(c *codec) {
	num(c, &s.clock)
	c.flag(&s.held)
	c.flag(&s.copied)
	c.copier(&s.copier)
	list(c, &s.checkpoints, num[int32])
	for i := range s.used {
		num(c, &s.used[i])
	}
	list(c, &s.times, num[uint8])
	list(c, &s.parts, (*codec).part)
	list(c, &s.nodes, (*codec).share)
	list(c, &s.works, func(c *codec, w *work) {
		num(c, &w.debt)
		num(c, &w.effect)
		num(c, &w.reports)
		num(c, &w.sent)
		num(c, &w.unanswered)
		c.flag(&w.old)
	})
}

func (c *codec) copier(x *copyRun) {
	num(c, &x.stage)
	num(c, &x.part)
	num(c, &x.landed)
	num(c, &x.tries)
	num(c, &x.clock)
	list(c, &x.logs, num[int32])
}

func (c *codec) part(p *part) {
	num(c, &p.group)
	num(c, &p.log)
	for i := range p.inputs {
		list(c, &p.inputs[i], func(c *codec, l *landed) {
			num(c, &l.input)
			num(c, &l.clock)
		})
	}
	num(c, &p.start[0])
	num(c, &p.start[1])
	num(c, &p.accepted[0])
	num(c, &p.accepted[1])
	num(c, &p.before)
	list(c, &p.arrived, num[int32])
	list(c, &p.late, (*codec).flight)
	list(c, &p.lateEffects, num[int32])
}

func (c *codec) share(n *share) {
	num(c, &n.slot)
	c.flag(&n.believes)
	c.flag(&n.stopped)
	c.flag(&n.news)
	c.flag(&n.load)
	num(c, &n.tail)
	list(c, &n.flights, (*codec).flight)
	num(c, &n.reads[0])
	num(c, &n.reads[1])
	num(c, &n.replayFrom)
	num(c, &n.replayTo)
	num(c, &n.replayFor)
	list(c, &n.fetches, func(c *codec, f *fetch) {
		num(c, &f.in)
		num(c, &f.offset)
	})
	num(c, &n.ends.stage)
	num(c, &n.ends.ends[0])
	num(c, &n.ends.ends[1])
	c.flag(&n.catalog)
	list(c, &n.sends, func(c *codec, x *send) {
		num(c, &x.effect)
		c.flag(&x.landed)
	})
	c.flag(&n.stale)
	num(c, &n.woke.stage)
	num(c, &n.woke.end)
}

func (c *codec) flight(f *flight) {
	list(c, &f.records, num[int32])
	list(c, &f.offsets, num[int64])
	c.flag(&f.claim)
	c.flag(&f.lost)
}

func num[T uint8 | int32 | int64](c *codec, v *T) {
	if !c.reading {
		c.buf = binary.AppendVarint(c.buf, int64(*v))
		return
	}
	if b := c.buf[0]; b < 0x80 { // nearly all values are this short
		*v, c.buf = T(b>>1)^-T(b&1), c.buf[1:]
		return
	}
	n, size := binary.Varint(c.buf)
	*v, c.buf = T(n), c.buf[size:]
}

func (c *codec) flag(v *bool) {
	n := uint8(0)
	if *v {
		n = 1
	}
	num(c, &n)
	*v = n == 1
}

func list[T any](c *codec, l *[]T, each func(*codec, *T)) {
	n := int32(len(*l))
	num(c, &n)
	if c.reading && n > 0 {
		*l = make([]T, n)
	}
	for i := range *l {
		each(c, &(*l)[i])
	}
}
