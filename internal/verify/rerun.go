package verify

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// A rerun begins with a fact of a task that may have ended, so the stories of such tasks are kept. Few tasks are rerun, so it is found out
// first which ones, from the names and keys of the records alone.

// again is a rerun of a task whose next run has not begun.
type again struct {
	steps []string
}

// has says whether the step is to run once more. Its items are if it is.
func (a *again) has(step string) bool {
	step = events.DefinedStep(step)
	return a == nil || slices.Contains(a.steps, step)
}

// earlier counts the attempts of a step in all earlier runs.
type earlier struct{ do, undo int }

// rerunType is the type of the record of a TaskRerun.
const rerunType = events.TypePrefix + string(events.NameTaskRerun)

// forget judges what the services did for a task that has ended and is kept, and drops its story.
func forget(p *partition, id string) {
	if s := p.ended[id]; s != nil {
		p.ledgerTask(s, p.place(s.at))
		delete(p.ended, id)
	}
}

// made is how many attempts were made in this run.
func (w *work) made() int { return w.attempts - w.earlier }

// turned says whether the undo of the step has begun.
func (st *step) turned() bool {
	return st.undone || st.undoFailed || st.undo.waiting || st.undo.running || st.undo.made() > 0
}

// redone returns the steps that a rerun from a step concerns, of those that have begun.
func (s *story) redone(from string) (list []string) {
	is := map[string]bool{}
	for grows := true; grows; {
		grows = false
		for i := range s.def.Steps {
			r := &s.def.Steps[i]
			st := s.step(r.ID)
			needs := slices.ContainsFunc(r.Needs, func(need string) bool { return is[need] })
			if !is[r.ID] && (from == "" || r.ID == from || needs || !st.over() || st.turned() || s.itemTurned(st)) {
				is[r.ID], grows = true, true
			}
		}
	}
	for id := range is {
		if _, before := s.earlier[id]; before || s.step(id) != nil {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// rerunning takes the two facts of a rerun. last is the time of the fact before.
func rerunning(t *telling, last events.Instant) {
	if b, ok := t.fact.Body.(*events.RunBegun); ok {
		runBegun(t, b)
		return
	}
	rerun(t, t.fact.Body.(*events.TaskRerun), last)
}

// rerun records that steps of a task that is parked or has ended run once more.
// last is the time of the fact before.
func rerun(t *telling, b *events.TaskRerun, last events.Instant) {
	t.requested(b.Request)
	st, _ := t.running()
	if t.end == "" && !t.parked || t.paused || st != nil || t.early.until != 0 {
		t.wrong(CheckAttempts, "rerun", "", "it is rerun although it is %s, or an attempt of it runs", t.state())
	}
	steps := slices.Sorted(slices.Values(b.Steps))
	if want := t.redone(b.From); !slices.Equal(steps, want) {
		t.wrong(CheckAttempts, "rerun_steps", b.From, "a rerun from here concerns the steps %q, but its fact names %q", want, steps)
	}
	t.again = &again{steps}
	for id, x := range t.undos {
		if t.again.has(id) {
			x.correct(t.fact.Time) // if the task ended at a wrong time
		}
	}
	for _, st := range t.steps {
		if !t.again.has(st.id) {
			continue
		}
		if st.pivot && st.touched {
			t.wrong(CheckUndo, "pivot_rerun", st.id, "it runs once more although it is the pivot, and may have had its effect")
		}
		st.failed, st.wait, st.do.waiting, st.queued = st.failed || st.wait != nil || st.do.waiting || st.queued || st.fans(), nil, false, false
		if st.undoFailed || st.undo.waiting {
			st.undoFailed, st.undo.waiting, st.undo.retryAt, st.undo.askedAt = false, true, t.fact.Time, t.fact.Time
			st.undo.startBy, st.undo.timedFrom = 0, 0
		}
	}
	if t.end != "" && last > t.fact.Time && t.quiet > t.fact.Time {
		t.quiet = t.fact.Time.Add(max(0, t.quiet.Sub(last)))
	}
	t.soft = soft{}
	t.end, t.back, t.parked, t.parkDue, t.haltedAt, t.reminders, t.remindAt = "", true, false, false, 0, 0, 0
}

// runBegun checks that everything is undone that runs once more, compares it with the ledgers, and lets it start as if it never had.
func runBegun(t *telling, b *events.RunBegun) {
	if t.again == nil || !t.back || t.parked || t.paused || b.Run != t.run+1 {
		t.wrong(CheckAttempts, "run", "", "run %d begins after run %d, but the task is %s, or nobody asked for it", b.Run, t.run, t.state())
		return
	}
	old := *t.story
	old.steps = nil
	for _, st := range t.steps {
		switch {
		case !t.again.has(st.id):
			continue
		case st.do.running || st.undo.running || st.undo.waiting || st.undoFailed || st.mustUndo():
			t.wrong(CheckUndo, "run_before_undo", st.id, "run %d begins before this step is undone, which runs once more", b.Run)
		}
		old.steps = append(old.steps, st)
	}
	t.ledgerTask(&old, t.place)
	if t.story.earlier == nil {
		t.story.earlier = map[string]earlier{}
	}
	for _, st := range old.steps {
		t.story.earlier[st.id] = earlier{st.do.attempts, st.undo.attempts}
	}
	t.removeSteps(t.again)
	if t.deadline != 0 {
		t.deadline, t.expired, t.reopenedAt = t.fact.Time.Add(t.deadlineWithin), false, t.fact.Time
	}
	if want := t.def.RemindAfter; b.RemindAfter != want {
		t.wrong(CheckAttempts, "not_as_defined", "", "run %d begins with the soft limit %s, and its definition says %s", b.Run, b.RemindAfter, want)
	}
	t.soft.begin(b.RemindAfter, t.fact.Time)
	t.run, t.again, t.back = b.Run, nil, false
}
