package node

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler"
)

// maxMisfits bounds the schedules that an apply warns of. With more of them, the workflow is what needs a correction.
const maxMisfits = 20

// misfits warns of the schedules that use the current version of a workflow and whose tasks this version would refuse. They do not stop an
// apply, since the corrected schedules may be applied next.
func (d *definitions) misfits(def *scheduler.Definition, version int) (warnings []api.Fault) {
	var p *scheduler.Program
	all := d.ns.catalog.Schedules()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].Body == nil {
			continue
		}
		known, err := scheduleOf(all[name])
		if err != nil || known.Workflow != def.Workflow || known.Version != 0 {
			continue
		}
		if p == nil {
			if p, err = scheduler.Compile(def); err != nil {
				return nil // the apply says so
			}
		}
		why := misfit(p, &known.ScheduleDefinition, version)
		if why == "" {
			continue
		}
		if len(warnings) == maxMisfits {
			return append(warnings, api.Fault{Pointer: "/input", Message: "the tasks of more schedules will be rejected from this version on"})
		}
		warnings = append(warnings, api.Fault{Pointer: "/input", Message: fmt.Sprintf(
			"the tasks of schedule %q will be rejected from this version on: %s; correct the schedule and apply it (sagalog schedule apply)", name, why)})
	}
	return warnings
}

// misfit says why the task after the next one of a schedule would be refused, "" if it would not: that one has a previous due time.
func misfit(p *scheduler.Program, d *events.ScheduleDefinition, version int) string {
	previous, err := scheduler.NextDue(d, events.At(time.Now()))
	if err != nil || previous == 0 {
		return ""
	}
	due, err := scheduler.NextDue(d, previous)
	if err != nil || due == 0 {
		return ""
	}
	sub, err := scheduler.Occurrence(d, due, previous)
	if err != nil {
		return "" // no version would take it
	}
	_, faults := p.Accept(sub, version)
	if len(faults) == 0 {
		return ""
	}
	return faults[0].Pointer + " " + faults[0].Message
}
