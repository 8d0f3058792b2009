package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// judgeCopies checks that nothing is decided in a partition that is closed, and that no task of the old namespace begins a second time in the copy.
func judgeCopies(j *judge, f *events.Fact) {
	if j.State.Partition.Closed != nil && j.State.Partition.Owner != events.CopyOwner {
		j.w.fail("%s is decided by %s in a partition that is closed", f.Body.Name(), j.State.Partition.Owner)
	}
	if _, is := f.Body.(*events.Submitted); !is || !j.w.sp.cfg.copied {
		return
	}
	if slices.Contains(j.w.sp.spent, f.Position().String()) {
		j.w.fail("%s is accepted in the copy with the incarnation %s, which a task of the old namespace had", f.Task, f.Position())
	}
	remembered := false
	j.log.accepted(j.w.sp, func(g *events.Fact) bool {
		switch b := g.Body.(type) {
		case *events.Submitted:
			remembered = remembered || g.Task == f.Task
		case *events.TasksSwept:
			remembered = remembered && !slices.Contains(b.Tasks, f.Task)
		}
		return true
	})
	if remembered {
		j.w.fail("%s is accepted a second time, and was not forgotten", f.Task)
	}
}

// checkKeys checks that two requests for work have the same idempotency key exactly if they are for the same operation of the same run of a step.
func checkKeys(w *World, id int32) {
	x := w.sp.effects[id].work
	for i := range w.s.works {
		y := w.sp.effects[w.s.works[i].effect].work
		same := x.Task == y.Task && x.Ticket == y.Ticket && x.Run == y.Run && x.Step == y.Step && x.Operation == y.Operation
		if same != (x.IdempotencyKey == y.IdempotencyKey) {
			w.fail("%s and %s: the same operation is %t, and the same key is %t", w.sp.effects[id].name, w.sp.effects[w.s.works[i].effect].name, same, !same)
		}
	}
}

// judgeCopy checks a copy that was just written.
func judgeCopy(w *World, l *copyLogs, lost bool) {
	if ns, exists := l.definitions.Namespace(); !exists || ns.ID != namespaceID.String() || ns.Partitions != l.to.cfg.Copy {
		w.fail("the copy is written, and does not exist: %v", ns)
	}
	var stores []*sim.Store
	for p := range l.to.cfg.Copy {
		log := l.to.logs[l.parts[p].log]
		if log.state.Partition.Loading() {
			w.fail("the carry of partition %d of the copy has not ended", p)
			return
		}
		for i, y := range l.old {
			if old := opened(int32(i), y.store).Partition.Epoch; log.state.Partition.Epoch.N <= old.N {
				w.fail("the epoch %d of the copy does not follow the epoch %d of the old namespace", log.state.Partition.Epoch.N, old.N)
			}
		}
		stores = append(stores, l.to.folded(p, l.parts[p].log))
		l.halfRefused(p)
	}
	l.sameTasks(stores)
	l.sameEntities(stores)
	if !lost {
		l.settles()
	}
}

// halfRefused checks that no owner claims a partition whose carry has not ended, as if a node did not know that the copy is not complete.
func (l *copyLogs) halfRefused(p int32) {
	records := l.to.logs[l.parts[p].log].records
	if l.to.halves[l.parts[p].log] {
		return
	}
	l.to.halves[l.parts[p].log] = true
	for half := int64(1); half < int64(len(records)); half++ {
		x, r := &slot{name: 'C', part: p}, &result{}
		for _, e := range []event{{kind: evStart}, {kind: evAssign}, {kind: evLoaded, to: half}, {kind: evTail, to: half, records: records[:half]}} {
			x.carryOut(l.to, &e, r)
		}
		if claims(r) {
			l.w.fail("an owner claims the partition %d of the copy, of whose carry %d records are there", p, half)
		}
	}
}

// rows returns what a store has of a task, "" if it does not know the task.
func rows(s *sim.Store, id string) string {
	x, err := s.Load(id)
	if err != nil || x.Encoding == nil {
		return ""
	}
	list := []string{string(x.Encoding)}
	for _, r := range x.Rows {
		list = append(list, fmt.Sprintf("%s %s %s", r.Kind, r.ID, r.Encoding))
	}
	slices.Sort(list[1:])
	return strings.Join(list, "\n")
}

// sameTasks checks that each task, also one that has ended, is in the copy once, at home, as it was.
func (l *copyLogs) sameTasks(stores []*sim.Store) {
	n := 0
	for _, y := range l.old {
		ids, _ := y.store.Tasks("", 1<<20)
		for _, id := range ids {
			n++
			if home := events.Home(id, l.to.cfg.Copy); rows(stores[home], id) != rows(y.store, id) {
				l.w.fail("task %s is not in the copy as it was, in partition %d", id, home)
			}
		}
	}
	for p, s := range stores {
		if n -= s.Len(); int64(s.Len()) != l.to.logs[l.parts[p].log].state.Partition.Tasks {
			l.w.fail("partition %d of the copy has %d tasks, and counts %d", p, s.Len(), l.to.logs[l.parts[p].log].state.Partition.Tasks)
		}
	}
	if n != 0 {
		l.w.fail("%d tasks are missing in the copy, or more than once there", n)
	}
}

// sameEntities checks the same of all other entities but held requests. Each partition has the definitions.
func (l *copyLogs) sameEntities(stores []*sim.Store) {
	entities := func(s *sim.Store) map[string]string {
		all := map[string]string{}
		snap, _ := s.Snapshot()
		for _, r := range snap.Parts {
			if r.Kind != events.KindPartition && r.Kind != events.KindHeld {
				all[string(r.Kind)+" "+r.ID] = string(r.Encoding)
			}
		}
		return all
	}
	want := make([]map[string]string, len(stores))
	for p := range want {
		want[p] = map[string]string{}
	}
	for _, y := range l.old {
		for k, v := range entities(y.store) {
			kind, id, _ := strings.Cut(k, " ")
			name, _, _ := strings.Cut(id, "\x00")
			for p := range want {
				if events.Kind(kind) == events.KindDefinition || int(events.Home(name, l.to.cfg.Copy)) == p {
					want[p][k] = v
				}
			}
		}
	}
	for p := range want {
		got := entities(stores[p])
		for k, v := range want[p] {
			if got[k] != v {
				l.w.fail("%q is not in partition %d of the copy as it was", k, p)
			}
		}
		if len(got) != len(want[p]) {
			l.w.fail("partition %d of the copy has %d entities that are not tasks, not %d", p, len(got), len(want[p]))
		}
	}
}

// settles checks that what the old namespace owed was sent, that each input that nobody had judged was copied, and each held request.
func (l *copyLogs) settles() {
	unjudged := 0
	for p, y := range l.old {
		part := &l.w.s.parts[p]
		for i, in := range topics {
			for _, x := range part.inputs[i][y.log.state.Partition.Inputs[in].Next:] {
				if !l.from.inputs[x.input].record.Control {
					unjudged++
				}
			}
		}
		for _, d := range y.log.owed {
			if !slices.Contains(part.arrived, d.id) && sim.StillOwed(y.log.state, d.fact, d.to) && !l.sends(p, d) {
				l.w.fail("lost effect: the old namespace owes it, and the copier does not send it: %s", l.from.debts[d.id])
			}
		}
		for _, h := range y.log.state.Held() {
			if !l.sent["held "+h.Request.ID] {
				l.w.fail("the request %s is held, and the copier does not send it", h.Request.ID)
			}
		}
	}
	if l.moved != unjudged || len(l.moving) > 0 {
		l.w.fail("INV12: nobody has judged %d inputs, and %d are copied", unjudged, l.moved)
	}
}

// sends says whether an effect that was owed was sent. It checks only the kinds whose loss nothing else shows: without the others, the world does not come to rest.
func (l *copyLogs) sends(p int, d debt) bool {
	fact, kind, _ := strings.Cut(l.from.debts[d.id], " ")
	switch kind {
	case events.EffectWork:
		return l.sent[sim.AttemptOf(d.fact.Task, d.fact.Body).String()]
	case events.EffectForward:
		return l.sent[kind+" "+string(d.fact.Cause)]
	case events.EffectDeadLetter:
		return l.sent[kind+" "+fact]
	case events.EffectAlert:
		return l.sent["alerts "+fact]
	case events.EffectReply:
		return l.sent[strings.TrimPrefix(d.to, supervisor.RepliesPrefix)+" "+fact]
	}
	return true
}
