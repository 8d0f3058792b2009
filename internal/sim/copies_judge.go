package sim

import (
	"strings"

	"github.com/sagalog/sagalog/events"
)

// copiedAlong is the offset, in the log of a copy, of the fact that brought a schedule into it that the old namespace had.
const copiedAlong = -1

// inherit gives the judges of a copy what those of the old partitions know. What they know about the log, its epochs and its effects stays behind.
func inherit(w *World, old []*partition) {
	home := func(id string) *partition { return w.parts[events.Home(id, w.opt.Partitions)] }
	for _, p := range old {
		for id, g := range p.sagas.byTask {
			g.accepted = copiedAlong
			home(id).sagas.byTask[id] = g
		}
		for id, yes := range p.sagas.cancelled {
			home(id).sagas.cancelled[id] = yes
		}
		for id, content := range p.inputs.content {
			home(id).inputs.content[id] = content
		}
		for id, a := range p.answers.tasks {
			home(id).answers.tasks[id] = a
		}
		for life, effects := range p.done {
			id, _, _ := strings.Cut(life, " ")
			home(id).done[life] = effects
		}
		for key, step := range p.undone {
			w.parts[0].undone[key] = step // at whichever partition
		}
		for k, to := range p.effects.sentTo {
			e := &home(k.attempt.Task).effects
			if e.sentTo == nil {
				e.sentTo = map[taken][]int32{}
			}
			for _, partition := range to { // another topic: whoever got the request there is another one than whoever gets it in the copy
				e.sentTo[k] = append(e.sentTo[k], partition-mostWorkPartitions)
			}
		}
		for _, n := range w.parts {
			n.barrier = max(n.barrier, p.barrier)
		}
		p.schedules.inherit(home)
	}
}

// mostWorkPartitions is more than the topic of an agent has.
const mostWorkPartitions = 1000

// inherit gives the judges of a copy what the judge of an old partition knows about schedules and their tasks.
func (e *scheduleEffects) inherit(home func(id string) *partition) {
	for task, name := range e.of {
		home(task).schedules.of[task] = name
	}
	for once := range e.accepted {
		task, _, _ := strings.Cut(once, " ")
		home(task).schedules.accepted[once] = true
	}
	for name, born := range e.born {
		p := home(events.ScheduleKey(name))
		p.schedules.born[name], p.schedules.began[name] = copiedAlong, e.began[name]
		for _, x := range e.p.w.schedules.fired[name] {
			if p.at[x.fact] = copiedAlong; e.p.at[x.fact] > born {
				p.at[x.fact] = 0
			}
		}
	}
}
