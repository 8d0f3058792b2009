package sim

import (
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// FanOuts is an account of the fan-outs of one task: what its facts say about their items, read without the fold and the plan. The simulator and
// internal/sim/model share it.
type FanOuts struct {
	def     *scheduler.Definition
	bySteps map[string]*fanOut
	undoing bool
	// redone are the steps of a rerun that has not begun; nil if none has been asked for.
	redone []string
	// completions counts the items that completed.
	completions int
}

// fanOut is a step with for that has begun.
type fanOut struct {
	def             *scheduler.Step
	count, tolerate int
	items           []*fanItem
	over            bool
}

// fanItem is an item that has begun.
type fanItem struct {
	// completed is its place in the order of completion, from 1. tolerated says that its failure is, and failed that it is not.
	completed                  int
	tolerated, failed, skipped bool
	// touched says that it may have had an effect, and left that an operator skipped its undo.
	touched, undoBegan, undone bool
	// kids are the children that have work to undo, in the order of their tries. asked is the one that was asked to undo itself.
	kids  []string
	asked string
}

// toUndo says whether the item has to be undone if its task is, or if its failure is tolerated.
func (x *fanItem) toUndo(def *scheduler.Step) bool {
	return def.Undo != nil && x.touched && !x.undone
}

// open says whether the item takes one of the places that parallel gives.
func (x *fanItem) open(def *scheduler.Step) bool {
	if x.tolerated {
		return x.toUndo(def)
	}
	return x.completed == 0 && !x.skipped && !x.failed
}

// some counts the items of which something is true.
func (n *fanOut) some(yes func(x *fanItem) bool) (count int) {
	for _, x := range n.items {
		if yes(x) {
			count++
		}
	}
	return count
}

func (n *fanOut) tolerated() int { return n.some(func(x *fanItem) bool { return x.tolerated }) }

// find returns the fan-out and the item with that path; a nil item if it has not begun.
func (o *FanOuts) find(path string) (n *fanOut, index int, x *fanItem) {
	step, index, item := events.SplitItem(path)
	if n = o.bySteps[step]; !item || n == nil {
		return nil, index, nil
	}
	if index < len(n.items) {
		x = n.items[index]
	}
	return n, index, x
}

// Tells adds a fact of the task to the account. It says which rule the fact breaks, or "".
func (o *FanOuts) Tells(f *events.Fact) string {
	switch b := f.Body.(type) {
	case *events.Submitted:
		*o = FanOuts{bySteps: map[string]*fanOut{}}
		if p := programs.Program(b.Hash); p != nil {
			o.def = p.Definition()
		}
	case *events.FanOutStarted:
		return o.fans(b)
	case *events.StepStarted:
		return o.starts(b)
	case *events.StepCompleted:
		return o.completes(b)
	case *events.StepQueued:
		_, why := o.opened(b.Step)
		return why
	case *events.StepFailed, *events.EffectFailed, *events.Timeout, *events.CompensationFailed:
		return o.ends(f.Body)
	case *events.StepSkipped:
		return o.skips(b)
	case *events.CompensationStarted:
		return o.undoes(b)
	case *events.Compensated:
		if _, _, x := o.find(b.Step); x != nil {
			child := b.Child
			if b.Request == "" {
				child = x.asked
			}
			x.isUndone(child)
		}
	default:
		o.turns(f.Body)
	}
	return ""
}

// ends takes the end of an attempt that was not a success.
func (o *FanOuts) ends(body events.Body) string {
	switch b := body.(type) {
	case *events.StepFailed:
		return o.fails(b.Step, b.Verdict, b.Attempt > 0, b.Attempt > 0 && b.Effect != events.EffectNone)
	case *events.EffectFailed:
		if x := b.Failed; x != nil {
			return o.ends(x)
		} else if x := b.CompensationFailed; x != nil {
			return o.ends(x)
		}
	case *events.Timeout:
		if b.Operation == events.Do {
			return o.fails(b.Step, b.Verdict, b.Attempt > 0, b.Attempt > 0)
		}
		return o.ends(&events.CompensationFailed{Step: b.Step})
	case *events.CompensationFailed:
		if _, _, x := o.find(b.Step); x != nil {
			x.undoBegan = true // also if it failed before its first attempt
		}
	}
	return ""
}

// turns takes the facts that change the direction of the task.
func (o *FanOuts) turns(body events.Body) {
	switch b := body.(type) {
	case *events.CancelRequested, *events.ChildUndoRequested:
		o.undoing, o.redone = true, nil
	case *events.DeadlinePassed:
		o.undoing = o.undoing || b.Action == events.DeadlineUndo
	case *events.TaskRerun:
		o.undoing, o.redone = true, b.Steps
	case *events.RunBegun:
		for _, step := range o.redone {
			delete(o.bySteps, step)
		}
		o.undoing, o.redone = false, nil
	case *events.TaskReopened:
		for _, path := range b.Steps {
			if _, _, x := o.find(path); x != nil {
				x.failed = false
			}
		}
	}
}

func (o *FanOuts) fans(b *events.FanOutStarted) string {
	def := o.step(b.Step)
	switch {
	case def == nil || def.For == nil:
		return "a step fans out that has no for"
	case o.bySteps[b.Step] != nil:
		return "a fan-out begins twice"
	case o.undoing:
		return "a fan-out begins in a task that is undone"
	}
	o.bySteps[b.Step] = &fanOut{def: def, count: b.Count, tolerate: b.Tolerate}
	return ""
}

func (o *FanOuts) step(id string) *scheduler.Step {
	if o.def != nil {
		for i := range o.def.Steps {
			if o.def.Steps[i].ID == id {
				return &o.def.Steps[i]
			}
		}
	}
	return nil
}

func (o *FanOuts) starts(b *events.StepStarted) string {
	if !events.IsItem(b.Step) {
		if def := o.step(b.Step); def != nil && def.For != nil {
			return "a step with for has an attempt"
		}
		return ""
	}
	x, why := o.opened(b.Step)
	if why == "" && b.Child != nil && !b.Child.Detach {
		x.kids = append(x.kids, b.Child.Task)
	}
	return why
}

// opened returns an item that goes on or begins, nil if the path is not that of an item, and why it may not.
func (o *FanOuts) opened(path string) (x *fanItem, why string) {
	if !events.IsItem(path) {
		return nil, ""
	}
	n, _, x := o.find(path)
	if why := o.mayBegin(path); why != "" {
		return x, why
	}
	if x == nil {
		x = &fanItem{}
		n.items = append(n.items, x)
	}
	return x, ""
}

// mayBegin says why the item may not start, begin or fail before its start, or "".
func (o *FanOuts) mayBegin(path string) string {
	switch n, index, x := o.find(path); {
	case n == nil || n.over:
		return "an item starts whose fan-out is not under way"
	case o.undoing:
		return "an item starts in a task that is undone"
	case x != nil && !x.open(n.def):
		return "an item that is over starts"
	case x != nil:
	case index != len(n.items) || index >= n.count:
		return fmt.Sprintf("items begin out of order: item %d of %d after %d", index, n.count, len(n.items))
	case n.some(func(x *fanItem) bool { return x.failed }) > 0:
		return "an item begins after a failure beyond what is tolerated"
	case n.some(func(x *fanItem) bool { return x.open(n.def) }) >= n.def.For.Parallel:
		return "more items are open than parallel allows"
	}
	return ""
}

// tolerates says whether one more failure of an item is tolerated.
func (o *FanOuts) tolerates(path string) bool {
	n, _, _ := o.find(path)
	return n != nil && !o.undoing && n.tolerated() < n.tolerate
}

func (o *FanOuts) completes(b *events.StepCompleted) string {
	if n := o.bySteps[b.Step]; n != nil {
		switch {
		case n.over:
			return "a fan-out completes twice"
		case len(n.items) != n.count:
			return fmt.Sprintf("a fan-out completes although %d of %d items have begun", len(n.items), n.count)
		case n.some(func(x *fanItem) bool { return x.failed || x.open(n.def) }) > 0:
			return "a fan-out completes before its items are over"
		}
		n.over = true
	}
	if _, _, x := o.find(b.Step); x != nil {
		o.completions++
		x.completed, x.failed, x.touched = o.completions, false, true
	}
	return ""
}

// fails takes the end of an attempt, or of a step that did not start, that was not a success.
func (o *FanOuts) fails(path string, v events.Verdict, attempt, touched bool) string {
	n, _, x := o.find(path)
	if n != nil && x == nil && !attempt {
		var why string
		if x, why = o.opened(path); why != "" {
			return why
		}
	}
	if x != nil {
		x.touched = x.touched || touched
		if k := len(x.kids); attempt && !touched && k > 0 {
			x.kids = x.kids[:k-1]
		}
	}
	tolerated := 0
	if n != nil {
		tolerated = n.tolerated()
	}
	switch v.Action {
	case events.ActionContinue:
		if x != nil {
			x.tolerated = true
		}
		if n != nil && tolerated >= n.tolerate {
			return "more failures are tolerated than the definition says"
		}
	case events.ActionUndo, events.ActionPark:
		if x != nil {
			x.failed = true
		}
		if x != nil && !o.undoing && tolerated < n.tolerate && len(n.def.Child) == 0 {
			return "a failure is not tolerated, and the definition says it is"
		}
		o.undoing = o.undoing || v.Action == events.ActionUndo
	}
	return ""
}

func (o *FanOuts) skips(b *events.StepSkipped) string {
	n, _, x := o.find(b.Step)
	switch {
	case n != nil && x == nil:
		return "an item is skipped that has not begun"
	case x != nil && b.Left:
		x.isUndone(b.Child)
	case x != nil:
		x.skipped, x.failed = true, false
	}
	return ""
}

// undoes checks the order in which items are undone.
func (o *FanOuts) undoes(b *events.CompensationStarted) string {
	n, _, own := o.find(b.Step)
	if own == nil {
		return ""
	}
	began := own.undoBegan
	own.undoBegan = true
	if b.Child != nil {
		own.asked = b.Child.Task
	}
	switch {
	case !o.undoing && !own.tolerated:
		return "an item is undone in a task that is not"
	case !own.toUndo(n.def):
		return "an item is undone that needs no undo"
	case !o.undoing || began:
		return ""
	case n.some(func(x *fanItem) bool { return x != own && x.undoBegan && x.toUndo(n.def) }) >= n.def.For.Parallel:
		return "more items are being undone than parallel allows"
	case n.some(func(x *fanItem) bool { return x.toUndo(n.def) && !x.undoBegan && x.undoneBefore(own) }) > 0:
		return "an item is undone before one that completed later"
	}
	return ""
}

// undoneBefore says whether the item has to be undone before the other one: it completed later, or its outcome is unknown.
func (x *fanItem) undoneBefore(other *fanItem) bool {
	return other.completed > 0 && (x.completed == 0 || x.completed > other.completed)
}

// isUndone takes the end of an undo, or of what one child has to undo.
func (x *fanItem) isUndone(child string) {
	if x.kids = slices.DeleteFunc(x.kids, func(id string) bool { return id == child }); child == "" {
		x.kids = nil
	}
	x.undone = len(x.kids) == 0
}

// Agrees compares the account with the folded task. It says how they differ, or "".
func (o *FanOuts) Agrees(t *events.Task) string {
	for _, s := range t.Steps {
		if n := o.bySteps[s.Path]; s.Fan != nil && n == nil {
			return fmt.Sprintf("step %q of %s is a fan-out, and its facts say that it did not begin", s.Path, t.ID)
		}
	}
	for path, n := range o.bySteps {
		s := t.Step(path)
		if s == nil || s.Fan == nil {
			return fmt.Sprintf("the fan-out %q of %s is lost", path, t.ID)
		}
		got := *s.Fan
		got.Collect = ""
		if want := n.counted(); got != want {
			return fmt.Sprintf("the items of step %q of %s count as %+v, and their facts say %+v", path, t.ID, got, want)
		}
	}
	return ""
}

// counted is what the fold should know of the items.
func (n *fanOut) counted() events.FanOut {
	c := events.FanOut{Count: n.count, Tolerate: n.tolerate, Begun: len(n.items)}
	for _, x := range n.items {
		switch {
		case x.tolerated && x.toUndo(n.def):
		case x.tolerated:
			c.Failed++
		case x.undone:
			c.Undone++
		case x.completed > 0 && !x.undoBegan:
			c.Completed++
		case x.skipped && !x.undoBegan:
			c.Skipped++
		}
	}
	return c
}
