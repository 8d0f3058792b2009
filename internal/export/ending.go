package export

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// decider is what decided that a task ended as it did; zero if that is not known.
type decider uint8

const (
	endedByPolicy decider = 1 + iota
	endedByOperator
	endedByDeadline
	endedByParent
)

func (d decider) String() string {
	return [...]string{"", "policy", "operator", "deadline", "parent"}[d]
}

// endings knows of each task of a partition that is undone what turned it to that: the state says only why, in words.
type endings struct {
	turned *shelf[decider]
	task   func(id string) (*events.Task, error)
}

// note takes a fact that is not folded yet.
func (e *endings) note(r *events.Record, f *Fact) error {
	switch events.Name(f.Type) {
	case events.NameRunBegun:
		return e.turned.drop(keyOf(f.Task))
	case events.NameTasksSwept:
		var b events.TasksSwept
		if err := json.Unmarshal(r.Value, &b); err != nil {
			return err
		}
		for _, task := range b.Tasks {
			if err := e.turned.drop(keyOf(task)); err != nil {
				return err
			}
		}
		return nil
	case events.NameCancelRequested, events.NameDeadlinePassed, events.NameChildUndoRequested, events.NameStepFailed, events.NameTimeout:
	default:
		return nil
	}
	fact, err := events.DecodeFact(r)
	if err != nil {
		return err
	}
	by := turnedBy(fact.Body)
	if by == 0 {
		return nil
	}
	x, err := e.task(f.Task)
	if err != nil || x == nil || x.Undoing() && x.Rerun == nil { // it has turned already
		return err
	}
	return e.turned.put(keyOf(f.Task), by)
}

// turnedBy returns who or what turns a task to being undone by a fact; zero if nothing does.
func turnedBy(body events.Body) decider {
	switch b := body.(type) {
	case *events.CancelRequested:
		switch {
		case b.Request == "": // a parent asks by a link, and not by a request
			return endedByParent
		case events.ScheduleOfKey(b.By) != "": // what the schedule says about overlaps
			return endedByPolicy
		}
		return endedByOperator
	case *events.ChildUndoRequested:
		return endedByParent
	case *events.DeadlinePassed:
		if b.Action == events.DeadlineUndo {
			return endedByDeadline
		}
	case *events.StepFailed:
		switch {
		case b.Verdict.Action != events.ActionUndo:
		case b.Request != "":
			return endedByOperator
		default:
			return endedByPolicy
		}
	case *events.Timeout:
		if b.Verdict.Action == events.ActionUndo {
			return endedByPolicy
		}
	}
	return 0
}

// of returns what decided about the end of a task; "" if it has not ended, or if the log no longer has the fact.
func (e *endings) of(t *events.Task) (string, error) {
	switch {
	case t.EndedAt == 0:
		return "", nil
	case t.State == events.TaskStateTerminated:
		return endedByOperator.String(), nil
	case t.State == events.TaskStateUndone:
		by, _, err := e.turned.look(keyOf(t.ID))
		return by.String(), err
	}
	return endedByPolicy.String(), nil
}
