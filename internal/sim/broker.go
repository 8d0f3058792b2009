package sim

import (
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// topic is one partition of a topic that somebody reads.
type topic struct {
	records  []events.Record
	landedAt []events.Instant
	readers  []*reading
	// start is the offset of the first record that readers still find. The world remembers the records before it.
	start int64
	// open holds the first offsets of open transactions, and aborted the records of aborted ones.
	open    []int64
	aborted map[int64]bool
}

func (t *topic) end() int64 { return int64(len(t.records)) }

// reading reads a topic for one generation of a slot, one portion at a time.
type reading struct {
	slot  *slot
	topic *topic
	next  int64
	// busy is set while a portion is in flight; over is set once the reading has ended.
	busy, over bool
	// lost is called when the records to be read next are deleted.
	lost func()
	give func(o *supervisor.Owner, now events.Instant, records []events.Record, next int64)
}

// start starts a reading.
func (w *World) startReading(r *reading) *reading {
	r.topic.readers = append(r.topic.readers, r)
	w.pump(r)
	return r
}

// pump fetches the next portion if the reading is idle and there is something to read.
func (w *World) pump(r *reading) {
	if r.busy || r.over || len(r.topic.fetch(r.next, r.topic.stable())) == 0 {
		return
	}
	r.busy = true
	w.after(w.lag(), func() {
		if r.over {
			return
		}
		if r.next < r.topic.start {
			r.lost()
			return
		}
		to := r.topic.stable()
		if n := int64(1 + w.rng.IntN(12)); w.rng.IntN(3) == 0 && to-r.next > n && len(r.topic.fetch(r.next, r.next+n)) > 0 {
			to = r.next + n
		}
		records := r.topic.fetch(r.next, to)
		r.slot.tell(w.lag(), func(o *supervisor.Owner, now events.Instant) {
			if r.over {
				return
			}
			r.next, r.busy = to, false
			r.give(o, now, records, to)
			w.pump(r)
		})
	})
}

// land appends records to a topic.
func (w *World) land(t *topic, records []events.Record) (offsets []int64) {
	for i := range records {
		r := records[i]
		r.Offset = t.end()
		t.records = append(t.records, r)
		t.landedAt = append(t.landedAt, w.now)
		offsets = append(offsets, r.Offset)
	}
	t.readers = slices.DeleteFunc(t.readers, func(r *reading) bool { return r.over })
	for _, r := range t.readers {
		w.pump(r)
	}
	return offsets
}

// producer is the client that appends to events for one claim and the facts after it.
type producer struct {
	slot *slot
	gen  uint64
	// time is the start time of the process that opened it.
	time *timeline
	// clear is when its latest append lands: later ones do not overtake, unless the run reorders.
	clear events.Instant
	// closed is set when the client is gone; appends in flight may still land.
	closed bool
}

// appendOutcome is what happens to one append.
type appendOutcome struct {
	// landings say which records land, and after how many milliseconds.
	landings []landing
	// answer says how the append is answered: after the landing with that index, with an error, or not at all.
	answer  int
	refused bool
	silent  bool
}

type landing struct {
	after    int
	from, to int
}

func (w *World) drawOutcome(p *producer, n int) appendOutcome {
	d := w.lag()
	f := appendOutcome{landings: []landing{{d, 0, n}}}
	cut := n
	if n > 1 {
		cut = 1 + w.rng.IntN(n-1)
	}
	switch x := w.faults; {
	case w.chance(x.Lost):
		f.landings = nil
		f.refused, f.silent = w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
		f.refused = f.refused || !f.silent
	case w.chance(x.Silent):
		f.silent = true
	case w.chance(x.Error):
		f.refused = true
	case n > 1 && w.chance(x.Split):
		f.landings[0].to = cut
		f.refused = true
	case n > 1 && w.chance(x.Apart):
		f.landings = []landing{{d, 0, cut}, {d + w.lag(), cut, n}}
		f.answer = 1
		w.saw(sawParts)
	case w.chance(x.Double):
		f.landings = append(f.landings, landing{d + w.lag(), 0, n})
		f.answer = w.rng.IntN(2)
		w.saw(sawDouble)
	case w.chance(x.VeryLate):
		f.landings[0].after += 5000 + w.rng.IntN(30_000)
		f.silent = true
		w.saw(sawVeryLate)
	}
	w.seeOutcome(&f)
	at := w.now + events.Instant(d)
	if !w.chance(w.faults.Reorder) && at < p.clear {
		for i := range f.landings {
			f.landings[i].after += int(p.clear - at)
		}
	}
	for _, l := range f.landings {
		p.clear = max(p.clear, w.now+events.Instant(l.after))
	}
	return f
}

func (w *World) seeOutcome(f *appendOutcome) {
	landed := len(f.landings) > 0
	switch {
	case f.silent && !f.refused && landed:
		w.saw(sawUnknownLanded)
	case f.silent && !f.refused:
		w.saw(sawUnknownLost)
	case f.refused && landed:
		w.saw(sawErrorLanded)
	case f.refused:
		w.saw(sawErrorLost)
	}
}

// produce appends records to the partition's events; answer is called at the broker, once or twice.
func (w *World) produce(p *producer, records []events.Record, answer func(offsets []int64, err error)) {
	for i := range records {
		if size, most := records[i].Size(), w.recordMax(); size > most {
			w.fail("a record of %d bytes is appended; the topic takes %d", size, most)
		}
	}
	f := w.drawOutcome(p, len(records))
	offsets := make([]int64, len(records))
	answered := func(err error) {
		list := append([]int64(nil), offsets...)
		if err != nil {
			list = nil
		}
		twice := w.bit(w.faults.AnswerTwice)
		if twice > 0 {
			w.saw(sawAnswerTwice)
		}
		for range 1 + twice {
			w.after(w.lag(), func() { answer(list, err) })
		}
	}
	for i, l := range f.landings {
		w.after(l.after, func() {
			if p.closed && w.rng.IntN(2) == 0 {
				return // the client is gone, and this append was never sent
			}
			for j, at := range w.append(p, records[l.from:l.to]) {
				offsets[l.from+j] = at
			}
			if !f.silent && !f.refused && i == f.answer {
				answered(nil)
			}
		})
	}
	if f.refused {
		w.after(w.lag(), func() { answered(errBroker) })
	}
}

// recordMax is the largest size of a record of events: the limits of its contents (an undo holds input and output), and
// room for reasons, headers and a definition. A larger record could not be produced, and would end every epoch that tries.
func (w *World) recordMax() int {
	s := &w.cfg.Settings
	return max(s.SubmissionBytes, 2*s.PayloadBytes) + events.MaxProgress + 16<<10
}

func (w *World) bit(p float64) int {
	if w.chance(p) {
		return 1
	}
	return 0
}

// append lands facts, and the partition's judge looks at each.
func (w *World) append(p *producer, records []events.Record) (offsets []int64) {
	part := p.slot.part
	for i := range records {
		if w.violation != "" || part.gone {
			return make([]int64, len(records))
		}
		at := w.land(&part.log, records[i:i+1])[0]
		offsets = append(offsets, at)
		part.judge(&part.log.records[at], p)
	}
	return offsets
}
