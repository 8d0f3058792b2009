package whatif

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// sorted returns the attempts that run, in an order that does not depend on chance.
func (p *playing) sorted() []*planned {
	var list []*planned
	for _, k := range slices.SortedFunc(maps.Keys(p.plans), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.op, b.op), cmp.Compare(a.n, b.n))
	}) {
		if a := p.plans[k]; a.work != nil && !a.answered {
			list = append(list, a)
		}
	}
	return list
}

// next returns the next instant at which something happens, 0 if nothing does.
func (p *playing) next() (at events.Instant) {
	sooner := func(x events.Instant) {
		if x > p.Now && (at == 0 || x < at) {
			at = x
		}
	}
	for _, a := range p.pending {
		if a.work == nil && a.start != never {
			sooner(a.start)
		}
	}
	for _, a := range p.plans {
		if a.work == nil || a.answered {
			continue
		}
		if a.answer.Result != Silent {
			sooner(max(a.ends(), p.Now+1))
		}
		if a.beat != 0 && a.beat < a.lastBeat() {
			sooner(a.beat)
		}
	}
	if len(p.acts) > 0 {
		sooner(max(p.acts[0].At, p.Now+1))
	}
	t := p.task()
	if t == nil {
		return 0
	}
	p.timer = 0
	for _, m := range t.Timers() {
		if m.Kind == events.TimerReminder || m.Kind == events.TimerSoftLimit {
			continue // they alert, and change nothing
		}
		if sooner(m.Due); m.Due > p.Now && (p.timer == 0 || m.Due < p.timer) {
			p.timer = m.Due
		}
	}
	return at
}
