package events

import (
	"fmt"
	"slices"
	"time"
)

// A step whose definition names a limit needs a permit for each attempt to do or to undo it. It asks last, when the attempt could start
// otherwise, and gives the permit back when the attempt is over. The permit belongs to that attempt alone: the next one asks again.

// StepPermit is what a task knows of the permit of one attempt of a step.
type StepPermit struct {
	Path      string    `json:"path"`
	Operation Operation `json:"operation"`
	// Limit is the name of the limit as its records have it: see LimitKey.
	Limit string `json:"limit"`
	// Run is that of the step, and N the number of the link. No two links of the steps of a task have the same.
	Run   int         `json:"run"`
	N     int         `json:"n"`
	State PermitState `json:"state"`
	// At is when the permit was granted, or asked for last.
	At Instant `json:"at"`
	// Used says that the attempt has started.
	Used bool `json:"used,omitzero"`
	// QuietAt is when no request of the attempt can land any more; zero if the attempt has not ended, or is not in doubt.
	QuietAt Instant `json:"quiet_at,omitzero"`
}

// stepPermits is what a task knows of the permits of its steps.
type stepPermits struct {
	// StepPermits are those that its attempts have or wait for, in the order in which they asked.
	StepPermits []StepPermit `json:"step_permits,omitempty"`
	// StepLinks counts the links that its steps have had.
	StepLinks int `json:"step_links,omitzero"`
	// StepsQuietAt is when no request of an attempt whose permit was given back can land any more.
	StepsQuietAt Instant `json:"steps_quiet_at,omitzero"`
}

// StepPermitOf returns the permit that the next attempt of an operation, or the running one, has or waits for; nil without one.
func StepPermitOf(t *Task, path string, op Operation) *StepPermit {
	for i := range t.StepPermits {
		if p := &t.StepPermits[i]; p.Path == path && p.Operation == op {
			return p
		}
	}
	return nil
}

// AwaitsPermit says whether an attempt waits for a permit. It starts when it has one.
func AwaitsPermit(t *Task, path string, op Operation) bool {
	p := StepPermitOf(t, path, op)
	return p != nil && p.State == PermitStateAsked
}

// link is the name of what the task asked for.
func (p *StepPermit) link(t *Task) Link {
	return Link{Task: t.ID, Incarnation: t.Incarnation, Run: p.Run, Path: p.Path, Operation: p.Operation, N: p.N}
}

// AskStepPermit returns the fact by which the next attempt of an operation asks a limit for a permit, again if it has asked before.
func AskStepPermit(t *Task, path string, op Operation, limit string) *PermitAsked {
	p, again := StepPermitOf(t, path, op), true
	if p == nil {
		p, again = &StepPermit{Path: path, Operation: op, Limit: limit, Run: RunOf(t.RunOf(path)), N: t.StepLinks + 1}, false
	}
	return &PermitAsked{Limit: p.Limit, Link: p.link(t), Priority: t.Priority, Repeat: again}
}

// OpenStepPermits returns the releases of all permits that the steps of the task have or wait for.
func OpenStepPermits(t *Task) (list []*PermitReleased) {
	for i := range t.StepPermits {
		list = append(list, t.StepPermits[i].release(t))
	}
	return list
}

func (p *StepPermit) release(t *Task) *PermitReleased {
	//mutant:attempt-in-doubt-says-until-when
	return &PermitReleased{Limit: p.Limit, Link: p.link(t), QuietAt: p.QuietAt}
}

// ReleaseStepPermit returns the release of the permit that the next attempt of an operation has or waits for. It has one.
func ReleaseStepPermit(t *Task, path string, op Operation) *PermitReleased {
	return StepPermitOf(t, path, op).release(t)
}

// UnneededPermits returns the releases of the permits that no attempt needs any more: the attempt is over, or it will not start, because the task is
// parked, paused, or turned back.
func UnneededPermits(t *Task) (list []Body) {
	for i := range t.StepPermits {
		if p := &t.StepPermits[i]; !p.needed(t) {
			list = append(list, p.release(t))
		}
	}
	return list
}

// needed says whether the attempt runs, or may still start.
func (p *StepPermit) needed(t *Task) bool {
	if p.Used {
		//mutant:permit-ends-with-its-attempt
		return p.runs(t)
	}
	//mutant:unused-permit-goes-back
	return mayTake(t, p.Path, p.Operation)
}

func (p *StepPermit) runs(t *Task) bool {
	s := t.Step(p.Path)
	if s == nil || p.Operation == Do {
		return s != nil && s.State == StepStateRunning
	}
	return s.Undo != nil && s.Undo.State == StepStateRunning
}

// mayTake says whether an attempt of the operation may start, so that it may ask for a permit, or keep one that it has not used.
func mayTake(t *Task, path string, op Operation) bool {
	s := t.Step(path)
	if !t.Starts() || t.ParkDue != "" || op == Do && t.State == TaskStateUndoing {
		return false
	}
	if op == Undo {
		return s != nil && Undoes(t, s) && s.State != StepStateRunning && (s.Undo == nil || s.Undo.State == StepStateWaiting)
	}
	return Permitted(t) && (s == nil || s.State == StepStateNotStarted || s.State == StepStateWaiting && !s.Waits())
}

// stepPermitFact takes a fact about the permit of an attempt.
func stepPermitFact(t *Task, f *Fact, link Link) error {
	p, wrong := StepPermitOf(t, link.Path, link.Operation), fmt.Errorf("%w: %s of step %q of task %q", ErrImpossible, f.Body.Name(), link.Path, t.ID)
	switch b := f.Body.(type) {
	case *PermitAsked:
		if b.Repeat != (p != nil) || p != nil && p.State != PermitStateAsked || *AskStepPermit(t, link.Path, link.Operation, b.Limit) != *b {
			return wrong
		}
		if p != nil {
			p.At = f.Time
			return nil
		}
		if !mayTake(t, link.Path, link.Operation) {
			return wrong
		}
		t.StepLinks++
		t.StepPermits = append(slices.Clip(t.StepPermits), StepPermit{
			Path: link.Path, Operation: link.Operation, Limit: b.Limit, Run: link.Run, N: link.N, State: PermitStateAsked, At: f.Time,
		})
	case *PermitGranted:
		if p == nil || p.State != PermitStateAsked || p.link(t) != link || p.Limit != b.Limit {
			return wrong
		}
		p.State, p.At = PermitStateGranted, f.Time
	case *PermitReleased:
		if p == nil || *p.release(t) != *b || p.runs(t) && p.Used {
			return wrong
		}
		t.StepsQuietAt = max(t.StepsQuietAt, p.QuietAt)
		t.StepPermits = slices.DeleteFunc(slices.Clone(t.StepPermits), func(x StepPermit) bool { return x.N == p.N })
	default: // nobody waits behind a parked step
		return wrong
	}
	return nil
}

// usePermit notes that an attempt with a permit starts, or until when a request of it may land after it has ended.
func usePermit(t *Task, b Body) error {
	if len(t.StepPermits) == 0 {
		return nil
	}
	switch b := b.(type) {
	case *StepStarted:
		return startPermit(t, b.Step, Do)
	case *CompensationStarted:
		return startPermit(t, b.Step, Undo)
	case *StepCompleted:
		endPermit(t, b.Step, Do, b.QuietAt)
	case *StepFailed:
		endPermit(t, b.Step, Do, b.QuietAt)
	case *Compensated:
		endPermit(t, b.Step, Undo, b.QuietAt)
	case *CompensationFailed:
		endPermit(t, b.Step, Undo, b.QuietAt)
	case *Timeout:
		endPermit(t, b.Step, b.Operation, b.QuietAt)
	case *TaskProcessed, *TaskUndone, *TaskTerminated, *RunBegun:
		return fmt.Errorf("%w: %s of task %q, whose steps have permits or wait for them", ErrImpossible, b.Name(), t.ID)
	}
	return nil
}

func startPermit(t *Task, path string, op Operation) error {
	p := StepPermitOf(t, path, op)
	if p != nil && (p.State != PermitStateGranted || p.Used) {
		return fmt.Errorf("%w: the %s of step %q starts before it has its permit, or with that of an earlier attempt", ErrImpossible, op, path)
	}
	if p != nil {
		p.Used = true
	}
	return nil
}

func endPermit(t *Task, path string, op Operation, quiet Instant) {
	if p := StepPermitOf(t, path, op); p != nil && p.Used {
		p.QuietAt = max(p.QuietAt, quiet)
	}
}

// hasStepLink says whether an attempt of the task has the link, whether it waits for it or has got it.
func hasStepLink(t *Task, l Link) bool {
	p := StepPermitOf(t, l.Path, l.Operation)
	return p != nil && p.link(t) == l
}

// stepPermitTimers adds the times at which the steps ask again.
func stepPermitTimers(list []Timer, t *Task) []Timer {
	for i := range t.StepPermits {
		if p := &t.StepPermits[i]; p.State == PermitStateAsked {
			list = append(list, Timer{Due: p.At.Add(RepeatAfter), Kind: TimerPermit, Path: p.Path, Operation: p.Operation, Attempt: p.N})
		}
	}
	return list
}

// correctStepPermits takes a correction of the time, when the times of the attempts are corrected.
func correctStepPermits(t *Task, to Instant, grace time.Duration) {
	latest := to.Add(grace)
	for _, s := range t.Steps {
		latest = max(latest, s.LastEnd().Add(grace))
		if s.Undo != nil {
			latest = max(latest, s.Undo.CompleteBy.Add(grace))
		}
	}
	t.StepsQuietAt = min(t.StepsQuietAt, latest)
	for i := range t.StepPermits {
		p := &t.StepPermits[i]
		p.At, p.QuietAt = min(p.At, to), min(p.QuietAt, latest)
	}
}
