package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// agentPauses pauses agents, and lets them go on.
type agentPauses struct {
	pauses  AgentPauses
	cluster Cluster
	log     logger
}

// AgentPath names an agent.
type AgentPath struct {
	Name string `path:"name" doc:"The agent's name"`
}

// AgentPauseDocument says whether an agent is paused.
type AgentPauseDocument struct {
	Agent     string `json:"agent"`
	Paused    bool   `json:"paused"`
	Changed   bool   `json:"changed" doc:"False: it was so before"`
	Instances int    `json:"instances" doc:"How many live instances run the agent. If there are none, look whether its name is right"`
}

// AgentPauseAnswer says whether an agent is paused.
type AgentPauseAnswer struct{ Body AgentPauseDocument }

func (p *agentPauses) register(api huma.API) {
	for _, o := range []struct {
		verb, summary, description string
		paused                     bool
		example                    map[string]any
	}{
		{
			"pause", "Pause an agent",
			"No attempt of any task starts at the agent, neither of a step nor of an undo, until it is resumed. Attempts that run go on, and deadlines count on. The pause is durable when it " +
				"is answered; other nodes follow within moments.",
			true, map[string]any{"reason": "the service is being repaired", "by": "anna"},
		},
		{
			"resume", "Resume a paused agent", "What waited for it starts as the agent has room.",
			false, map[string]any{"reason": "the service is back", "by": "anna"},
		},
	} {
		path := "/v1/agents/{name}/" + o.verb
		huma.Register(api, operation(api, huma.Operation{
			OperationID: o.verb + "-agent", Method: http.MethodPost, Path: path, Summary: o.summary, Description: o.description, Tags: []string{"engine"},
		}), func(ctx context.Context, in *AgentPath) (*AgentPauseAnswer, error) {
			return p.pause(ctx, in.Name, o.paused)
		})
		optionalBody[AgentPauseBody](api, path, o.example)
	}
}

// AgentPauseBody is the body of the calls that pause and resume an agent.
type AgentPauseBody struct {
	Reason string `json:"reason,omitempty" doc:"Why, for those who see it paused"`
	By     string `json:"by,omitempty" doc:"Who pauses or resumes it, for the record"`
}

func (p *agentPauses) pause(ctx context.Context, name string, paused bool) (*AgentPauseAnswer, error) {
	if err := events.CheckAgent(name); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The agent: "+err.Error()+".")
	}
	x := exchangeOf(ctx)
	var body AgentPauseBody
	if err := x.readTexts("a pause", "The agent is left as it is.", map[string]memberText{"reason": {&body.Reason, maxReason}, "by": {&body.By, events.MaxTaskID}}); err != nil {
		return nil, err
	}
	changed, err := p.pauses.PauseAgent(ctx, events.AgentPause{Agent: name, Paused: paused, Reason: body.Reason, By: x.by(body.By)})
	switch {
	case errors.Is(err, ErrTooManyPaused):
		return nil, problem(http.StatusConflict, codePrecondition, "As many agents are paused as a namespace can remember. Resume one first.")
	case errors.Is(err, ErrNoAnswer):
		return nil, repeatProblem()
	case err != nil:
		return nil, p.log.internal(ctx, "pause an agent", err)
	}
	d := AgentPauseDocument{Agent: name, Paused: paused, Changed: changed}
	beats, err := p.cluster.Agents(ctx)
	if err != nil {
		return nil, p.log.internal(ctx, "list agents", err)
	}
	for i := range beats {
		if _, runs := beats[i].Capacity[name]; runs && beats[i].Health[name] != HealthSilent {
			d.Instances++
		}
	}
	return &AgentPauseAnswer{Body: d}, nil
}
