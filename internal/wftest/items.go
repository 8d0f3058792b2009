package wftest

import (
	"maps"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// step checks the path of a step, or of an item of a step with for: send[1].
func (p *parser) step(n node, path string) bool {
	name, _, item := events.SplitItem(path)
	switch s, ok := p.steps[name]; {
	case !ok:
		p.fault(n, "workflow %s has no step %q: %s", p.out.Workflow, name, events.Suggest(name, slices.Sorted(maps.Keys(p.steps))))
		return false
	case item && s.For == nil:
		p.fault(n, "step %q has no items, since it has no for: write %s", name, name)
		return false
	}
	return true
}

// stepOf returns the step of a path.
func (p *parser) stepOf(path string) *scheduler.Step {
	name := events.DefinedStep(path)
	return p.steps[name]
}

// counts reads how many items of a step there are, by what became of them.
func (p *parser) counts(n node, step string) map[string]int {
	if s := p.steps[step]; s == nil || s.For == nil {
		p.fault(n, "only a step with for has counts, and %s has none", step)
	}
	out := map[string]int{}
	for _, m := range p.mapping(n, countKeys) {
		if c := p.count(m.value); c != nil {
			out[m.key.Value] = *c
		}
	}
	return out
}
