package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// lateTasks are the live tasks of some partitions that are past their deadline or a soft limit. It is reused until an instant.
type lateTasks struct {
	until      time.Time
	partitions []int32
	tasks      []string
	partial    bool
	// held are the alerts of schedules and limits, which are looked for at the same time.
	held []api.Alert
}

// goesOn are the states in which a task may be late. A parked one waits for an operator, whatever its times.
var goesOn = []events.TaskState{events.TaskStatePending, events.TaskStateProcessing, events.TaskStateUndoing}

// lateTasks returns the late tasks of partitions, as they were found out a moment ago. A look is finished even if nobody waits for it any more: otherwise
// one that takes longer than its askers wait would begin again with each of them, and never end.
func (a *alerts) lateTasks(partitions []int32) (lateTasks, error) {
	if len(partitions) == 0 {
		return lateTasks{}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	begun := time.Now()
	a.late = slices.DeleteFunc(a.late, func(l lateTasks) bool { return !begun.Before(l.until) })
	for _, l := range a.late {
		if slices.Equal(l.partitions, partitions) {
			return l, nil
		}
	}
	found, err := a.findLate(partitions)
	if err == nil {
		found.held, err = a.held(partitions)
	}
	if err == nil {
		now := time.Now()
		found.until = now.Add(max(lateFor, lateShare*now.Sub(begun)))
		a.late = append(a.late[max(0, len(a.late)-lateKept+1):], found)
	}
	return found, err
}

// findLate looks at the newest live tasks of partitions, since no index leads to the late ones.
func (a *alerts) findLate(partitions []int32) (lateTasks, error) {
	found, now := lateTasks{partitions: slices.Clone(partitions)}, events.At(time.Now())
	limits := map[string]*softLimits{} // by definition
	f := projector.Filter{States: goesOn, Partitions: partitions, Limit: projector.MaxList, Brief: true}
	for seen, read := 0, 0; ; {
		page, next, err := a.store.List(f)
		if err != nil {
			return found, err
		}
		for _, t := range page {
			if _, known := limits[t.Definition]; !known {
				limits[t.Definition] = a.softLimitsOf(t)
			}
			late := t.DeadlinePassed
			if l := limits[t.Definition]; !late && l != nil && now.Sub(t.SubmittedAt) >= l.least {
				read++
				of, err := a.ofTask(t.ID)
				if err != nil {
					return found, err
				}
				late = len(of) > 0
			}
			if late {
				found.tasks = append(found.tasks, t.ID)
			}
		}
		if f.Cursor = next; next == "" {
			return found, nil
		}
		if seen += max(len(page), 1); seen >= api.MostCounted || read >= api.MostRead || len(found.tasks) >= api.MostOpen {
			found.partial = true
			return found, nil
		}
	}
}

// softLimits are those of a definition.
type softLimits struct {
	task  time.Duration
	steps map[string]time.Duration
	// least is the smallest of them.
	least time.Duration
}

// softLimitsOf returns the soft limits of the definition of a task, nil if it has none.
func (a *alerts) softLimitsOf(t *events.Task) *softLimits {
	p, ok := a.defs.byHash(t.Definition)
	if !ok {
		return nil
	}
	return limitsOf(p.Definition())
}

func limitsOf(d *scheduler.Definition) *softLimits {
	var l *softLimits
	with := func(limit time.Duration) {
		if l == nil {
			l = &softLimits{steps: map[string]time.Duration{}, least: limit}
		}
		l.least = min(l.least, limit)
	}
	if limit := d.RemindAfter.Std(); limit > 0 {
		with(limit)
		l.task = limit
	}
	for i := range d.Steps {
		if limit := d.Steps[i].RemindAfter.Std(); limit > 0 {
			with(limit)
			l.steps[d.Steps[i].ID] = limit
		}
	}
	return l
}

// ofTask returns the open alerts of a task.
func (a *alerts) ofTask(id string) (list []api.Alert, err error) {
	t, ok, err := a.store.Get(a.home(id), id)
	if err != nil || !ok || t.State.Ended() {
		return nil, err
	}
	raised := func(x api.Alert, at events.Instant) {
		x.Task, x.Workflow = t.ID, t.Workflow
		list = append(list, x.Named(at))
	}
	if t.State == events.TaskStateError {
		raised(api.Alert{Kind: supervisor.AlertParked, Since: t.ParkedAt, Reason: t.Reason}, t.ParkedAt)
		return list, nil
	}
	if t.DeadlinePassed {
		reason := "the deadline has passed"
		if t.State == events.TaskStateUndoing {
			reason += "; the task is being undone"
		}
		raised(api.Alert{Kind: supervisor.AlertDeadline, Since: t.Deadline, Reason: reason}, t.Deadline)
	}
	l := a.softLimitsOf(t)
	if l == nil {
		return list, nil
	}
	// A soft limit that has passed leaves the state, so it has passed if the definition has one and the state does not.
	run := t.SubmittedAt + events.Instant(t.Run-1) // distinguishes the runs of a task
	if l.task > 0 && t.SoftAt == 0 {
		raised(api.Alert{Kind: supervisor.AlertSoftLimit, Since: t.SubmittedAt, Reason: notOver(l.task)}, run)
	}
	for _, s := range t.Steps {
		limit, begun := l.steps[s.Path], s.Waits() || s.Fans() || s.Attempt > s.EarlierAttempts
		if limit > 0 && s.SoftAt == 0 && begun && (s.State == events.StepStateRunning || s.State == events.StepStateWaiting) {
			raised(api.Alert{Kind: supervisor.AlertSoftLimit, Step: s.Path, Since: s.StartedAt, Reason: notOver(limit)}, run)
		}
	}
	return list, nil
}

func notOver(limit time.Duration) string {
	return fmt.Sprintf("not over %s after it began (remind_after of its workflow)", events.Duration(limit))
}

func passedOver(inRow int, task string) string {
	return fmt.Sprintf("%d due times in a row were passed over, because task %s has not ended", inRow, task)
}

func heldBy(limit string, waiting int, t *events.Task) api.Alert {
	x := api.Alert{
		Kind: supervisor.AlertBlocked, Limit: strings.TrimPrefix(limit, events.ConcurrencyPrefix), Task: t.ID, Workflow: t.Workflow, Since: t.ParkedAt,
		Reason: fmt.Sprintf("tasks that wait for the permit of the parked task %s: %d; retry, cancel or terminate it", t.ID, waiting),
	}
	return x.Named(t.ParkedAt)
}
