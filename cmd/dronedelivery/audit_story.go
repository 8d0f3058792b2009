package main

import (
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// operation is a step's do or its undo.
type operation struct {
	step string
	op   events.Operation
}

// attempt is one attempt as the log tells it.
type attempt struct {
	number int
	// outcome is the name of the fact that ended it, empty while it runs.
	outcome events.Name
	// code is that of the reported error, such as http_422.
	code string
	// none says that the agent reported that nothing was changed.
	none bool
}

// doing is what the log tells of one operation of a task.
type doing struct {
	operation
	agent           string
	attempts        []*attempt
	pivot, undoable bool
	// completion orders the completed dos of a task, from 1; zero is not completed.
	completion int
	// touched says that some attempt may have had an effect.
	touched bool
}

// story is one task as the log tells it.
type story struct {
	id        string
	partition int32
	submitted int
	// end is the fact that ended or parked it.
	end         events.Name
	doings      map[operation]*doing
	skipped     map[string]bool
	completions int
	pulse       pulse
	// faults are disagreements of its facts with each other.
	faults []string
}

func newStory(id string, partition int32) *story {
	return &story{id: id, partition: partition, doings: map[operation]*doing{}, skipped: map[string]bool{}}
}

func (s *story) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// ended says whether nothing more may follow.
func (s *story) ended() bool {
	return s.end == events.NameTaskProcessed || s.end == events.NameTaskUndone
}

func (s *story) fold(f *events.Fact, c *logCounts) {
	if b, ok := f.Body.(*events.Submitted); ok {
		s.submitted++
		if s.submitted > 1 {
			s.fault("was accepted %d times, here with content %s", s.submitted, b.Content)
		}
		return
	}
	if _, held := f.Body.(*events.RequestHeld); held {
		return
	}
	if s.submitted == 0 {
		s.fault("has %s before it was accepted", f.Body.Name())
	}
	if s.ended() {
		s.fault("has %s behind its end, %s", f.Body.Name(), s.end)
	}
	switch b := f.Body.(type) {
	case *events.StepStarted:
		s.started(operation{b.Step, events.Do}, b.Attempt, b.Agent, c)
		d := s.doings[operation{b.Step, events.Do}]
		d.pivot, d.undoable = b.Pivot, b.Undoable
	case *events.UndoStarted:
		c.Undos++
		s.mayUndo(b.Step)
		s.started(operation{b.Step, events.Undo}, b.Attempt, b.Agent, c)
	case *events.StepSkipped:
		s.skipped[b.Step] = true
		if s.doings[operation{b.Step, events.Do}] != nil {
			s.fault("skips step %s, which was started", b.Step)
		}
	case *events.TaskProcessed, *events.TaskUndone, *events.TaskParked:
		s.end = f.Body.Name()
		s.noneRuns(f.Body.Name())
	case *events.TaskReopened:
		s.end = ""
	case *events.EffectFailed:
		if b.Failed != nil {
			s.outcome(b.Failed, c)
		} else if b.UndoFailed != nil {
			s.outcome(b.UndoFailed, c)
		}
	default:
		s.outcome(f.Body, c)
	}
}

func (s *story) started(o operation, number int, agent string, c *logCounts) {
	c.Attempts++
	d := s.doings[o]
	if d == nil {
		d = &doing{operation: o, agent: agent}
		s.doings[o] = d
	}
	if d.agent != agent {
		s.fault("gives the %s of step %s to agent %s after %s", o.op, o.step, agent, d.agent)
	}
	if number > 1 {
		c.Retries++
	}
	if number != len(d.attempts)+1 {
		s.fault("begins attempt %d of the %s of step %s after %d attempts", number, o.op, o.step, len(d.attempts))
	}
	if n := len(d.attempts); n > 0 && d.attempts[n-1].outcome == "" {
		s.fault("begins attempt %d of the %s of step %s while attempt %d runs", number, o.op, o.step, d.attempts[n-1].number)
	}
	d.attempts = append(d.attempts, &attempt{number: number})
}

// outcome takes the facts that end an attempt.
func (s *story) outcome(body events.Body, c *logCounts) {
	switch b := body.(type) {
	case *events.StepCompleted:
		if d, a := s.end1(operation{b.Step, events.Do}, b.Attempt, body); a != nil {
			s.completions++
			d.completion, d.touched = s.completions, true
		}
	case *events.StepFailed:
		if b.Attempt == 0 {
			return // before any work was sent
		}
		if d, a := s.end1(operation{b.Step, events.Do}, b.Attempt, body); a != nil {
			a.code, a.none = b.Error.Code, b.Effect == events.EffectNone
			d.touched = d.touched || !a.none
		}
	case *events.Timeout:
		c.Timeouts++
		if d, a := s.end1(operation{b.Step, b.Operation}, b.Attempt, body); a != nil {
			d.touched = true
		}
	case *events.Compensated:
		s.end1(operation{b.Step, events.Undo}, b.Attempt, body)
	case *events.UndoFailed:
		if b.Attempt == 0 {
			return
		}
		if _, a := s.end1(operation{b.Step, events.Undo}, b.Attempt, body); a != nil {
			a.code = b.Error.Code
		}
	}
}

// end1 books the one outcome of an attempt; nil if it had one, or was never started.
func (s *story) end1(o operation, number int, body events.Body) (*doing, *attempt) {
	d := s.doings[o]
	if d == nil || number < 1 || number > len(d.attempts) {
		s.fault("has %s of attempt %d of the %s of step %s, which was never started", body.Name(), number, o.op, o.step)
		return nil, nil
	}
	a := d.attempts[number-1]
	if a.outcome != "" {
		s.fault("has %s of attempt %d of the %s of step %s, which has its outcome: %s", body.Name(), number, o.op, o.step, a.outcome)
		return nil, nil
	}
	a.outcome = body.Name()
	return d, a
}

// noneRuns checks that every attempt has its outcome when the task ends.
func (s *story) noneRuns(end events.Name) {
	if end == events.NameTaskParked {
		return // another branch may still run
	}
	for o, d := range s.doings {
		for _, a := range d.attempts {
			if a.outcome == "" {
				s.fault("ends with %s while attempt %d of the %s of step %s has no outcome", end, a.number, o.op, o.step)
			}
		}
	}
}

// mayUndo checks the rules of DESIGN 5 where an undo begins: no do runs, no other undo runs, no pivot completed, and
// what completed later is undone already.
func (s *story) mayUndo(step string) {
	this := s.doings[operation{step, events.Do}]
	if this == nil {
		s.fault("undoes step %s, which was never started", step)
		return
	}
	for o, d := range s.doings {
		last := d.attempts[len(d.attempts)-1]
		if last.outcome == "" && o != (operation{step, events.Undo}) {
			s.fault("undoes step %s while attempt %d of the %s of step %s runs", step, last.number, o.op, o.step)
		}
		if o.op == events.Undo {
			continue
		}
		if d.pivot && d.completion > 0 {
			s.fault("undoes step %s behind its pivot %s", step, o.step)
		}
		if this.completion > 0 && d.completion > this.completion && d.undoable && !s.undone(o.step) {
			s.fault("undoes step %s before step %s, which completed later", step, o.step)
		}
	}
}

func (s *story) undone(step string) bool {
	d := s.doings[operation{step, events.Undo}]
	return d != nil && slices.ContainsFunc(d.attempts, func(a *attempt) bool { return a.outcome == events.NameCompensated })
}
