package whatif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// policy is a definition under which tasks are replayed.
type policy struct {
	definition *scheduler.Definition
	version    supervisor.Version
	// shape is the definition without what a policy may change.
	shape map[string]any
	// children says that other tasks do steps of it.
	children bool
}

// policyOfSource returns the policy of a file.
func policyOfSource(src *scheduler.Source) (*policy, error) {
	d, err := scheduler.Complete(src.Body)
	if err != nil {
		return nil, err
	}
	body, err := events.Marshal(d)
	if err != nil {
		return nil, err
	}
	return newPolicy(d, supervisor.Version{Workflow: src.Workflow, Hash: src.Hash, Body: body, Offset: 1, Level: src.Level})
}

// policyOfLog returns the policy of an adopted definition.
func policyOfLog(b *events.DefinitionAdopted) (*policy, error) {
	d, err := scheduler.DecodeDefinition(b.Body)
	if err != nil {
		return nil, err
	}
	return newPolicy(d, supervisor.Version{Workflow: b.Workflow, Version: b.Version, Hash: b.Hash, Body: b.Body, Offset: 1})
}

// The members of a definition, of a step and of its undo that a policy may change: what is done about failures, how long things may take, and what only people read.
var (
	policyMembers     = []string{"title", "description", "deadline", "remind_after", "remember_for"}
	policyStepMembers = []string{"title", "description", "complete_within", "heartbeat", "retry", "cool_down", "start_within", "on_timeout", "remind_after"}
	policyUndoMembers = []string{"complete_within", "retry"}
)

func newPolicy(d *scheduler.Definition, v supervisor.Version) (*policy, error) {
	raw, err := events.Marshal(d)
	if err != nil {
		return nil, err
	}
	p := &policy{definition: d, version: v}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&p.shape); err != nil {
		return nil, err
	}
	without(p.shape, policyMembers)
	list, _ := p.shape["steps"].([]any)
	steps := map[string]any{}
	for _, x := range list {
		s, _ := x.(map[string]any)
		without(s, policyStepMembers)
		if undo, ok := s["undo"].(map[string]any); ok {
			without(undo, policyUndoMembers)
		}
		id, _ := s["id"].(string)
		delete(s, "id")
		steps[id] = s
	}
	p.shape["steps"] = steps
	for i := range d.Steps {
		p.children = p.children || d.Steps[i].Child != nil
	}
	return p, nil
}

func without(m map[string]any, members []string) {
	for _, k := range members {
		delete(m, k)
	}
}

// differs returns the first place at which two definitions differ in more than the policy; nil if there is no such place.
func (p *policy) differs(o *policy) []string { return differs(p.shape, o.shape) }

func differs(a, b map[string]any) []string {
	keys := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		x, y := a[k], b[k]
		below, ok := x.(map[string]any)
		other, too := y.(map[string]any)
		if ok && too {
			if at := differs(below, other); at != nil {
				return append([]string{k}, at...)
			}
			continue
		}
		if !same(x, y) {
			return []string{k}
		}
	}
	return nil
}

func same(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && bytes.Equal(x, y)
}

// PolicyError says at which place a policy file differs in more than the policy from the definition that tasks had.
type PolicyError struct {
	// Path is the place, such as [steps charge with].
	Path     []string
	Workflow string
	Version  int
}

// Error implements error.
func (e *PolicyError) Error() string {
	return fmt.Sprintf("%s is not as in version %d of workflow %q, with which the tasks ran: what-if can change only the policy: "+
		"retry, cool_down, complete_within, heartbeat, start_within and on_timeout of steps, retry and complete_within of undos, and the deadline of the workflow",
		strings.Join(e.Path, "."), e.Version, e.Workflow)
}

// Pointer returns the places to look for in the file, the most exact first: a member that was left out has no place.
func (e *PolicyError) Pointers() (list []string) {
	for n := len(e.Path); n > 0; n-- {
		list = append(list, "/"+strings.Join(e.Path[:n], "/"))
	}
	return list
}
