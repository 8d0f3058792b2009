package apitest

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// BeginItems makes a task of the workflow order whose step charge has items, of which the odd ones have failed and the last one runs. The first of those that
// failed is undone.
func (e *Engine) BeginItems(id string, count int) {
	e.Submit(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	fan := &events.FanOut{Count: count, Tolerate: count, Collect: events.CollectNone, Begun: count}
	t := e.tasks[id]
	t.State = events.TaskStateProcessing
	t.Steps = []*events.Step{{Path: "charge", State: events.StepStateWaiting, StartedAt: e.now, Fan: fan}}
	for i := range count {
		s := &events.Step{Path: events.ItemPath("charge", i), Agent: "bank", Attempt: 1, StartedAt: e.now, Input: fmt.Appendf(nil, `{"n":%d}`, i)}
		switch {
		case i == count-1:
			s.State = events.StepStateRunning
		case i%2 == 1:
			s.State, s.Continued, s.FailureCount = events.StepStateFailed, true, 1
			s.Error = &events.Error{Class: events.ClassPermanent, Message: "no account"}
			if fan.Failed++; i == 1 {
				s.State, s.Undo = events.StepStateUndone, &events.UndoState{State: events.StepStateUndone, Attempt: 1}
			}
		default:
			s.State = events.StepStateCompleted
			fan.Completed++
		}
		t.Steps = append(t.Steps, s)
	}
}
