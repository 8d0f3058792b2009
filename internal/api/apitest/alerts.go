package apitest

import (
	"context"
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// SetAlerts sets the open alerts besides parked tasks, and the records of the topic of alerts.
func (e *Engine) SetAlerts(open []api.Alert, raised []events.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.alerts, e.raised = open, raised
}

// Open implements api.Alerts.
func (e *Engine) Open(context.Context, []int32, []string) ([]api.Alert, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.alerts), false, nil
}

// Acknowledged implements api.Alerts.
func (e *Engine) Acknowledged() map[string]api.Acknowledgement {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.seen)
}

// Acknowledge implements api.Alerts.
func (e *Engine) Acknowledge(_ context.Context, a events.AlertAcknowledgement) (bool, error) {
	if err := e.asked(); err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, already := e.seen[a.Alert]; already {
		return false, nil
	}
	if e.seen == nil {
		e.seen = map[string]api.Acknowledgement{}
	}
	e.seen[a.Alert] = api.Acknowledgement{By: a.By, Note: a.Note, At: 1}
	return true, nil
}

// Raised implements api.Alerts.
func (e *Engine) Raised(context.Context) (start, end int64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return 0, int64(len(e.raised)), e.silent
}

// ReadRaised implements api.Alerts.
func (e *Engine) ReadRaised(_ context.Context, from, to int64) ([]events.Record, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.raised[from:to]), nil
}
