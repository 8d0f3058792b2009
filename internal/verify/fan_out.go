package verify

import (
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// itemsRule is the member for of a step, as its definition gives it.
type itemsRule struct {
	Parallel int    `json:"parallel"`
	Tolerate string `json:"tolerate"`
	Collect  string `json:"collect"`
}

// tolerates returns how many items may fail.
func (r *itemsRule) tolerates(count int) int {
	percent, of := strings.CutSuffix(r.Tolerate, "%")
	n, _ := strconv.Atoi(percent)
	if of {
		return n * count / 100
	}
	return n
}

// fans says whether the step has items.
func (r *stepRule) fans() bool { return r != nil && r.For != nil }

// parallel is how many items of the step are open at a time.
func (r *stepRule) parallel() int {
	if !r.fans() {
		return 0
	}
	return r.For.Parallel
}

// items are those of a fan-out.
type items struct {
	count, tolerate int
	// begun is how many have begun, and open how many of these are not closed.
	begun, open int
	// failed is without how many of them the task goes on, and tolerated how many of these count towards what is tolerated.
	failed, tolerated int
}

// fans says whether the step has items that are not all over.
func (st *step) fans() bool { return st != nil && st.items != nil && !st.done && !st.failed }

// tolerated says whether the step is an item without which the task goes on.
func (st *step) tolerated() bool { return st != nil && st.of != nil && st.continued }

// closes says whether nothing becomes of the step but that it is undone.
func (st *step) closes() bool {
	return !st.do.running && !st.undoes() && (st.done || st.skipped || st.undone || st.continued && !st.mustUndo())
}

// itemFailed says whether an operator must look at an item, or the task turns back for it.
func (s *story) itemFailed(fan *step) bool {
	for _, st := range s.live {
		if st.of == fan && (st.failed || st.undoFailed) {
			return true
		}
	}
	return false
}

// itemTurned says whether the undo of an item has begun that the fan-out has completed or may yet complete.
func (s *story) itemTurned(fan *step) bool {
	if fan == nil || fan.items == nil {
		return false
	}
	for _, st := range s.steps {
		if st.of == fan && !st.continued && st.turned() {
			return true
		}
	}
	return false
}

// waits begins a step that makes no attempts.
func waits(t *telling) {
	switch b := t.fact.Body.(type) {
	case *events.WaitStarted:
		beginWait(t, b)
	case *events.FanOutStarted:
		fansOut(t, b)
	}
}

// fansOut begins the items of a step.
func fansOut(t *telling, b *events.FanOutStarted) {
	st := t.open(b.Step)
	r := t.def.step(b.Step)
	if r == nil {
		t.wrong(CheckAttempts, "unknown_step", b.Step, "the definition of workflow %s has no such step", t.workflow)
	} else if need := t.unmet(r); need != "" {
		t.wrong(CheckAttempts, "needs", b.Step, "its items begin before step %s, which it needs, is over (INV6)", need)
	}
	needsPermit(t, b.Step)
	switch {
	case t.stands():
		t.wrong(CheckAttempts, "start_not_forward", b.Step, "its items begin although the task is %s", t.state())
	case st.over() || st.items != nil || st.do.made() > 0 || st.do.waiting && st.do.retryAt > t.fact.Time:
		t.wrong(CheckAttempts, "start_again", b.Step, "its items begin although they have begun already, or it is over")
	case r != nil && !r.fans() || st.of != nil:
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "its items begin, and its definition gives it none")
	case r != nil && (b.Tolerate != r.For.tolerates(b.Count) || r.For.Collect != "" && b.Collect != r.For.Collect || b.Count > events.MaxItems):
		t.wrong(CheckAttempts, "not_as_defined", b.Step, "it begins with %d items, tolerates %d failures and collects %s, which differs from its definition", b.Count, b.Tolerate, b.Collect)
	}
	st.failed, st.do.waiting = false, false
	st.items = &items{count: b.Count, tolerate: b.Tolerate}
	beginSoft(t, st, b.RemindAfter)
}

// open returns a step, and checks that it may begin if it is an item.
func (t *telling) open(id string) *step {
	if st := t.step(id); st != nil {
		return st
	}
	if fan, index, item := events.SplitItem(id); item {
		beginsItem(t, id, t.step(fan), index)
	}
	return t.story.open(id)
}

func beginsItem(t *telling, id string, fan *step, index int) {
	switch r := t.def.step(id); {
	case !fan.fans():
		t.wrong(CheckAttempts, "item", id, "it begins although the items of its step have not begun, or are over")
	case index >= fan.items.count:
		t.wrong(CheckAttempts, "item", id, "it begins, and its step has %d items", fan.items.count)
	case index != fan.items.begun:
		t.wrong(CheckAttempts, "item_order", id, "it begins after %d others: items begin in the order of their list", fan.items.begun)
	case fan.items.open >= r.parallel():
		t.wrong(CheckAttempts, "items_open", id, "it begins while %d other items are open, and the definition allows %d at a time", fan.items.open, r.parallel())
	case t.itemFailed(fan):
		t.wrong(CheckAttempts, "item_behind_failure", id, "it begins although an item has failed, which is not tolerated")
	}
}

// itemsOver checks that a fan-out may complete.
func itemsOver(t *telling, st *step) {
	if x := st.items; !st.fans() {
		t.wrong(CheckAttempts, "outcome_of_nothing", st.id, "it completes although its items are over already, or its task turned back")
	} else if x.begun < x.count || x.open > 0 {
		t.wrong(CheckAttempts, "items_left", st.id, "it completes although only %d of its %d items have begun, and %d of these are not over", x.begun, x.count, x.open)
	}
}

// tolerates checks that the task may go on without an item.
func tolerates(t *telling, st *step) {
	_, timeout := t.fact.Body.(*events.Timeout)
	goesOnWithout(t.story, st, timeout)
	if x := st.of.items; x.tolerated > x.tolerate {
		t.wrong(CheckAttempts, "beyond_tolerate", st.id, "the task goes on without it, the %d. item that failed, and its definition tolerates %d", x.tolerated, x.tolerate)
	}
	if st.pivot {
		t.wrong(CheckAttempts, "not_as_defined", st.id, "the task goes on without it although it is the pivot")
	}
}

// goesOnWithout counts an item without which the task goes on.
func goesOnWithout(s *story, st *step, timeout bool) {
	x := st.of.items
	x.failed++
	if r := s.def.step(st.id); !timeout || r == nil || r.OnTimeout != string(events.ActionContinue) {
		x.tolerated++
	}
}

// mustTolerate checks that the failure of an item has no other consequence while more failures are tolerated.
func mustTolerate(t *telling, st *step) {
	if e := failure(t.fact.Body); e != nil && e.Code == "child_lost" {
		return // only an operator can judge that
	}
	if st.of != nil && !t.back && st.of.items.failed < st.of.items.tolerate {
		t.wrong(CheckAttempts, "not_tolerated", st.id, "its failure ends the task or parks it, although only %d items have failed, and %d may", st.of.items.failed, st.of.items.tolerate)
	}
}

// nextItem says what will move a fan-out.
func (s *story) nextItem(fan *step, r *stepRule) mover {
	x := fan.items
	if s.itemFailed(fan) {
		return mover{kind: "none"}
	}
	for _, st := range s.live {
		if st.of == fan && st.tolerated() && st.mustUndo() && !st.turned() {
			return mover{kind: "ready", step: st.id, since: max(s.time, s.quiet)}
		}
	}
	switch {
	case x.begun < x.count && x.open < r.parallel():
		return mover{kind: "ready", step: events.ItemPath(fan.id, x.begun), since: s.time}
	case x.begun == x.count && x.open == 0:
		return mover{kind: "due", step: fan.id, since: s.time}
	}
	return mover{kind: "none"}
}

// aboutItem says whether a fact is about an item: these do not count towards what bounds a task.
func aboutItem(body events.Body) bool {
	path := stepIn(body)
	switch b := body.(type) {
	case *events.StepQueued:
		path = b.Step
	case *events.StepProgressed:
		path = b.Step
	case *events.SoftLimitPassed:
		path = b.Step
	case *events.ChildAsked:
		path = b.Link.Path
	case *events.EffectFailed:
		return false
	}
	return events.IsItem(path)
}
