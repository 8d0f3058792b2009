package apitest

import (
	"context"
	"maps"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Schedules implements api.Schedules.
func (e *Engine) Schedules(context.Context) (map[string]api.Schedule, error) {
	if err := e.asked(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.schedules), nil
}

// ApplySchedule implements api.Schedules. Every draft is an hourly schedule of the workflow "order", except for one that is "bad".
func (e *Engine) ApplySchedule(_ context.Context, d api.Draft) (now api.Schedule, changed bool, faults []api.Fault, err error) {
	if err := e.asked(); err != nil {
		return now, false, nil, err
	}
	if string(d.Source) == "bad" {
		return now, false, []api.Fault{{Pointer: "/cron", Message: "is not a cron expression", Line: 1, Column: 1}}, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, ok := e.schedules[d.Name]; ok {
		return known, false, nil, nil
	}
	if e.schedules == nil {
		e.schedules, e.scheduled = map[string]api.Schedule{}, map[string]*events.Schedule{}
	}
	def := events.ScheduleDefinition{Schedule: d.Name, Workflow: "order", Every: events.Duration(hour), Overlap: events.OverlapSkip, CatchUp: events.Duration(hour)}
	e.schedules[d.Name] = api.Schedule{ScheduleDefinition: def, AppliedAt: e.tick()}
	body, err := events.Marshal(def)
	e.scheduled[d.Name] = &events.Schedule{Name: d.Name, Body: body}
	return e.schedules[d.Name], true, nil, err
}

// DeleteSchedule implements api.Schedules.
func (e *Engine) DeleteSchedule(_ context.Context, name string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, known := e.schedules[name]
	delete(e.schedules, name)
	return known, nil
}

// ScheduleState implements api.Schedules.
func (e *Engine) ScheduleState(_ context.Context, name string) (*events.Schedule, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.scheduled[name]; x != nil {
		c := *x
		return &c, nil
	}
	return nil, nil
}

// ChangeSchedule changes what the home partition of a schedule knows.
func (e *Engine) ChangeSchedule(name string, change func(*events.Schedule)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e.scheduled[name])
}

// Dues implements api.Schedules.
func (*Engine) Dues(d *events.ScheduleDefinition, after, until events.Instant, limit int) (list []events.Instant, err error) {
	every := events.Instant(d.Every.Std().Milliseconds())
	for due := (after/every + 1) * every; len(list) < limit && (until == 0 || due <= until); due += every {
		list = append(list, due)
	}
	return list, nil
}

const hour = 3600 * 1_000_000_000
