package wftest

import (
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Coverage is what the cases of a file reached.
type Coverage struct {
	Steps Reached `json:"steps"`
	// Undos counts the steps that have an undo, and Skips those that have a condition.
	Undos Reached `json:"undos"`
	Skips Reached `json:"skips"`
}

// Reached counts what was reached, and names what was not.
type Reached struct {
	Reached int      `json:"reached"`
	Of      int      `json:"of"`
	Never   []string `json:"never,omitempty"`
}

func (r *Reached) add(step string, yes bool) {
	r.Of++
	if yes {
		r.Reached++
	} else {
		r.Never = append(r.Never, step)
	}
}

func (r Reached) String() string {
	text := fmt.Sprintf("%d/%d", r.Reached, r.Of)
	if len(r.Never) > 0 {
		text += " (never: " + strings.Join(r.Never, ", ") + ")"
	}
	return text
}

// String returns the coverage in one line.
func (c Coverage) String() string {
	return fmt.Sprintf("steps %s, undos %s, skips %s", c.Steps, c.Undos, c.Skips)
}

// Coverage says what the results reached: steps that were called or waited, undos that were called, and steps that were skipped.
func (f *File) Coverage(results []*Result) (c Coverage) {
	called, skipped := map[string]bool{}, map[string]bool{}
	for _, r := range results {
		for _, x := range r.Calls {
			step := events.DefinedStep(x.Step)
			called[string(x.Operation)+step] = true
		}
		for _, step := range r.waited {
			called[string(events.Do)+step] = true
		}
		for _, s := range r.Steps {
			if s.State == events.StepStateSkipped {
				skipped[s.Step] = true
			}
		}
	}
	for i := range f.definition.Steps {
		s := &f.definition.Steps[i]
		c.Steps.add(s.ID, called[string(events.Do)+s.ID])
		if s.Undo != nil {
			c.Undos.add(s.ID, called[string(events.Undo)+s.ID])
		}
		if s.If != "" {
			c.Skips.add(s.ID, skipped[s.ID])
		}
	}
	return c
}
