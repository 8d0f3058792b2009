package sim

import (
	"cmp"
	"encoding/json"

	"github.com/sagalog/sagalog/events"
)

// Fan-outs, by the saga's own account. Their items are steps like others; FanOuts has the rules about their order and their number.

// fansOut begins the items of a step.
func (a *sagas) fansOut(g *saga, f *events.Fact, b *events.FanOutStarted) string {
	s := g.steps[b.Step]
	if s == nil || s.item || s.def.For == nil {
		return "INV6: a step fans out that has no for"
	}
	if why := a.mayWait(g, f, s); why != "" {
		return why
	}
	if count, tolerate := itemsOf(g, s); b.Count != count || b.Tolerate != tolerate || b.Collect != cmp.Or(s.def.For.Collect, events.CollectOutputs) || (b.Condition != nil) != (s.def.If != "") {
		return "a step fans out in another way than its workflow says"
	}
	if why := s.beginsSoft(f, b.RemindAfter); why != "" {
		return why
	}
	if s.failed, s.fans = false, true; g.run > 1 {
		a.w.saw(sawFanOutAgain)
	}
	a.w.saw(sawFanOut)
	for i := range b.Count {
		if path := events.ItemPath(b.Step, i); g.steps[path] == nil {
			def := *s.def
			def.ID, def.If, def.RemindAfter = path, "", 0 // the step has these
			g.steps[path] = &sagaStep{def: &def, item: true, run: g.run}
		}
	}
	return ""
}

// itemsOf says how many items a step has by the input of its task, and how many of them may fail.
func itemsOf(g *saga, s *sagaStep) (count, tolerate int) {
	var in struct {
		N     any  `json:"n"`
		Extra bool `json:"extra"`
	}
	_ = json.Unmarshal(g.input, &in) // it was accepted
	switch {
	case g.def.Workflow == "gated" && in.N == 3.0:
		return -1, 0 // it has no list
	case g.def.Workflow == "kin-of-each":
		return 4, 1
	case g.def.Workflow == "gated":
		return 4, 0
	case in.Extra:
		return 14, 2
	}
	return 3, 2
}

// fanEnds ends a step whose items are over. Those whose failure was tolerated leave nothing behind.
func (a *sagas) fanEnds(g *saga, f *events.Fact, s *sagaStep, b *events.StepCompleted) string {
	if len(b.Output) > 0 || b.Signal != "" || b.QuietAt != 0 {
		return "a step with items completes with an output"
	}
	s.fans, s.done = false, true
	g.completed = append(g.completed, b.Step)
	for path, x := range g.steps {
		if x.item && events.DefinedStep(path) == s.def.ID && x.tolerated() && x.def.Undo != nil && !x.undoneByHand && !a.w.unpromised[lifeOf(a.p, f.Task)] {
			mustBeUndone(a.p, f.Task, x)
		}
	}
	return ""
}

// tolerated says whether the step is an item without which its task goes on.
func (s *sagaStep) tolerated() bool { return s.item && s.continued }

// undoes says whether the step is being undone, or will be, in the direction in which the task goes.
func (g *saga) undoes(s *sagaStep) bool {
	return g.undoing || s.tolerated() && s.def.Undo != nil && s.touched && !s.undone
}

// beside says whether both steps are items of one fan-out, so that they may be undone at the same time.
func (s *sagaStep) beside(other *sagaStep) bool {
	return s.item && other.item && events.DefinedStep(s.def.ID) == events.DefinedStep(other.def.ID) // the definition of an item has its path
}

// undoBegan says whether the step is being undone, or waits for its next attempt.
func (s *sagaStep) undoBegan() bool {
	return s.undo > s.earlierUndos || s.undoFailed || s.back.askedAt != 0
}

// mayBegin says whether the step is no item, or one that may begin or go on.
func mayBegin(g *saga, path string, s *sagaStep) bool {
	if s.item {
		return g.fans.mayBegin(path) == ""
	}
	return s.def.For == nil
}

// halfUndone says whether an item of the step is undone, or its undo has begun, although the task has gone on with it.
func halfUndone(g *saga, step string) bool {
	for path, s := range g.steps {
		if s.item && events.DefinedStep(path) == step && !s.tolerated() && (s.undone || s.undoBegan()) {
			return true
		}
	}
	return false
}

// redoneBy returns the paths of the steps that a rerun concerns, and those of their items.
func redoneBy(g *saga, b *events.TaskRerun) (paths []string) {
	paths = append(paths, b.Steps...)
	rerun := events.Rerun{Steps: b.Steps}
	for path, s := range g.steps {
		if s.item && rerun.Redone(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// seeFanOut counts what happens to the items of fan-outs. t is the task before the fact.
func seeFanOut(w *World, f *events.Fact, t *events.Task) {
	if len(t.Steps) >= 2*headSteps {
		w.saw(sawManySteps)
	}
	step, _, item := events.SplitItem(AttemptOf(f.Task, f.Body).Step)
	fan := t.Step(step)
	if !item || fan == nil || fan.Fan == nil {
		return
	}
	if ByHand(f).Request != "" {
		w.saw(sawItemByHand)
	}
	switch b := f.Body.(type) {
	case *events.StepFailed:
		if b.Verdict.Action == events.ActionContinue {
			w.saw(sawItemTolerated)
		}
		if b.Attempt == 0 && t.Step(b.Step) == nil {
			w.saw(sawItemBroken)
		}
		if b.Verdict.Action != events.ActionContinue && fan.Fan.Tolerate > 0 && fan.Fan.Failed > 0 && b.Verdict.Action == events.ActionUndo && !t.Undoing() {
			w.saw(sawItemBeyond)
		}
	case *events.CompensationStarted:
		if !t.Undoing() {
			w.saw(sawItemUndone)
			return
		}
		for _, s := range t.Steps {
			if s.Undo != nil && s.Undo.State == events.StepStateRunning {
				w.saw(sawItemsUndoneBeside)
				return
			}
		}
	case *events.CompensationFailed:
		if !t.Undoing() && b.Verdict.Action == events.ActionPark {
			w.saw(sawItemNotUndone)
		}
	}
}

// counts adds a fact to the account of the fan-outs of its task.
func (a *sagas) counts(g *saga, f *events.Fact) string {
	why := g.fans.Tells(f)
	if a.w.clients.toxic[f.Task] != "" { // in some lives of a process, looking up the policy panics
		return ""
	}
	return why
}
