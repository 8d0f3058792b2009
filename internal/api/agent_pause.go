package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/sagalog/sagalog/events"
)

// agentPauses pauses agents, and lets them go on.
type agentPauses struct {
	pauses    AgentPauses
	cluster   Cluster
	offers    Offers
	workflows *workflows
	log       logger
}

// AgentPath names an agent.
type AgentPath struct {
	Name string `path:"name" doc:"The agent's name"`
}

// AgentPauseCall pauses an agent.
type AgentPauseCall struct {
	AgentPath
	Force bool `query:"force" doc:"Pause also an agent that is not known, before it is started for the first time"`
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
				"is answered; other nodes follow within moments. An agent is known if a live instance runs it, if a step of any version of a workflow names it, or if a step waits for it. " +
				"For any other the answer is 404, unless the request has force.",
			true, map[string]any{"reason": "the service is being repaired", "by": "anna"},
		},
		{
			"resume", "Resume a paused agent", "What waited for it starts as the agent has room. For an agent that is neither paused nor known the answer is 404.",
			false, map[string]any{"reason": "the service is back", "by": "anna"},
		},
	} {
		path := "/v1/agents/{name}/" + o.verb
		huma.Register(api, operation(api, huma.Operation{
			OperationID: o.verb + "-agent", Method: http.MethodPost, Path: path, Summary: o.summary, Description: o.description, Tags: []string{"engine"},
		}), func(ctx context.Context, in *AgentPauseCall) (*AgentPauseAnswer, error) {
			return p.pause(ctx, in, o.paused)
		})
		optionalBody[AgentPauseBody](api, path, o.example)
	}
}

// AgentPauseBody is the body of the calls that pause and resume an agent.
type AgentPauseBody struct {
	Reason string `json:"reason,omitempty" doc:"Why, for those who see it paused"`
	By     string `json:"by,omitempty" doc:"Who pauses or resumes it, for the record"`
}

func (p *agentPauses) pause(ctx context.Context, in *AgentPauseCall, paused bool) (*AgentPauseAnswer, error) {
	name := in.Name
	if err := events.CheckAgent(name); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, codeInvalid, "The agent: "+err.Error()+".")
	}
	x := exchangeOf(ctx)
	var body AgentPauseBody
	if err := x.readTexts("a pause", "The agent is left as it is.", map[string]memberText{"reason": {&body.Reason, maxReason}, "by": {&body.By, events.MaxTaskID}}); err != nil {
		return nil, err
	}
	instances, err := p.instances(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, is := p.pauses.Paused()[name]; paused && !is && instances == 0 && !in.Force {
		if err := p.known(ctx, name, "To pause it before it is started for the first time, repeat the request with force=true (`sagalog agents pause --force`)."); err != nil {
			return nil, err
		}
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
	if !paused && !changed && instances == 0 && !in.Force { // after the write, which knows the pauses that other nodes recorded
		if err := p.known(ctx, name, "It is not paused."); err != nil {
			return nil, err
		}
	}
	return &AgentPauseAnswer{Body: AgentPauseDocument{Agent: name, Paused: paused, Changed: changed, Instances: instances}}, nil
}

// instances returns how many live instances run an agent.
func (p *agentPauses) instances(ctx context.Context, name string) (n int, err error) {
	beats, err := p.cluster.Agents(ctx)
	if err != nil {
		return 0, p.log.internal(ctx, "list agents", err)
	}
	for i := range beats {
		if _, runs := beats[i].Capacity[name]; runs && beats[i].Health[name] != HealthSilent {
			n++
		}
	}
	return n, nil
}

// named adds the agents that the steps of a definition name.
func (p *agentPauses) named(ctx context.Context, hash string, names map[string]bool) error {
	steps, err := p.workflows.definitions.Steps(ctx, hash)
	if err != nil {
		return p.log.internal(ctx, "read the steps of a definition", err)
	}
	for _, st := range steps {
		if st.Agent != "" {
			names[st.Agent] = true
		}
	}
	return nil
}

// known returns the problem that no step names an agent that no instance runs; nil if one does. The steps of earlier versions count too, because
// their tasks may still run; they are read only if the current versions do not name the agent. remedy says what to do if the name is right.
func (p *agentPauses) known(ctx context.Context, name, remedy string) error {
	names := map[string]bool{}
	for _, m := range p.offers.Missing() {
		names[m.Agent] = true
	}
	beats, err := p.cluster.Agents(ctx)
	if err != nil {
		return p.log.internal(ctx, "list agents", err)
	}
	for i := range beats {
		for agent := range beats[i].Capacity {
			names[agent] = true
		}
	}
	p.workflows.refresh(ctx)
	list, err := p.workflows.workflows.Workflows(ctx)
	if err != nil {
		return p.log.internal(ctx, "list workflows", err)
	}
	for _, w := range list {
		if err := p.named(ctx, w.Hash, names); err != nil {
			return err
		}
	}
	for _, w := range list {
		for _, version := range w.Versions {
			if names[name] {
				return nil
			}
			if version == w.Version {
				continue
			}
			d, _, err := p.workflows.definitions.Definition(ctx, w.Name, version) // one that was deleted meanwhile has no steps
			if err != nil {
				return p.log.internal(ctx, "read a workflow", err)
			}
			if err := p.named(ctx, d.Hash, names); err != nil {
				return err
			}
		}
	}
	if names[name] {
		return nil
	}
	text := fmt.Sprintf("No agent with the name %s is known: no live instance runs it, and no step names it", name)
	if len(names) > 0 {
		text += "; " + events.Suggest(name, slices.Sorted(maps.Keys(names)))
	}
	return problem(http.StatusNotFound, codeNotFound, events.Sentence(text)+" "+remedy)
}
