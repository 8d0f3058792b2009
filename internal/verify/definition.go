package verify

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// definition is the part of a workflow's definition that the model needs.
type definition struct {
	Steps       []stepRule       `json:"steps"`
	RemindAfter events.Duration  `json:"remind_after"`
	RememberFor events.Duration  `json:"remember_for"`
	Concurrency *concurrencyRule `json:"concurrency"`
	FairBy      *string          `json:"fair_by"`
}

type concurrencyRule struct {
	Max    int    `json:"max"`
	Parked string `json:"parked"`
}

// gives says whether a task may have that key for turns: that of the definition, or any if it is an expression.
func (d *definition) gives(fairBy string) bool {
	if d.FairBy == nil {
		return fairBy == ""
	}
	return strings.Contains(*d.FairBy, "${") || *d.FairBy == fairBy
}

type stepRule struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	// Operation is the agent's operation, if it has a name.
	Operation string `json:"operation"`
	// Sleep or Wait is set if no agent does the step.
	Sleep          json.RawMessage `json:"sleep"`
	Child          *childRule      `json:"child"`
	For            *itemsRule      `json:"for"`
	Wait           json.RawMessage `json:"wait"`
	CompleteWithin events.Duration `json:"complete_within"`
	Needs          []string        `json:"needs"`
	If             string          `json:"if"`
	FailIf         string          `json:"fail_if"`
	// OnTimeout is "" if the definition leaves it out.
	OnTimeout   string          `json:"on_timeout"`
	StartWithin events.Duration `json:"start_within"`
	RemindAfter events.Duration `json:"remind_after"`
	Retry       retryRule       `json:"retry"`
	Pivot       bool            `json:"pivot"`
	// Limit is the named limit of its attempts, "" if it has none.
	Limit string `json:"limit"`
	// Heartbeat is zero if the step has none.
	Heartbeat events.Duration `json:"heartbeat"`
	Undo      *struct {
		Agent     string    `json:"agent"`
		Operation string    `json:"operation"`
		Retry     retryRule `json:"retry"`
	} `json:"undo"`
}

type retryRule struct {
	Within events.Duration `json:"within"`
}

// within returns how long attempts of the operation may start; zero if there is no limit.
func (r *stepRule) within(op events.Operation) events.Duration {
	switch {
	case r == nil || op == events.Undo && r.Undo == nil:
		return 0
	case op == events.Undo:
		return r.Undo.Retry.Within
	}
	return r.Retry.Within
}

// call returns what an attempt of the operation asks of which agent. A step that has an undo must be given for events.Undo.
func (r *stepRule) call(op events.Operation) events.Call {
	c := events.Call{Agent: r.Agent, Function: r.Operation, Operation: op}
	if op == events.Do {
		return c
	}
	if r.Undo.Agent != "" && r.Undo.Agent != r.Agent {
		c.Agent, c.Function = r.Undo.Agent, ""
	}
	if r.Undo.Operation != "" {
		c.Function = r.Undo.Operation
	}
	return c
}

// step returns the rule of a step, or of that of which it is an item.
func (d *definition) step(id string) *stepRule {
	id = events.DefinedStep(id)
	for i := range d.Steps {
		if d.Steps[i].ID == id {
			return &d.Steps[i]
		}
	}
	return nil
}

// agentsIn adds the agents of a definition as stored in the definitions topic, before defaults.
func agentsIn(value []byte, into map[string]bool) error {
	d := struct {
		Steps json.RawMessage `json:"steps"`
	}{}
	if err := json.Unmarshal(value, &d); err != nil {
		return err
	}
	var any interface{}
	if err := json.Unmarshal(d.Steps, &any); err != nil {
		return err
	}
	collectAgents(any, into)
	return nil
}

// collectAgents finds each member "agent" whose value is a string. A member of an input may also have that name: the check then
// looks for a topic that does not exist, which does no harm.
func collectAgents(v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := v["agent"].(string); ok {
			into[name] = true
		}
		for _, sub := range v {
			collectAgents(sub, into)
		}
	case []any:
		for _, sub := range v {
			collectAgents(sub, into)
		}
	}
}

const namespaceCreated = events.TypePrefix + string(events.NameNamespaceCreated)

// namespaceRecord is the first record of definitions, or the last one of a copy.
type namespaceRecord struct {
	ID         string `json:"id"`
	Partitions int32  `json:"partitions"`
	Format     int    `json:"format"`
}

func readNamespace(r *events.Record) (n namespaceRecord, err error) {
	if kind := r.Header(events.HeaderType); kind != namespaceCreated {
		return n, fmt.Errorf("the first record of the definitions is a %q", kind)
	}
	err = json.Unmarshal(r.Value, &n)
	if err == nil && n.Partitions < 1 {
		err = fmt.Errorf("the namespace has %d partitions", n.Partitions)
	}
	return n, err
}
