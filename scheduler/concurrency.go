package scheduler

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// Concurrency says how many tasks of the workflow that share a key run at a time. The others wait, in the order of their priority, then of
// their arrival.
type Concurrency struct {
	// Key is the template of the key. A task whose key is null does not count, and does not wait.
	Key json.RawMessage `json:"key"`
	Max int             `json:"max"`
	// Parked says what a parked task does with its permit: hold or release.
	Parked string `json:"parked"`
}

var concurrencyKeys = []string{"key", "max", "parked"}

// maxConcurrency is more than a key needs: a limit of all tasks that is larger is a matter of the agents' capacity.
const maxConcurrency = 100_000

func (o *outline) shapeConcurrency(m member) {
	keys, ok := m.doc.members(m.value, m.path, concurrencyKeys, " with key and max")
	if !ok {
		return
	}
	if v, has := keys["key"]; !has {
		m.doc.fault(m.key, m.path, "key is missing: it says which tasks count together, such as key: \"${ input.customer }\"")
	} else if isText(v.value) && strings.Contains(v.value.Value, "${") {
		o.concurrency = &v
	} else if s, ok := v.text(); ok && checkKey(s) != nil {
		v.fault("the key %s", checkKey(s))
	}
	if v, has := keys["max"]; has {
		v.count(bounds{1, maxConcurrency})
	} else {
		m.doc.fault(m.key, m.path, "max is missing: how many tasks with the same key run at a time")
	}
	if v, has := keys["parked"]; has {
		v.oneOf(string(events.PermitHold), string(events.PermitRelease))
	}
}

// bodyConcurrency is what a definition says about it.
type bodyConcurrency struct {
	Key    json.RawMessage `json:"key"`
	Max    int             `json:"max"`
	Parked string          `json:"parked"`
}

func (b *bodyConcurrency) complete() *Concurrency {
	if b == nil {
		return nil
	}
	c := Concurrency(*b)
	if c.Parked == "" {
		c.Parked = string(events.PermitHold)
	}
	return &c
}

// compileConcurrency returns the template of the key, nil without one.
func compileConcurrency(c *Concurrency) (*exprlang.Template, error) {
	if c == nil {
		return nil, nil
	}
	t, err := compileTemplate(c.Key, acceptVars)
	if err != nil {
		return nil, fmt.Errorf("concurrency.key: %w", err)
	}
	return t, nil
}

// evalConcurrency returns the limit of a task, nil if its key is null.
func (p *Program) evalConcurrency(env *Env) (*events.Concurrency, error) {
	key, err := evalKey(p.concurrency, env, "the concurrency key of the workflow")
	if key == "" || err != nil {
		return nil, err
	}
	c := p.definition.Concurrency
	return &events.Concurrency{Limit: events.ConcurrencyLimit(p.definition.Workflow, key), Max: c.Max, Parked: events.ParkedPermit(c.Parked)}, nil
}
