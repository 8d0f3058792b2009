package node

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// schedules implements api.Schedules.
type schedules struct {
	ns          *namespace
	producer    *kafka.Producer
	store       *projector.Store
	definitions *definitions
}

// Schedules implements api.Schedules.
func (s *schedules) Schedules(ctx context.Context) (map[string]api.Schedule, error) {
	if err := s.ns.catalog.upToNow(ctx); err != nil {
		return nil, noAnswer(err)
	}
	list := map[string]api.Schedule{}
	for name, r := range s.ns.catalog.Schedules() {
		if r.Body == nil {
			continue
		}
		known, err := scheduleOf(r)
		if err != nil {
			return nil, err
		}
		list[name] = known
	}
	return list, nil
}

func scheduleOf(r scheduler.ScheduleRecord) (api.Schedule, error) {
	d, err := (&events.Schedule{Name: r.Schedule, Body: r.Body}).Definition()
	if err != nil {
		return api.Schedule{}, err
	}
	return api.Schedule{ScheduleDefinition: *d, Offset: r.Offset, AppliedAt: r.At}, nil
}

// ApplySchedule implements api.Schedules.
func (s *schedules) ApplySchedule(ctx context.Context, draft api.Draft) (now api.Schedule, changed bool, faults []api.Fault, err error) {
	if err := s.ns.catalog.upToNow(ctx); err != nil {
		return now, false, nil, noAnswer(err)
	}
	d, found := scheduler.ParseSchedule("", draft.Source)
	for _, f := range found {
		faults = append(faults, api.Fault{Pointer: pointer(f.Path), Message: f.Message, Line: f.Line, Column: f.Column})
	}
	if d == nil {
		return now, false, faults, nil
	}
	known := s.ns.catalog.Schedules()
	switch {
	case d.Schedule != draft.Name:
		faults = append(faults, api.Fault{Pointer: "/schedule", Message: fmt.Sprintf("is %q, but the URL names the schedule %q", d.Schedule, draft.Name)})
	case known[d.Schedule].Body == nil && s.ns.catalog.ScheduleCount() >= scheduler.MaxSchedules:
		faults = append(faults, api.Fault{Message: fmt.Sprintf("the namespace has %d schedules, as many as it can have: delete one first", scheduler.MaxSchedules)})
	}
	if fault := s.workflow(d); fault != "" {
		faults = append(faults, api.Fault{Pointer: "/workflow", Message: fault})
	}
	if len(faults) == 0 {
		if faults, err = s.refused(ctx, d); err != nil {
			return now, false, nil, err
		}
	}
	if len(faults) > 0 {
		return now, false, placed(draft.Source, faults), nil
	}
	r, err := scheduler.EncodeSchedule(d, s.subject())
	if err != nil {
		return now, false, nil, err
	}
	if changed = !bytes.Equal(known[d.Schedule].Body, r.Value); changed {
		if err := s.write(ctx, r); err != nil {
			return now, false, nil, err
		}
	}
	now, err = scheduleOf(s.ns.catalog.Schedules()[d.Schedule])
	return now, changed, nil, err
}

// workflow says why the workflow of a schedule cannot be used, "" if it can.
func (s *schedules) workflow(d *events.ScheduleDefinition) string {
	if _, ok := s.ns.catalog.Catalog.Current(d.Workflow); !ok {
		return fmt.Sprintf("there is no workflow %q: apply it first", d.Workflow)
	}
	if d.Version == 0 {
		return ""
	}
	if _, ok := s.ns.catalog.Catalog.Version(d.Workflow, d.Version); !ok {
		return fmt.Sprintf("workflow %q has no version %d", d.Workflow, d.Version)
	}
	return ""
}

// refused returns the faults for which a task of the schedule would be refused: the next one, or the one after it, since the first task of a
// schedule knows no due time before its own.
func (s *schedules) refused(ctx context.Context, d *events.ScheduleDefinition) ([]api.Fault, error) {
	due, err := scheduler.NextDue(d, events.At(time.Now()))
	if err != nil || due == 0 {
		return nil, err
	}
	of, ok, err := s.definitions.Definition(ctx, d.Workflow, d.Version)
	if err != nil || !ok {
		return nil, err
	}
	previous := events.Instant(0)
	if s.ns.catalog.Schedules()[d.Schedule].Body != nil { // a schedule that is applied again knows it
		x, err := s.ScheduleState(ctx, d.Schedule)
		if err != nil {
			return nil, err
		}
		if x != nil {
			previous = x.Previous
		}
	}
	for range 2 {
		if faults, err := s.refusedAt(ctx, d, of, due, previous); err != nil || len(faults) > 0 {
			return faults, err
		}
		previous = due
		if due, err = scheduler.NextDue(d, due); err != nil || due == 0 {
			return nil, err
		}
	}
	return nil, nil
}

// refusedAt returns the faults for which the task of a due time would be refused.
func (s *schedules) refusedAt(ctx context.Context, d *events.ScheduleDefinition, of api.Definition, due, previous events.Instant) ([]api.Fault, error) {
	which := fmt.Sprintf(" (in the task that is due at %s)", due)
	if previous == 0 {
		which = fmt.Sprintf(" (in the first task, which is due at %s and has no previous_due)", due)
	}
	sub, err := scheduler.Occurrence(d, due, previous)
	if err != nil {
		return []api.Fault{{Pointer: "/input", Message: err.Error() + which}}, nil
	}
	_, faults, err := s.definitions.Accept(ctx, of, sub)
	for i := range faults {
		faults[i].Message += which
	}
	return faults, err
}

// DeleteSchedule implements api.Schedules.
func (s *schedules) DeleteSchedule(ctx context.Context, name string) (bool, error) {
	if err := s.ns.catalog.upToNow(ctx); err != nil {
		return false, noAnswer(err)
	}
	if s.ns.catalog.Schedules()[name].Body == nil {
		return false, nil
	}
	return true, s.write(ctx, scheduler.EncodeScheduleDeletion(name, s.subject()))
}

func (s *schedules) subject() events.Subject {
	return events.Subject{ID: uuid.NewString(), Source: "/" + s.ns.name + "/schedules", Time: events.At(time.Now())}
}

// write appends a record and reads it back.
func (s *schedules) write(ctx context.Context, r events.Record) error {
	_, err := s.ns.define(ctx, s.producer, "a schedule", r)
	return err
}

// ScheduleState implements api.Schedules.
func (s *schedules) ScheduleState(_ context.Context, name string) (*events.Schedule, error) {
	return s.store.Partition(events.Home(events.ScheduleKey(name), s.ns.partitions)).Schedule(name)
}

// Dues implements api.Schedules.
func (*schedules) Dues(d *events.ScheduleDefinition, after, until events.Instant, limit int) (list []events.Instant, err error) {
	for len(list) < limit {
		if after, err = scheduler.NextDue(d, after); err != nil {
			return nil, err
		}
		if after == 0 || until != 0 && after > until {
			break
		}
		list = append(list, after)
	}
	return list, nil
}

// setSchedules tells the owners the schedules of their partitions.
func (o *owners) setSchedules(c *scheduler.Catalog) {
	for p, shell := range o.shells {
		var list []supervisor.ScheduleRecord
		for _, r := range c.SchedulesOf(int32(p), int32(len(o.shells))) {
			list = append(list, supervisor.ScheduleRecord{Schedule: r.Schedule, Offset: r.Offset, Body: r.Body})
		}
		shell.SetSchedules(list)
	}
}
