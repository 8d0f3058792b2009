package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// trace is a run of a task with its events, in the order of the log.
type trace struct {
	// Name is unique in the log.
	Name        string            `json:"name"`
	Partition   int32             `json:"partition"`
	Task        string            `json:"task"`
	Run         int               `json:"run"`
	Incarnation string            `json:"incarnation,omitempty"`
	Workflow    string            `json:"workflow"`
	Version     int               `json:"version"`
	State       string            `json:"state"`
	Priority    int               `json:"priority,omitzero"`
	Labels      map[string]string `json:"labels,omitempty"`
	Parent      string            `json:"parent,omitempty"`
	ParentStep  string            `json:"parent_step,omitempty"`
	Schedule    string            `json:"schedule,omitempty"`
	Events      []event           `json:"events"`
}

// traces makes traces: what the fold says of each run of a task, as in the table of tasks, and the events of the run.
type traces struct {
	states[trace]
	attempts attempts
	spill    *spill[event]
	// forgotten are the tasks that the log has forgotten, since such an ID may be used again.
	forgotten *shelf[struct{}]
}

func newTraces(cfg *Config, table string, partition int32) (*traces, error) {
	t := &traces{attempts: attempts{namespace: cfg.NamespaceID, running: map[attemptOf]*Attempt{}}, forgotten: newShelf[struct{}](cfg.room(table), "forgotten")}
	of, err := newStates(cfg, table, partition, t.trace)
	if err != nil {
		return nil, err
	}
	t.states = *of
	if t.spill, err = newSpill[event](cfg.room(table), "events"); err != nil {
		return nil, errors.Join(err, of.close())
	}
	return t, nil
}

func (t *traces) close() error {
	return errors.Join(t.spill.close(), t.forgotten.close(), t.states.close())
}

func (t *traces) take(r *events.Record, f *Fact, known *lives, emit func(entry[trace]) error) error {
	e, ok, err := t.event(r, f)
	if err != nil {
		return err
	}
	// The first event of a run is added after the run before it is written, which takes the events that there are.
	if err := t.states.take(r, f, known, emit); err != nil {
		return err
	}
	if ok {
		return t.spill.add(f.Task, &e)
	}
	if events.Name(f.Type) == events.NameTasksSwept {
		return t.forget(r.Value)
	}
	return nil
}

func (t *traces) event(r *events.Record, f *Fact) (event, bool, error) {
	if f.Task == "" {
		return event{}, false, nil
	}
	var begun, ended *Attempt
	x, ends, err := t.attempts.ends(r, f)
	if err != nil {
		return event{}, false, err
	}
	if ends {
		ended = x.row
	}
	switch events.Name(f.Type) {
	case events.NameStepStarted, events.NameCompensationStarted:
		path := f.Step
		if f.Item != nil {
			path = events.ItemPath(f.Step, int(*f.Item))
		}
		begun = t.attempts.running[attemptOf{f.Task, path, events.Operation(f.Operation), int(f.Attempt)}]
	}
	return eventOf(r, f, begun, ended, func() (bool, error) {
		x, err := t.folder.State().Task(f.Task)
		if err != nil || x == nil {
			return false, err
		}
		s := x.Step(f.Step)
		return f.Item == nil && s != nil && s.Fan != nil, nil
	})
}

// forget notes that a sweep forgets tasks.
func (t *traces) forget(value []byte) error {
	var b events.TasksSwept
	if err := json.Unmarshal(value, &b); err != nil {
		return err
	}
	for _, task := range b.Tasks {
		if err := errors.Join(t.spill.forget(task), t.forgotten.put(keyOf(task), struct{}{})); err != nil {
			return err
		}
	}
	return nil
}

// trace makes the trace of a run that is over for good, or at the end.
func (t *traces) trace(x *events.Task, _ life) ([]trace, error) {
	list, err := t.spill.take(x.ID)
	if err != nil {
		return nil, err
	}
	sayInstances(list)
	_, again, err := t.forgotten.look(keyOf(x.ID))
	if err != nil {
		return nil, err
	}
	to := trace{
		Partition: t.partition, Task: x.ID, Run: max(x.Run, 1), Incarnation: x.Incarnation, Workflow: x.Workflow, Version: x.Version, State: string(x.State), Priority: x.Priority,
		Labels: x.Labels, Schedule: x.Schedule, Events: list,
	}
	to.Name = nameOf(&to, again)
	if x.Parent != nil {
		to.Parent, to.ParentStep = x.Parent.Link.Task, x.Parent.Link.Path
	}
	return []trace{to}, nil
}

// nameOf names a trace: the task, and the run after a # from the second on. If an earlier task may have had the same ID, and was forgotten, the incarnation
// follows. A task whose ID has a # always has the run, so that no two traces have the same name.
func nameOf(t *trace, again bool) string {
	switch {
	case again:
		return fmt.Sprintf("%s#%d@%s", t.Task, t.Run, t.Incarnation)
	case t.Run > 1 || strings.Contains(t.Task, "#"):
		return fmt.Sprintf("%s#%d", t.Task, t.Run)
	}
	return t.Task
}
