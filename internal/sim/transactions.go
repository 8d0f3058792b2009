package sim

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// stable returns the last stable offset, where reading ends.
func (t *topic) stable() int64 {
	if len(t.open) > 0 {
		return slices.Min(t.open)
	}
	return t.end()
}

// fetch returns the records between two offsets, without those of aborted transactions.
func (t *topic) fetch(from, to int64) (list []events.Record) {
	for o := from; o < to; o++ {
		if !t.aborted[o] {
			list = append(list, t.records[o])
		}
	}
	return list
}

// committed returns the records that an outside reader can read: an aborted transaction leaves only a gap, like a marker.
func (t *topic) committed() []events.Record {
	list := slices.Clone(t.records[:t.stable()])
	for o := range t.aborted {
		if o < int64(len(list)) {
			list[o] = events.Record{Topic: list[o].Topic, Partition: list[o].Partition, Offset: o, Control: true}
		}
	}
	return list
}

// transaction opens a transaction on a partition of an input, for seconds or minutes. The records after its first one are
// durable, but nobody can read them until it ends.
func (c *clients) transaction() {
	w := c.w
	in, p := bothInputs[w.rng.IntN(2)], w.parts[w.rng.IntN(len(w.parts))]
	t := p.inputs.of(in)
	from := t.end()
	t.open = append(t.open, from)
	r, m := c.bad(in)
	if r.Unread > 0 {
		r = bad("g", "{")
		m.tooLarge = false
	}
	p.inputs.put(in, r, m)
	most := 10_000
	if w.rng.IntN(4) == 0 {
		most = 180_000
	}
	w.after(1000+w.rng.IntN(most), func() {
		abort := w.rng.IntN(2) == 0
		w.note("a transaction on %s/%d that holds back %d records ends, aborted: %v", in, p.id, t.end()-from, abort)
		p.inputs.seeBehind(in, from)
		t.open = slices.DeleteFunc(t.open, func(o int64) bool { return o == from })
		if abort {
			w.saw(sawAborted)
			if t.aborted == nil {
				t.aborted = map[int64]bool{}
			}
			t.aborted[from] = true
			t.meta[from] = &meta{Input: Input{Kind: InputMarker}}
		}
		p.inputs.put(in, events.Record{Control: true}, &meta{Input: Input{Kind: InputMarker}})
	})
}

// seeBehind counts the situations behind an open transaction that ends now.
func (q *inputs) seeBehind(in events.Input, from int64) {
	if q.of(in).end() > from+1 {
		q.w.saw(sawTransaction)
	}
	for _, m := range q.of(in).meta[from:] {
		g := q.p.sagas.byTask[m.Task]
		if m.Kind != InputReport || g == nil || g.steps[m.Report.Step] == nil {
			continue
		}
		s, r := g.steps[m.Report.Step], m.Report
		if r.Operation == events.Do && s.running && s.attempt == r.Attempt && s.completeBy < q.w.now {
			q.w.saw(sawReportBehind)
		}
	}
}
