package model

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
)

// fanOuts checks a fact against the account of the fan-outs of its task.
func judgeFanOuts(j *judge, f *events.Fact) {
	t, _ := j.State.Task(f.Task)
	if t == nil || !j.w.sp.cfg.fans() {
		return
	}
	var o sim.FanOuts
	j.log.accepted(j.w.sp, func(f *events.Fact) bool {
		if f.Task == t.ID {
			o.Tells(f)
		}
		return true
	})
	if why := o.Agrees(t); why != "" {
		j.w.fail("%s", why)
	}
	if why := o.Tells(f); why != "" {
		j.w.fail("%s: %s of %s", why, f.Body.Name(), f.Task)
	}
}

// fanned says whether the step of the task has begun as a fan-out: FanOuts checks how that ends.
func fanned(j *judge, task, step string) bool {
	return j.log.find(j.w.sp, func(f *events.Fact) bool {
		b, ok := f.Body.(*events.FanOutStarted)
		return ok && f.Task == task && b.Step == step
	}) != nil
}
