package node

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/scheduler"
)

// agentPauses implements api.AgentPauses.
type agentPauses struct {
	ns       *namespace
	producer *kafka.Producer
}

// Paused implements api.AgentPauses.
func (p *agentPauses) Paused() map[string]api.PausedAgent {
	list := map[string]api.PausedAgent{}
	for agent, r := range p.ns.catalog.Paused() {
		list[agent] = api.PausedAgent{Agent: agent, By: r.By, Reason: r.Reason, Since: r.At}
	}
	return list
}

// PauseAgent implements api.AgentPauses.
func (p *agentPauses) PauseAgent(ctx context.Context, a events.AgentPause) (changed bool, err error) {
	if err := p.ns.catalog.upToNow(ctx); err != nil {
		return false, noAnswer(err)
	}
	paused := p.ns.catalog.Paused()
	if _, already := paused[a.Agent]; already == a.Paused {
		return false, nil
	}
	if a.Paused && len(paused) >= scheduler.MaxPaused {
		return false, api.ErrTooManyPaused
	}
	r, err := scheduler.EncodeAgentPause(&a, events.Subject{ID: uuid.NewString(), Source: "/" + p.ns.name + "/settings", Time: events.At(time.Now())})
	if err != nil {
		return false, err
	}
	if _, err := p.ns.define(ctx, p.producer, "the pause of an agent", r); err != nil {
		return false, err
	}
	return true, nil
}
