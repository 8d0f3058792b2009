package api

import (
	"context"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// mostExplained bounds the alerts about late tasks of which an answer says what the task waits for: each task is read.
const mostExplained = 200

// explain adds to alerts about tasks that are late what the tasks are waiting for. Otherwise whoever gets the alert would have to look at each task.
func (s *alerts) explain(ctx context.Context, list []Alert) error {
	look, done := s.documents.look(true), 0
	for i := range list {
		a := &list[i]
		if a.Kind != supervisor.AlertDeadline && a.Kind != supervisor.AlertSoftLimit {
			continue
		}
		if done++; done > mostExplained {
			return nil
		}
		t, err := s.documents.tasks.Task(ctx, a.Task)
		if err != nil {
			return s.log.internal(ctx, "read the task of an alert", err)
		}
		if t == nil || t.State.Ended() {
			continue
		}
		waits, err := s.documents.waiting(ctx, t, look)
		if err != nil {
			return err
		}
		if text := waitsNow(t, a.Step, waits); text != "" {
			a.Reason += "; " + text
		}
	}
	return nil
}

// waitsNow says why a task, or a step of it, is not over: what it waits for, or that it runs; "" if that is not known.
func waitsNow(t *events.Task, step string, waits []WaitingDocument) string {
	i := slices.IndexFunc(waits, func(w WaitingDocument) bool { return step == "" || w.Step == "" || w.Step == step })
	if i < 0 {
		s, op := t.RunningStep()
		if s == nil || step != "" && s.Path != step {
			return ""
		}
		return fmt.Sprintf("an attempt (%s) of step %s is running", op, s.Path)
	}
	w, who := waits[i], "the task"
	if w.Step != "" {
		who = "step " + w.Step
	}
	text := fmt.Sprintf("%s waits for: %s", who, w.Kind)
	if w.For != "" {
		text += ", " + events.Clip(w.For, listedFor)
	}
	if n := len(waits) - 1; n > 0 && step == "" {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}
