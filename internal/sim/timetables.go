package sim

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// NextDue implements supervisor.Scheduler.
func (p *Process) NextDue(d *events.ScheduleDefinition, after events.Instant) (events.Instant, error) {
	return scheduler.NextDue(d, after)
}

// FireAt implements supervisor.Scheduler.
func (p *Process) FireAt(d *events.ScheduleDefinition, due events.Instant) events.Instant {
	return scheduler.FireAt(d, due)
}

// Occurrence implements supervisor.Scheduler.
func (p *Process) Occurrence(d *events.ScheduleDefinition, due, previous events.Instant) (*events.Submission, error) {
	return scheduler.Occurrence(d, due, previous)
}
