package model

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
)

// requests checks the facts that answer requests, and that a paused task starts nothing.
func (j *judge) requests(f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.RequestRefused:
		j.once(f, b.Request)
	case *events.TaskReopened:
		j.once(f, b.Request)
	case *events.TaskPaused:
		j.once(f, b.Request)
	case *events.TaskResumed:
		j.once(f, b.Request)
	case *events.TaskRerun:
		if j.once(f, b.Request); j.runs(f.Task) {
			j.w.fail("a task is rerun while an attempt of it runs")
		}
	case *events.TaskTerminated:
		if j.once(f, b.Request); j.runs(f.Task) {
			j.w.fail("a task is terminated while an attempt of it runs")
		}
	case *events.StepStarted, *events.CompensationStarted:
		if j.paused(f.Task) {
			j.w.fail("an attempt starts while its task is paused")
		}
	}
}

// once checks that no earlier fact answers the request.
func (j *judge) once(f *events.Fact, request string) {
	since := false // the task was swept and accepted again
	j.log.accepted(j.w.sp, func(other *events.Fact) bool {
		if other.Task == f.Task && other.Position() != f.Position() {
			since = other.Body.Name() != events.NameSubmitted && (since || requestOf(other) == request)
		}
		return true
	})
	if since {
		j.w.fail("the request %s is judged a second time", request)
	}
}

// requestOf returns the request that a fact answers, or "".
func requestOf(f *events.Fact) string {
	switch b := f.Body.(type) {
	case *events.RequestRefused:
		return b.Request
	case *events.TaskPaused:
		return b.Request
	case *events.TaskResumed:
		return b.Request
	case *events.TaskReopened:
		return b.Request
	case *events.CancelRequested:
		return b.Request
	case *events.TaskRerun:
		return b.Request
	}
	return sim.ByHand(f).Request
}

// paused says whether the task is paused, by its facts.
func (j *judge) paused(task string) (yes bool) {
	j.log.accepted(j.w.sp, func(f *events.Fact) bool {
		if f.Task == task {
			switch f.Body.(type) {
			case *events.TaskPaused:
				yes = true
			case *events.TaskResumed, *events.CancelRequested, *events.Submitted:
				yes = false
			}
		}
		return true
	})
	return yes
}

// runs says whether an attempt of the task runs, by the state before the fact.
func (j *judge) runs(task string) bool {
	t, _ := j.State.Task(task)
	if t == nil {
		return false
	}
	s, _ := t.RunningStep()
	return s != nil
}
