package export

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// beginning is what a fact says by which a step begins or is skipped, and the state does not keep.
type beginning struct {
	Path string `json:"path"`
	Run  int    `json:"run,omitzero"`
	// Ready and Started are those of an attempt.
	Ready     events.Instant `json:"ready,omitzero"`
	Started   events.Instant `json:"started,omitzero"`
	Condition *bool          `json:"condition,omitempty"`
}

// beginnings are those of the steps of all tasks of a partition that the log has not forgotten, in a file.
type beginnings struct{ *spill[beginning] }

func (b beginnings) note(r *events.Record, f *Fact) error {
	switch events.Name(f.Type) {
	case events.NameTasksSwept:
		var swept events.TasksSwept
		if err := json.Unmarshal(r.Value, &swept); err != nil {
			return err
		}
		for _, task := range swept.Tasks {
			if err := b.forget(task); err != nil {
				return err
			}
		}
		return nil
	case events.NameStepStarted, events.NameWaitStarted, events.NameFanOutStarted, events.NameStepSkipped:
	default:
		return nil
	}
	fact, err := events.DecodeFact(r)
	if err != nil {
		return err
	}
	x := beginning{}
	switch body := fact.Body.(type) {
	case *events.StepStarted:
		x = beginning{Path: body.Step, Run: max(body.Run, 1), Ready: body.ReadyAt, Started: fact.Time, Condition: body.Condition}
		if x.Ready == 0 {
			x.Ready = fact.Time
		}
	case *events.WaitStarted:
		x = beginning{Path: body.Step, Condition: body.Condition}
	case *events.FanOutStarted:
		x = beginning{Path: body.Step, Condition: body.Condition}
	case *events.StepSkipped:
		if body.Why != events.SkipCondition {
			return nil
		}
		x = beginning{Path: body.Step, Condition: new(bool)}
	}
	return b.add(f.Task, &x)
}

// of returns what is known of the steps of a task, by path. Of its attempts, the first of the run counts.
func (b beginnings) of(t *events.Task) (map[string]beginning, error) {
	list, err := b.read(t.ID)
	if err != nil {
		return nil, err
	}
	runs := make(map[string]int, len(t.Steps))
	for _, s := range t.Steps {
		runs[s.Path] = max(s.Run, 1)
	}
	all := make(map[string]beginning, len(t.Steps))
	for _, x := range list {
		known := all[x.Path]
		if x.Condition != nil {
			known.Condition = x.Condition
		}
		if x.Started != 0 && x.Run == runs[x.Path] && known.Started == 0 {
			known.Ready, known.Started = x.Ready, x.Started
		}
		all[x.Path] = known
	}
	return all, nil
}
