package scheduler

import (
	"slices"

	"github.com/sagalog/sagalog/events"
)

// crossCheck checks the rules that span steps. If the needs form a cycle, the other rules are checked all the same, as far as they are
// broken whichever need is removed.
func (o *outline) crossCheck() *ancestry {
	g := o.checkNeeds()
	for _, c := range g.cycles() {
		s := o.step(c[0])
		o.doc.fault(s.key, s.path, "steps need each other in a cycle: %s", arrow(c))
	}
	ancestors := g.ancestors()
	o.checkPivot(ancestors)
	o.checkItems()
	return ancestors
}

// step returns the step of that name, which exists.
func (o *outline) step(id string) *outlineStep {
	i := slices.IndexFunc(o.steps, func(s *outlineStep) bool { return s.id == id })
	return o.steps[i]
}

func (o *outline) ids() []string {
	ids := make([]string, len(o.steps))
	for i, s := range o.steps {
		ids[i] = s.id
	}
	slices.Sort(ids)
	return ids
}

// checkNeeds reports wrong needs and returns the graph of the others.
func (o *outline) checkNeeds() graph {
	ids := o.ids()
	g := make(graph, len(o.steps))
	for _, s := range o.steps {
		g[s.id] = nil
	}
	for _, s := range o.steps {
		seen := map[string]bool{}
		for _, n := range s.needs {
			if o.doc.faults.full() {
				return g
			}
			_, known := g[n.id]
			switch {
			case n.id == s.id:
				s.doc.fault(n.node, n.path, "step %s needs itself", s.id)
			case !known:
				s.doc.fault(n.node, n.path, "there is no step %q: %s", abbreviate(n.id), suggestStep(n.id, ids))
			case seen[n.id]:
				s.doc.fault(n.node, n.path, "%s is needed twice", n.id)
			default:
				seen[n.id] = true
				g[s.id] = append(g[s.id], n.id)
			}
		}
	}
	return g
}

// suggestStep names the nearest step, or all steps if they are few.
func suggestStep(name string, ids []string) string {
	if len(ids) <= 10 || events.Nearest(name, ids) != "" {
		return events.Suggest(name, ids)
	}
	return "no step has a similar name"
}

// checkPivot checks the steps around the point of no return.
func (o *outline) checkPivot(ancestors *ancestry) {
	var pivot *outlineStep
	for _, s := range o.steps {
		switch {
		case s.pivot == nil:
		case pivot != nil:
			s.pivot.fault("a workflow has one pivot, which is %s already", pivot.id)
		default:
			pivot = s
		}
	}
	if pivot == nil {
		return
	}
	for _, s := range o.steps {
		switch {
		case s != pivot && ancestors.needs(s.id, pivot.id) && ancestors.needs(pivot.id, s.id): // a cycle: either may come first
		case s == pivot || ancestors.needs(s.id, pivot.id):
			if s != pivot && s.then.is(ThenUndo) {
				s.then.fault("the steps after the pivot are never undone: write park, or leave then out")
			}
			if s != pivot && s.onTimeout.is(ThenUndo) {
				s.onTimeout.fault("the steps after the pivot are never undone: write park or continue, or leave on_timeout out")
			}
			if s == pivot && s.onTimeout.is(OnTimeoutContinue) {
				s.onTimeout.fault("the task cannot go on without its pivot: write park or undo, or leave on_timeout out")
			}
			switch {
			case s.undo == nil:
			case s == pivot:
				s.undo.warn("never used: the pivot and the steps after it are never undone")
			default:
				s.undo.warn("used by a rerun alone: nothing else undoes the steps after the pivot")
			}
		case !ancestors.cyclic && !ancestors.needs(pivot.id, s.id):
			s.doc.warn(s.key, s.path, "runs in parallel with the pivot %s: if it fails after the pivot completed, it can no longer be undone; "+
				"let the pivot need it, or let it need the pivot", pivot.id)
		}
	}
}
