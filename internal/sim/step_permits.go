package sim

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// attemptOf names the attempts of one operation of a step.
type attemptOf struct {
	path string
	op   events.Operation
}

// urgentUndo is more than any priority: a permit goes to an undo first.
const urgentUndo = 1 << 30

// urgency is the priority of a link, with that of its operation.
func urgency(l *events.Link, priority int) int {
	if l.Operation == events.Undo {
		return priority + urgentUndo
	}
	return priority
}

// stepLimit is the limit that a step of a task has by its definition, "" if it has none.
func stepLimit(t *events.Task, path string) string {
	p := programs.Program(t.Definition)
	if p == nil {
		return ""
	}
	path = events.DefinedStep(path)
	for i := range p.Definition().Steps {
		if s := &p.Definition().Steps[i]; s.ID == path && s.Limit != "" {
			return "limit/" + s.Limit
		}
	}
	return ""
}

// StepAgents are the agents of the steps of a task, by the paths of the steps.
func StepAgents(t *events.Task) map[string]string {
	agents := map[string]string{}
	if p := programs.Program(t.Definition); p != nil {
		for i := range p.Definition().Steps {
			s := &p.Definition().Steps[i]
			agents[s.ID] = s.Agent
		}
	}
	return agents
}

// hasStepLink says whether a step of the task waits for the permit of that link, or has it.
func hasStepLink(t *events.Task, l events.Link) bool {
	for _, p := range t.StepPermits {
		if p.Path == l.Path && p.Operation == l.Operation && p.N == l.N && p.Run == l.Run && t.Incarnation == l.Incarnation {
			return !t.State.Ended()
		}
	}
	return false
}

// needsStepPermitFact says why the grant of a step's permit cannot be passed without a fact, or "" if it can.
func (j *Judge) needsStepPermitFact(x *Permit, t *events.Task) string {
	if t != nil && hasStepLink(t, x.Link) && events.StepPermitOf(t, x.Link.Path, x.Link.Operation).State == events.PermitStateAsked {
		return "the grant is not taken"
	}
	return ""
}

// startsWithin checks that an attempt of a step with a limit has a permit, and that no more attempts than the limit allows run, or are over while
// a request of theirs may still land.
func (j *Judge) startsWithin(f *events.Fact, a attemptOf, states []*events.State, right func(events.Instant) events.Instant) {
	own, _ := j.State.Task(f.Task)
	if own == nil {
		return // the fold refuses the fact
	}
	limit := stepLimit(own, a.path)
	if limit == "" {
		return
	}
	if p := events.StepPermitOf(own, a.path, a.op); p == nil || p.State != events.PermitStateGranted || p.Used || p.Limit != limit {
		j.Fail("the %s of step %q of task %q starts without a permit of %s", a.op, a.path, f.Task, limit)
	}
	inside := 1
	for _, s := range states {
		s.Loaded(func(t *events.Task) bool {
			inside += insideOf(t, limit, func(at events.Instant) bool { return right(at) > right(f.Time) })
			return true
		})
	}
	if most := j.Objects.Most(limit); inside > most {
		j.Fail("%d attempts are inside the limit %s at once, and %d may be", inside, limit, most)
	}
}

// insideOf counts the attempts of a task that run within a limit, and one more if a request of an earlier one may still land. No task of the
// worlds has steps with different limits.
func insideOf(t *events.Task, limit string, later func(events.Instant) bool) (n int) {
	for _, s := range t.Steps {
		if stepLimit(t, s.Path) != limit {
			continue
		}
		if s.State == events.StepStateRunning {
			n++
		}
		if s.Undo != nil && s.Undo.State == events.StepStateRunning {
			n++
		}
	}
	doubt := later(t.StepsQuietAt)
	for _, p := range t.StepPermits {
		doubt = doubt || p.Limit == limit && later(p.QuietAt)
	}
	if doubt && limitsOf(t)[limit] {
		n++
	}
	return n
}

// limitsOf are the limits of the steps of a task.
func limitsOf(t *events.Task) map[string]bool {
	all := map[string]bool{}
	for _, s := range t.Steps {
		all[stepLimit(t, s.Path)] = true
	}
	return all
}

// keepsPermit checks that the permit of an undo without a report, or in doubt by its report, is kept until no request of it can land.
func (j *Judge) keepsPermit(f *events.Fact, path string, op events.Operation, attempt int, quiet events.Instant) {
	t, _ := j.State.Task(f.Task)
	if t == nil || op != events.Undo || attempt == 0 || stepLimit(t, path) == "" {
		return
	}
	want := events.Instant(0)
	if s := t.Step(path); s != nil && s.Undo != nil {
		want = s.Undo.CompleteBy.Add(j.State.Partition.Settings.Grace.Std())
	}
	if quiet != want {
		j.Fail("the permit of the undo of step %q of task %q is kept until %q, and a request of it may land until %q", path, f.Task, quiet.String(), want.String())
	}
}

// unknownStepPermit names a permit of a step of the task that its limit does not know, "" if the limits know all.
func unknownStepPermit(states []*events.State, t *events.Task) string {
	if t.State.Ended() {
		return ""
	}
	for _, p := range t.StepPermits {
		link := events.Link{Task: t.ID, Incarnation: t.Incarnation, Run: p.Run, Path: p.Path, Operation: p.Operation, N: p.N}
		if states[events.Home(p.Limit, int32(len(states)))].Limits.Get(p.Limit).Permit(link) == nil {
			return fmt.Sprintf("stuck task: %s does not know the permit of step %q of %s", p.Limit, p.Path, t.ID)
		}
	}
	return ""
}
