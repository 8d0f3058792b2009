package main

import (
	"slices"

	"github.com/google/uuid"

	"github.com/sagalog/sagalog/events"
)

// operation is a step's do or its undo, in one run.
type operation struct {
	step string
	op   events.Operation
	run  int
}

// attempt is one attempt in the log.
type attempt struct {
	number int
	// outcome is the name of the fact that ended it, empty while it runs.
	outcome events.Name
	// code is the code of the reported error, such as http_422.
	code string
	// none says that the agent reported that nothing was changed.
	none bool
}

// doing is what the log says about one operation of a task.
type doing struct {
	operation
	agent           string
	attempts        []*attempt
	pivot, undoable bool
	// completion orders the completed dos of a task, from 1; zero is not completed.
	completion int
	// touched says that some attempt may have had an effect.
	touched bool
	// past says that the step was done in a later run, so this was undone.
	past bool
}

// story is one task in the log.
type story struct {
	id string
	// incarnation is the position of its Submitted.
	incarnation string
	partition   int32
	submitted   int
	// end is the fact that ended or parked the task.
	end         events.Name
	doings      map[operation]*doing
	completions int
	pulse       pulse
	// runs holds the runs of the steps, and redone the steps that run once more.
	runs   map[string]int
	redone []string
}

// now is an operation of a step in its latest run.
func (s *story) now(step string, op events.Operation) operation {
	return operation{step, op, events.RunOf(s.runs[step])}
}

// key is the idempotency key of an operation.
func (s *story) key(namespace uuid.UUID, o operation) string {
	w := events.Work{Task: s.id, Ticket: s.incarnation, Run: o.run, Step: o.step}
	return w.Key(namespace, o.op)
}

// ended says whether no further fact may follow.
func (s *story) ended() bool {
	return s.end == events.NameTaskProcessed || s.end == events.NameTaskUndone || s.end == events.NameTaskTerminated
}

func (s *story) fold(f *events.Fact, c *logCounts) {
	switch b := f.Body.(type) {
	case *events.Submitted:
		s.submitted++
		s.incarnation = f.Position().String()
	case *events.StepStarted:
		s.runs[b.Step] = b.Run
		d := s.started(s.now(b.Step, events.Do), b.Attempt, b.Agent, c)
		d.pivot, d.undoable = b.Pivot, b.Undoable
	case *events.CompensationStarted:
		c.Undos++
		s.started(s.now(b.Step, events.Undo), b.Attempt, b.Agent, c)
	case *events.TaskProcessed, *events.TaskUndone, *events.TaskTerminated, *events.TaskParked:
		s.end = f.Body.Name()
	case *events.TaskReopened:
		s.end = ""
	case *events.TaskRerun:
		s.end, s.redone = "", b.Steps
	case *events.RunBegun:
		for _, step := range s.redone {
			if d := s.doings[s.now(step, events.Do)]; d != nil {
				d.past = true
			}
		}
	case *events.EffectFailed:
		if b.Failed != nil {
			s.outcome(b.Failed, c)
		} else if b.CompensationFailed != nil {
			s.outcome(b.CompensationFailed, c)
		}
	default:
		s.outcome(f.Body, c)
	}
}

func (s *story) started(o operation, number int, agent string, c *logCounts) *doing {
	c.Attempts++
	d := s.doings[o]
	if d == nil {
		d = &doing{operation: o, agent: agent}
		s.doings[o] = d
	}
	if len(d.attempts) > 0 {
		c.Retries++
	}
	d.attempts = append(d.attempts, &attempt{number: number})
	return d
}

// outcome takes the facts that end an attempt.
func (s *story) outcome(body events.Body, c *logCounts) {
	switch b := body.(type) {
	case *events.StepCompleted:
		if d, a := s.endAttempt(s.now(b.Step, events.Do), b.Attempt, body); a != nil {
			s.completions++
			d.completion, d.touched = s.completions, true
		}
	case *events.StepFailed:
		if d, a := s.endAttempt(s.now(b.Step, events.Do), b.Attempt, body); a != nil {
			a.code, a.none = b.Error.Code, b.Effect == events.EffectNone
			d.touched = d.touched || !a.none
		}
	case *events.Timeout:
		c.Timeouts++
		if d, a := s.endAttempt(s.now(b.Step, b.Operation), b.Attempt, body); a != nil {
			d.touched = true
		}
	case *events.Compensated:
		s.endAttempt(s.now(b.Step, events.Undo), b.Attempt, body)
	case *events.CompensationFailed:
		if _, a := s.endAttempt(s.now(b.Step, events.Undo), b.Attempt, body); a != nil {
			a.code = b.Error.Code
		}
	}
}

// endAttempt notes the outcome of an attempt. It returns nil if the attempt never started, such as attempt 0, which failed before
// its start.
func (s *story) endAttempt(o operation, number int, body events.Body) (*doing, *attempt) {
	d := s.doings[o]
	a := d.attempt(number)
	if a == nil {
		return nil, nil
	}
	a.outcome = body.Name()
	return d, a
}

// attempt returns the attempt with the number, or nil. Attempts are numbered through all runs.
func (d *doing) attempt(number int) *attempt {
	if d == nil {
		return nil
	}
	i := slices.IndexFunc(d.attempts, func(a *attempt) bool { return a.number == number })
	if i < 0 {
		return nil
	}
	return d.attempts[i]
}

// undone says whether what was done was undone.
func (s *story) undone(do operation) bool {
	d := s.doings[operation{do.step, events.Undo, do.run}]
	return d != nil && slices.ContainsFunc(d.attempts, func(a *attempt) bool { return a.outcome == events.NameCompensated })
}
