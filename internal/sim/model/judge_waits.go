package model

import "github.com/sagalog/sagalog/events"

// waits checks that no step begins to wait in a task that is held or turned back, and that none is over before its time, by the right
// clock.
func (j *judge) waits(f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.NotBeforePassed:
		j.comes(f, b)
	case *events.StepQueued, *events.StepStarted, *events.TaskProcessed:
		j.mayStart(f)
	case *events.FanOutStarted:
		j.mayStart(f)
		if j.paused(f.Task) {
			j.w.fail("the items of step %s of %s begin while their task is paused", b.Step, f.Task)
		}
	case *events.WaitStarted:
		j.mayStart(f)
		if t, _ := j.State.Task(f.Task); j.paused(f.Task) || t != nil && t.Undoing() {
			j.w.fail("step %s of %s begins to wait while its task is paused or undone", b.Step, f.Task)
		}
	case *events.StepCompleted:
		if b.Attempt > 0 || b.Request != "" || fanned(j, f.Task, b.Step) {
			return
		}
		if b.Signal != "" {
			j.takes(f, b)
			return
		}
		began := j.log.latest(j.w.sp, f.Task, events.NameWaitStarted)
		right := j.w.sp.cfg.right
		if began == nil {
			j.w.fail("step %s of %s is over and never began", b.Step, f.Task)
		} else if x := began.Body.(*events.WaitStarted); right(f.Time).Sub(right(began.Time)) < x.Until.Sub(began.Time) {
			j.w.fail("step %s of %s is over before its time", b.Step, f.Task)
		}
	}
}

// takes checks that the step takes a signal of its task that no other step has taken.
func (j *judge) takes(f *events.Fact, b *events.StepCompleted) {
	came := false
	j.log.accepted(j.w.sp, func(g *events.Fact) bool {
		switch x := g.Body.(type) {
		case *events.SignalReceived:
			came = came || g.Task == f.Task && x.Request == b.Signal
		case *events.StepCompleted:
			if g.Task == f.Task && g.Position() != f.Position() && x.Signal == b.Signal {
				j.w.fail("the signal %s of %s is taken by %s and by %s", b.Signal, f.Task, x.Step, b.Step)
			}
		}
		return true
	})
	if !came {
		j.w.fail("step %s of %s takes the signal %s, which did not come", b.Step, f.Task, b.Signal)
	}
}

// comes checks that the time of a task comes once, not before the duration is over that its submission gives, and in no task that is held.
func (j *judge) comes(f *events.Fact, b *events.NotBeforePassed) {
	at, right := j.log.latest(j.w.sp, f.Task, events.NameSubmitted), j.w.sp.cfg.right
	if t, _ := j.State.Task(f.Task); j.paused(f.Task) || t != nil && t.Halted() {
		j.w.fail("the time of %s comes while it is paused or parked", f.Task)
	}
	if x := at.Body.(*events.Submitted); right(f.Time).Sub(right(at.Time)) < x.Delay.Std() || x.NotBefore == 0 {
		j.w.fail("the time of %s comes before its time, at %s", f.Task, b.NotBefore)
	}
	if again := j.log.latest(j.w.sp, f.Task, events.NameNotBeforePassed); again != nil && again.Position() != f.Position() {
		j.w.fail("the time of %s comes twice", f.Task)
	}
}

// mayStart checks that the time of the task has come.
func (j *judge) mayStart(f *events.Fact) {
	at := j.log.latest(j.w.sp, f.Task, events.NameSubmitted)
	if at.Body.(*events.Submitted).NotBefore != 0 && j.log.latest(j.w.sp, f.Task, events.NameNotBeforePassed) == nil {
		j.w.fail("%s of %s before the time of the task has come", f.Body.Name(), f.Task)
	}
}
