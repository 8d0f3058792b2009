package apitest

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// NamedLimits implements api.NamedLimits.
func (e *Engine) NamedLimits(context.Context) (map[string]api.NamedLimit, error) {
	if err := e.asked(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.named), nil
}

// ApplyLimit implements api.NamedLimits. The object is JSON.
func (e *Engine) ApplyLimit(_ context.Context, draft api.Draft) (now api.NamedLimit, changed bool, faults []api.Fault, err error) {
	if err := e.asked(); err != nil {
		return now, false, nil, err
	}
	d := events.LimitDefinition{Limit: draft.Name}
	if err := json.Unmarshal(draft.Source, &d); err != nil || d.Max < 1 && d.Rate == "" {
		return now, false, []api.Fault{{Pointer: "/max", Message: "must be at least 1", Line: 1, Column: 2}}, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, ok := e.named[d.Limit]; ok && known.LimitDefinition == d {
		return known, false, nil, nil
	}
	if e.named == nil {
		e.named = map[string]api.NamedLimit{}
	}
	e.named[d.Limit] = api.NamedLimit{LimitDefinition: d, AppliedAt: e.tick()}
	e.putLimit(&events.Limit{Name: events.LimitKey(d.Limit), Max: d.Max, Rate: d.Rate, Offset: 1})
	return e.named[d.Limit], true, nil, nil
}

// LimitUsers implements api.NamedLimits: the workflow order names the limit "used".
func (*Engine) LimitUsers(name string) []string {
	if name == "used" {
		return []string{"order"}
	}
	return nil
}

// DeleteLimit implements api.NamedLimits.
func (e *Engine) DeleteLimit(_ context.Context, name string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, known := e.named[name]
	delete(e.named, name)
	delete(e.Limits, events.LimitKey(name))
	return known, nil
}
