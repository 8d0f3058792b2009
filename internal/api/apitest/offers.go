package apitest

import (
	"context"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// Queued implements api.Tasks.
func (e *Engine) Queued(_ context.Context, id string) ([]events.ReadyKey, error) {
	return e.Waiting[id], nil
}

// Limit implements api.Tasks.
func (e *Engine) Limit(_ context.Context, name string) (*events.Limit, error) {
	return e.Limits[name], nil
}

// Offered implements api.Offers.
func (e *Engine) Offered() func(events.Call) bool {
	e.OffersBuilt.Add(1)
	return func(c events.Call) bool {
		return !slices.ContainsFunc(e.Gone, func(m events.Missing) bool { return m.Call() == c && !m.Behind })
	}
}

// Missing implements api.Offers.
func (e *Engine) Missing() []events.Missing { return e.Gone }
