package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// Quiet says whether nothing is under way: only faults and actions of people could still happen.
func (w *World) Quiet() bool {
	return !slices.ContainsFunc(w.Enabled(), func(a Action) bool { return a.Progress })
}

// Rest returns what a quiet world still owes, or "".
func (w *World) Rest() string {
	for p := range w.sp.cfg.Full {
		if owes := w.partRest(p); owes != "" {
			return owes
		}
	}
	if w.sp.cfg.Off&supervisor.RuleForward != 0 {
		return w.lostForwards()
	}
	if owes := sim.PermitRest(w.states(), w.sp.cfg.at(w.s.clock)); owes != "" {
		return owes
	}
	if owes := sim.RelativesRest(w.states(), w.lost); owes != "" && !orphaned(w, owes) {
		return owes
	}
	return heldRest(w)
}

// lost says whether the submission of a task may have been deleted before it was judged. Its parent, if it has one, learns of it within an hour.
func (w *World) lost(task string) bool {
	return w.sp.cfg.Budgets[Trims]+w.sp.cfg.Budgets[Losses] > 0 && !slices.ContainsFunc(w.states(), func(s *events.State) bool {
		t, _ := s.Task(task)
		return t != nil
	})
}

// orphaned says whether what parents and children owe is settled later: a parent asks again within an hour, and a child whose parent no checkpoint
// knows learns of that within a day, which no world lasts.
func orphaned(w *World, owes string) bool {
	return w.s.copied && w.s.used[Losses] > 0 && (w.s.clock == 0 || strings.HasPrefix(owes, "orphan: the parent"))
}

// states returns the folds of all partitions that are owned.
func (w *World) states() (all []*events.State) {
	for p := range w.sp.cfg.Full {
		all = append(all, w.sp.logs[w.s.parts[p].log].state)
	}
	return all
}

// watermarkAfter is how long a partition is idle before its log must record the watermark.
const watermarkAfter = time.Second

func (w *World) partRest(p int32) string {
	j := w.judge(p)
	x := w.s.nodes[int(j.part.group)*int(w.sp.cfg.Full)+int(p)]
	owner := w.sp.slots[x.slot]
	if !owner.owner.Status().Owning {
		return fmt.Sprintf("orphan partition %d: the assigned node is not the owner although nothing is left to do", p)
	}
	for i, in := range topics {
		if next, end := j.State.Partition.Inputs[in].Next, len(j.part.inputs[i]); next != int64(end) {
			return fmt.Sprintf("INV12: the folded resume point of %s is %d of %d although nothing is left to do", in, next, end)
		}
	}
	if owner.store.Next() != j.log.end() {
		return fmt.Sprintf("partition %d is committed up to %d of %d", p, owner.store.Next(), j.log.end())
	}
	refused := field(owner.owner, "outbox", "refused").Len() > 0  // a dead letter that waits for a retry
	stopped := field(owner.owner, "replies", "stopped").Len() > 0 // a reply that does
	for _, d := range j.log.owed {
		if stopped && strings.HasSuffix(w.sp.debts[d.id], " "+events.EffectReply) {
			continue
		}
		if refused && strings.HasSuffix(w.sp.debts[d.id], " "+events.EffectDeadLetter) {
			continue
		}
		if !slices.Contains(j.part.arrived, d.id) && sim.StillOwed(j.State, d.fact, d.to) {
			return "lost effect: nobody sent it, and nothing is left to do: " + w.sp.debts[d.id]
		}
	}
	if owes := w.wrongRest(j.part, j.State); owes != "" {
		return owes
	}
	now := w.sp.cfg.shows(int(j.part.group), w.s.clock)
	if s := &j.State.Partition; s.Carry != nil || s.CarryDue(now) {
		return "a carry is due or has begun, and nothing continues it"
	}
	if idle := now.Sub(read[events.Instant](owner.owner, "outbox", "quietSince")); idle >= watermarkAfter && len(j.log.owed) > 0 && !refused && !stopped {
		return "the partition is idle, and its log does not record the watermark: " + w.sp.debts[j.log.owed[0].id]
	}
	for _, h := range j.State.Held() {
		if h.ExpiresAt <= now {
			return fmt.Sprintf("a request of %s is held beyond its expiry", h.Request.Task)
		}
	}
	owes := ""
	j.State.Loaded(func(t *events.Task) bool {
		if owes = w.taskRest(t, now); owes == "" && j.parkedForNothing(t) {
			owes = "stuck task: " + t.ID + " is parked, and none of its steps has failed"
		}
		return owes == ""
	})
	if owes == "" {
		owes = j.miscounted(owner.owner)
	}
	return owes
}

// miscounted says whether an owner counts other attempts against the windows of its agents than those that run.
func (j *judge) miscounted(o *supervisor.Owner) string {
	want := map[string]int{}
	j.State.Loaded(func(t *events.Task) bool {
		t.RunningBy(want, 1)
		return true
	})
	for agent, n := range read[map[string]int](o, "dispatch", "running") {
		if n != want[agent] {
			return fmt.Sprintf("the owner counts %d running attempts of %s, and %d run", n, agent, want[agent])
		}
	}
	return ""
}

// taskRest says which part of a task will never move (INV10). An attempt that an agent has is the agent's concern.
func (w *World) taskRest(t *events.Task, now events.Instant) string {
	if t.State.Ended() || t.Halted() {
		return ""
	}
	waits := false
	for _, m := range t.Timers() {
		quiet := m.Kind == events.TimerRetry && m.Operation == events.Undo && t.QuietAt > now // it waits for the quiet time too
		if m.Due <= now && !quiet {
			return fmt.Sprintf("a timer of %s is due and does not fire", t.ID)
		}
		waits = waits || m.Kind != events.TimerCompleteBy
	}
	for _, s := range t.Steps {
		undo := s.Undo != nil && s.Undo.State == events.StepStateRunning
		if s.State != events.StepStateRunning && !undo || s.DoneByChild(events.Do) != "" || s.DoneByChild(events.Undo) != "" {
			continue // what a child does is checked with the child
		}
		return fmt.Sprintf("input skipped or effect lost: %s of %s runs, and no report of it will come", s.Path, t.ID)
	}
	if !waits && !waitsForHeld(w, t) {
		return fmt.Sprintf("stuck task: %s is %s and nothing moves it", t.ID, t.State)
	}
	return ""
}

// lostForwards names a misplaced input that is neither at home nor a dead letter. It matters only if inputs may be passed without
// a fact; otherwise the judge requires the fact.
func (w *World) lostForwards() string {
	for p := range w.sp.cfg.Full {
		for i, in := range topics {
			for o, l := range w.s.parts[p].inputs[i] {
				x := &w.sp.inputs[l.input]
				home := events.Home(x.Task, w.sp.cfg.Partitions)
				cause := events.CauseInput(in, p, int64(o))
				if x.Task == "" || home == p || slices.ContainsFunc(w.s.parts[home].inputs[i], func(l landed) bool { return w.sp.inputs[l.input].origin == cause }) {
					continue
				}
				return fmt.Sprintf("INV12: an acknowledged input has no outcome: the misplaced %s %d", in, o)
			}
		}
	}
	return ""
}
