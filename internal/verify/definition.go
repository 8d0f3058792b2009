package verify

import (
	"encoding/json"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// definition is what the model needs of a workflow's definition.
type definition struct {
	Steps []stepRule `json:"steps"`
	// index finds a step by its ID.
	index map[string]int
}

type stepRule struct {
	ID    string   `json:"id"`
	Agent string   `json:"agent"`
	Needs []string `json:"needs"`
	If    string   `json:"if"`
	Pivot bool     `json:"pivot"`
	Undo  *struct {
		Agent string `json:"agent"`
	} `json:"undo"`
}

func readDefinition(body []byte) (*definition, error) {
	d := &definition{index: map[string]int{}}
	if err := json.Unmarshal(body, d); err != nil {
		return nil, err
	}
	for i := range d.Steps {
		d.index[d.Steps[i].ID] = i
	}
	return d, nil
}

func (d *definition) step(id string) *stepRule {
	if i, ok := d.index[id]; ok {
		return &d.Steps[i]
	}
	return nil
}

// agentsIn adds the agents of a definition as the definitions topic has it, before defaults.
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

// collectAgents finds each member "agent" with a text. A member of an input may be named so too: a topic of that name
// is then looked for and not found, which says nothing.
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

// namespaceRecord is the first record of definitions.
type namespaceRecord struct {
	ID         string `json:"id"`
	Partitions int32  `json:"partitions"`
	Format     int    `json:"format"`
}

func readNamespace(r *events.Record) (n namespaceRecord, err error) {
	if kind := r.Header(events.HeaderType); kind != events.TypePrefix+string(events.NameNamespaceCreated) {
		return n, fmt.Errorf("the first record of the definitions is a %q", kind)
	}
	err = json.Unmarshal(r.Value, &n)
	if err == nil && n.Partitions < 1 {
		err = fmt.Errorf("the namespace has %d partitions", n.Partitions)
	}
	return n, err
}
