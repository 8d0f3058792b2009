package export

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// event is something that happened to a task, as process mining sees it. It follows from one fact.
type event struct {
	Activity  string `json:"activity"`
	Lifecycle string `json:"lifecycle"`
	Time      int64  `json:"time"`
	Offset    int64  `json:"offset"`
	Step      string `json:"step,omitempty"`
	Item      *int32 `json:"item,omitempty"`
	// Operation and Attempt are those of an attempt; other events have neither.
	Operation string `json:"operation,omitempty"`
	Attempt   int32  `json:"attempt,omitzero"`
	Agent     string `json:"agent,omitempty"`
	Function  string `json:"function,omitempty"`
	Child     string `json:"child,omitempty"`
	Instance  string `json:"instance,omitempty"`
	By        string `json:"by,omitempty"`
	// Outcome, Class and Code are those of an attempt, and the outcome that of a step which ends without one.
	Outcome string `json:"outcome,omitempty"`
	Class   string `json:"class,omitempty"`
	Code    string `json:"code,omitempty"`
	// Waits says what a step waits for that no agent does: sleep, or the names of signals.
	Waits string `json:"waits,omitempty"`
	// Items is how many items a step begins.
	Items *int `json:"items,omitempty"`
	// Limit names what gives a permit.
	Limit string `json:"limit,omitempty"`
}

// The words of the standard lifecycle of XES. An attempt that failed or timed out is ate_abort: its execution was given up, and the task went on. A task
// that an operator terminated is pi_abort, which is about the whole of it. A step is autoskip if its definition skipped it, and manualskip if an operator did.
const (
	lifecycleStart      = "start"
	lifecycleComplete   = "complete"
	lifecycleAbort      = "ate_abort"
	lifecycleTaskAbort  = "pi_abort"
	lifecycleAutoSkip   = "autoskip"
	lifecycleManualSkip = "manualskip"
)

// milestones are the activities of facts about a task as a whole. No step has such a name, since names of steps have no space.
var milestones = map[events.Name]string{
	events.NameSubmitted:          "task submitted",
	events.NameChildRefused:       "task refused",
	events.NameNotBeforePassed:    "not before passed",
	events.NameRunBegun:           "run begun",
	events.NameCancelRequested:    "cancel requested",
	events.NameChildUndoRequested: "undo requested by parent",
	events.NameRequestRefused:     "request refused",
	events.NameDeadlinePassed:     "deadline passed",
	events.NameSoftLimitPassed:    "soft limit passed",
	events.NameTaskParked:         "task parked",
	events.NameTaskReopened:       "retry requested",
	events.NameTaskRerun:          "rerun requested",
	events.NameTaskPaused:         "task paused",
	events.NameTaskResumed:        "task resumed",
	events.NameTaskProcessed:      "task processed",
	events.NameTaskUndone:         "task undone",
	events.NameTaskTerminated:     "task terminated",
}

// activityOf names what is done to a step.
func activityOf(step, operation string) string {
	if operation == string(events.Undo) {
		return step + " (undo)"
	}
	return step
}

// eventOf returns the event that follows from a fact, and false if nothing does. begun is the attempt that the fact begins, and ended the one that it ends;
// nil otherwise. fans says whether the step is a fan-out.
func eventOf(r *events.Record, f *Fact, begun, ended *Attempt, fans func() (bool, error)) (e event, ok bool, err error) {
	e = event{Lifecycle: lifecycleComplete, Time: f.Time, Offset: f.Offset, Step: f.Step, Item: f.Item, By: f.By}
	if m, ok := milestones[events.Name(f.Type)]; ok {
		e.Activity = m
		if events.Name(f.Type) == events.NameTaskTerminated {
			e.Lifecycle = lifecycleTaskAbort
		}
		return e, true, nil
	}
	if a := cmp.Or(begun, ended); a != nil {
		e.attempt(a, ended != nil)
		return e, true, nil
	}
	e.Activity = activityOf(f.Step, f.Operation)
	switch events.Name(f.Type) {
	case events.NameStepCompleted, events.NameCompensated:
		e.Outcome = "completed"
	case events.NameStepFailed, events.NameCompensationFailed:
		e.Lifecycle, e.Outcome = lifecycleAbort, "failed"
	case events.NameTimeout:
		e.Lifecycle, e.Outcome = lifecycleAbort, "timed_out"
	default:
		ok, err = e.read(r)
		return e, ok, err
	}
	fan, err := fans()
	if fan && f.Operation != string(events.Undo) {
		e.Activity = itemsOf(f.Step)
	}
	return e, true, err
}

// itemsOf is the activity of a fan-out as a whole. Its items have the name of the step.
func itemsOf(step string) string { return step + " (items)" }

// attempt makes the event that of an attempt, which begins or ends.
func (e *event) attempt(a *Attempt, ends bool) {
	e.Activity, e.Operation, e.Attempt = activityOf(a.Step, a.Operation), a.Operation, a.Attempt
	e.Agent, e.Function, e.Child = a.Agent, a.Function, a.Child
	if !ends {
		e.Lifecycle = lifecycleStart
		return
	}
	e.Instance, e.Outcome, e.Class, e.Code, e.By = a.Instance, a.Outcome, a.Class, a.Code, a.By
	if a.Outcome != "completed" {
		e.Lifecycle = lifecycleAbort
	}
}

// read makes the event of a fact whose body says more; false if nothing follows from the fact.
func (e *event) read(r *events.Record) (bool, error) {
	switch events.Name(strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix)) {
	case events.NameWaitStarted, events.NameFanOutStarted, events.NameStepSkipped, events.NameSignalReceived, events.NamePermitAsked, events.NamePermitGranted:
	default:
		return false, nil
	}
	f, err := events.DecodeFact(r)
	if err != nil {
		return false, err
	}
	switch b := f.Body.(type) {
	case *events.WaitStarted:
		e.Lifecycle, e.Waits = lifecycleStart, cmp.Or(strings.Join(b.Signals, " "), "sleep")
	case *events.FanOutStarted:
		e.Activity, e.Lifecycle, e.Items = itemsOf(b.Step), lifecycleStart, &b.Count
	case *events.StepSkipped:
		e.Lifecycle = lifecycleAutoSkip
		if b.Why == events.SkipOperator || b.Left {
			e.Lifecycle = lifecycleManualSkip
		}
		if b.Left {
			e.Activity = activityOf(e.Step, string(events.Undo))
		}
	case *events.SignalReceived:
		e.Activity = "signal " + b.Signal
	case *events.PermitAsked:
		e.permit(b.Limit, &b.Link)
		e.Lifecycle = lifecycleStart
		return !b.Repeat, nil
	case *events.PermitGranted:
		e.permit(b.Limit, &b.Link)
	default:
		return false, fmt.Errorf("the body of %s is %T", r.Header(events.HeaderType), b)
	}
	return true, nil
}

// permit makes the event that of waiting for a permit, of the task or of a step.
func (e *event) permit(limit string, of *events.Link) {
	e.Activity, e.Limit, e.Step = "task permit", limit, of.Path
	if of.Path == "" {
		return
	}
	if step, index, ok := events.SplitItem(of.Path); ok {
		item := int32(index)
		e.Step, e.Item = step, &item
	}
	e.Activity = e.Step + " (permit)"
}

// resource is who did it: an operator, the instance of an agent, or an agent whose instance did not say.
func (e *event) resource() string { return cmp.Or(e.By, e.Instance, e.Agent) }

// path is the step or the item; empty if the event is about the task.
func (e *event) path() string {
	if e.Item == nil {
		return e.Step
	}
	return events.ItemPath(e.Step, int(*e.Item))
}

// sayInstances gives the beginning of each attempt the instance that its end names: the fact that begins it does not know it.
func sayInstances(list []event) {
	type attempt struct {
		path, operation string
		n               int32
	}
	instances := map[attempt]string{}
	for i := len(list) - 1; i >= 0; i-- {
		e := &list[i]
		if e.Attempt == 0 {
			continue
		}
		of := attempt{e.path(), e.Operation, e.Attempt}
		if e.Lifecycle == lifecycleStart {
			e.Instance = instances[of]
		} else {
			instances[of] = e.Instance
		}
	}
}
