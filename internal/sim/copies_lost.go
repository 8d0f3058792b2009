package sim

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/namespacecopy"
)

// checkpoints are the states of the partitions from which the namespace is copied when its log is lost: of any node and any time. What came later never
// happened, as far as the copy knows. So nothing is promised about the effects of tasks that were accepted or went on later, nor about limits. But
// whatever the copy decides follows from its own state, each of its tasks comes to rest, and what had ended before stays so.
type checkpoints struct {
	stores []*Store
	// known are the tasks that had ended by the checkpoint of their partition, and did nothing since: their promises hold.
	known map[string]bool
}

// drawCheckpoints draws a checkpoint of each partition, nil if one has none, or if the log began with a copy: the judge's accounts can be taken back only
// to facts that it has seen.
func drawCheckpoints(w *World) *checkpoints {
	c := &checkpoints{known: map[string]bool{}}
	for i := range w.parts {
		var list []*Store
		for _, n := range w.nodes {
			for _, store := range []*Store{n.slots[i].store, n.slots[i].older} {
				if store != nil && store.Next() > 0 {
					list = append(list, store)
				}
			}
		}
		if len(list) == 0 {
			return nil
		}
		c.stores = append(c.stores, list[w.rng.IntN(len(list))])
	}
	return c
}

// old returns the partitions as a copy reads them.
func (c *checkpoints) old(w *World) (list []namespacecopy.Partition) {
	for i, store := range c.stores {
		snap, err := store.Snapshot()
		x := namespacecopy.Partition{Stored: store}
		if err == nil {
			x.State, err = events.OpenStateAt(newerBuild, int32(i), snap, store.Load)
		}
		if err != nil {
			w.fail("the checkpoint of partition %d cannot be opened: %v", i, err)
			return list
		}
		list = append(list, x)
	}
	return list
}

// takeBack makes the judges of the old partitions forget what came after the checkpoints.
func (c *checkpoints) takeBack(w *World) {
	for i, p := range w.parts {
		takeBack(p, c, c.stores[i].Next())
	}
	w.namedLimits.given.At, w.namedLimits.given.held = nil, nil
	w.permitsLost, w.limitless = true, true
}

// takeBack judges the facts below an offset again.
func takeBack(p *partition, c *checkpoints, next int64) {
	p.gone = true
	then := *p
	then.state = events.NewState(p.id, nil)
	then.state.SetLax(p.w.lax())
	then.state.SetLevel(newerBuild)
	then.sagas = sagas{w: p.w, p: &then, log: &p.log, byTask: map[string]*saga{}, cancelled: map[string]bool{}}
	tasks := map[string]*Answers{}
	accepted := map[int64]bool{}
	for _, o := range p.at {
		accepted[o] = true
	}
	born := map[string]int64{}
	for o := range next {
		f, err := events.DecodeFact(&p.log.records[o])
		if err == nil && accepted[o] {
			then.sagas.judge(f)
			if b, ok := f.Body.(*events.Submitted); ok {
				holdsCancel(&then, f.Task, b)
			}
			if b, ok := f.Body.(*events.ScheduleAdopted); ok && then.state.Schedules[b.Schedule] == nil {
				born[b.Schedule] = o
			}
			if f.Task != "" {
				if tasks[f.Task] == nil {
					tasks[f.Task] = &Answers{}
				}
				tasks[f.Task].Next(f)
			}
		}
		if err == nil {
			_, err = then.state.Apply(f, o)
		}
		if err != nil {
			p.w.fail("INV2: partition %d cannot be folded again at offset %d: %v", p.id, o, err)
			return
		}
	}
	then.state.Loaded(func(t *events.Task) bool {
		if now, _ := p.state.Task(t.ID); t.State.Ended() && (now == nil || now.Incarnation != t.Incarnation || now.State == t.State && now.EndedAt == t.EndedAt) {
			c.known[t.ID] = true
		}
		return true
	})
	p.schedules.takeBack(then.state, born, next)
	p.sagas, p.answers.tasks = then.sagas, tasks
	p.effects.sentTo, p.undone, p.done = nil, map[string]string{}, map[string]map[string]string{}
}

// takeBack makes the judge forget which due times led to tasks from an offset on, and which tasks were accepted.
func (e *scheduleEffects) takeBack(then *events.State, born map[string]int64, next int64) {
	clear(e.accepted)
	clear(e.of)
	then.Loaded(func(t *events.Task) bool {
		if t.Schedule != "" {
			e.of[t.ID] = t.Schedule
			e.accepted[onceOf(t.ID, t.ScheduleBegan)] = true
		}
		return true
	})
	s := e.p.w.schedules
	e.born, e.began = map[string]int64{}, map[string]int64{}
	for name, x := range then.Schedules {
		e.born[name], e.began[name] = born[name], x.Began
	}
	for name, list := range s.fired {
		for _, x := range list {
			at, here := e.p.at[x.fact]
			if here && at >= next {
				e.p.at[x.fact] = copiedAlong - 1
			}
			if sch := then.Schedules[name]; here && (sch == nil || !sch.Runs(x.task)) {
				s.lost[x.task] = true // nobody sends it again
			}
		}
	}
}

// promise notes, in the copy, the promises that hold, and that none holds about its other tasks.
func (c *checkpoints) promise(w *World) {
	for _, p := range w.parts {
		p.state.Loaded(func(t *events.Task) bool {
			switch {
			case !c.known[t.ID]:
				w.unpromised[lifeOf(p, t.ID)] = true
			case t.State == events.TaskStateUndone:
				p.mustBeGone(t)
			case t.State == events.TaskStateProcessed:
				p.mustBeThere(t)
			}
			return true
		})
	}
}
