package model

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// runs are what the facts of a task say about its runs, read without the fold.
type runs struct {
	// run is the latest run, and redone are the steps of the rerun that has not begun.
	run    int
	redone []string
	// of holds the run of each step that was done in a run.
	of map[string]int
}

func runsOf(j *judge, task string) runs {
	r := runs{run: 1, of: map[string]int{}}
	j.log.accepted(j.w.sp, func(f *events.Fact) bool {
		if f.Task != task {
			return true
		}
		switch b := f.Body.(type) {
		case *events.Submitted:
			r = runs{run: 1, of: map[string]int{}}
		case *events.TaskRerun:
			r.redone = b.Steps
		case *events.RunBegun:
			r.run, r.redone = b.Run, nil
		case *events.StepStarted:
			r.of[b.Step] = r.run
		}
		return true
	})
	return r
}

// checkReruns checks that what is redone was undone, and that all work of a run has its number.
func checkReruns(j *judge, f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.TaskRerun:
		for path, s := range j.accounts(f.Task) {
			if s.pivot && s.touched && slices.Contains(b.Steps, path) {
				j.w.fail("the pivot %s of %s is rerun", path, f.Task)
			}
		}
	case *events.RunBegun:
		r, accounts := runsOf(j, f.Task), j.accounts(f.Task)
		if b.Run != r.run+1 || r.redone == nil {
			j.w.fail("run %d of %s begins after run %d", b.Run, f.Task, r.run)
		}
		for path, s := range accounts {
			if redoes(r.redone, path) && (s.runs || s.undoRuns || s.undoable && s.touched && !s.undone) {
				j.w.fail("run %d of %s begins before %s is undone", b.Run, f.Task, path)
			}
		}
	case *events.StepStarted:
		if r := runsOf(j, f.Task); events.RunOf(b.Run) != r.run {
			j.w.fail("%s of %s starts in run %d, which is run %d", b.Step, f.Task, events.RunOf(b.Run), r.run)
		}
		if j.w.sp.cfg.right(f.Time) < undoQuietAt(j, f.Task, b.Step) {
			j.w.fail("%s of %s starts while an attempt to undo it may still act", b.Step, f.Task)
		}
	case *events.CompensationStarted:
		r := runsOf(j, f.Task)
		if done := r.of[b.Step]; done != 0 && events.RunOf(b.Run) != done {
			j.w.fail("the undo of %s of %s, done in run %d, starts in run %d", b.Step, f.Task, done, events.RunOf(b.Run))
		}
		if r.redone != nil && !redoes(r.redone, b.Step) {
			j.w.fail("%s of %s is undone, and is not to be redone", b.Step, f.Task)
		}
	}
}

// undoQuietAt returns the time until which a request to undo a step may still land, in any run: one of an attempt without a report, of one
// whose agent or operator does not vouch for its end, or of one that was sent in two epochs.
func undoQuietAt(j *judge, task, step string) (quiet events.Instant) {
	var began *events.Fact
	var end events.Instant
	ends := func(f *events.Fact, path string, doubted bool) {
		if path == step && began != nil && (doubted || began.Epoch != f.Epoch) {
			quiet = max(quiet, end.Add(settings().Grace.Std()))
		}
	}
	j.log.accepted(j.w.sp, func(f *events.Fact) bool {
		if f.Task != task {
			return true
		}
		switch b := f.Body.(type) {
		case *events.Submitted:
			began, quiet = nil, 0
		case *events.CompensationStarted:
			if b.Step == step {
				began, end = f, j.w.sp.cfg.right(b.CompleteBy)
			}
		case *events.Compensated:
			ends(f, b.Step, reported(j, f) == events.EffectInDoubt)
		case *events.CompensationFailed:
			effect := reported(j, f)
			ends(f, b.Step, b.Attempt > 0 && effect != events.EffectNone && effect != events.EffectDoneUnknown)
		case *events.EffectFailed:
			if x := b.CompensationFailed; x != nil {
				ends(f, x.Step, false)
			}
		case *events.Timeout:
			if b.Operation == events.Undo && b.Attempt > 0 {
				ends(f, b.Step, true)
			}
		}
		return true
	})
	return quiet
}

// reported returns the effect that the report says which is the cause of a fact; none if no report is.
func reported(j *judge, f *events.Fact) events.Effect {
	in, _, offset, ok := f.Cause.Input()
	if !ok {
		return ""
	}
	x, _ := j.Input(in, offset)
	return x.Report.Effect
}

// workRun returns the run of the attempt that a fact begins.
func workRun(f *events.Fact) (run int) {
	switch b := f.Body.(type) {
	case *events.StepStarted:
		run = b.Run
	case *events.CompensationStarted:
		run = b.Run
	}
	return events.RunOf(run)
}
