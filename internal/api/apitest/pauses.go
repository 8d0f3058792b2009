package apitest

import (
	"context"
	"maps"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Paused implements api.AgentPauses.
func (e *Engine) Paused() map[string]api.PausedAgent {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.paused)
}

// PauseAgent implements api.AgentPauses.
func (e *Engine) PauseAgent(_ context.Context, a events.AgentPause) (bool, error) {
	if err := e.asked(); err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, already := e.paused[a.Agent]; already == a.Paused {
		return false, nil
	}
	if e.paused == nil {
		e.paused = map[string]api.PausedAgent{}
	}
	if a.Paused {
		e.paused[a.Agent] = api.PausedAgent{Agent: a.Agent, By: a.By, Reason: a.Reason, Since: 1}
	} else {
		delete(e.paused, a.Agent)
	}
	return true, nil
}
