package apitest

import (
	"context"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Lose makes the engine report that inputs are lost.
func (e *Engine) Lose(lost ...*api.Loss) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = lost
}

// Accepted returns the losses that were accepted.
func (e *Engine) Accepted() []events.AcceptedLoss {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]events.AcceptedLoss(nil), e.accepted...)
}

// Losses implements api.Losses.
func (e *Engine) Losses(context.Context) ([]*api.Loss, error) {
	if err := e.asked(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost, nil
}

// AcceptLoss implements api.Losses.
func (e *Engine) AcceptLoss(_ context.Context, a events.AcceptedLoss) (int64, []*api.Loss, error) {
	if err := e.asked(); err != nil {
		return 0, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !api.Covers(e.lost, &a) {
		return 0, e.lost, nil
	}
	e.accepted = append(e.accepted, a)
	return int64(len(e.accepted)), nil, nil
}
