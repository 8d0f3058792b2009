package scheduler

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/exprlang"
)

// fanStep is a step with for: it has an item for each entry of a list, and each item is done and undone as the step says.
type fanStep struct {
	stepKind // of an item
	step     *Step
	each     *exprlang.Template
}

// The bounds of a fan-out.
const (
	// defaultParallel is how many items are open at a time unless the definition says otherwise.
	defaultParallel = 10
	maxParallel     = 100
	// maxCollected is the largest number of items whose outputs are collected by default. For more, the definition must ask for it.
	maxCollected = 1_000
	// maxListBytes bounds the list, like the input of a step.
	maxListBytes = 256 << 10
	// maxCollectedBytes bounds what an expression sees of all items together. What becomes an input or the output of the task is also bounded by payload_bytes.
	maxCollectedBytes = 4 << 20
	// maxFailures is how many failures CollectFailures lists at most.
	maxFailures = 1_000
)

const defaultItem = "item"

var (
	forKeys    = []string{"each", "as", "parallel", "tolerate", "collect"}
	fanMembers = []string{"state", "output", "counts"}
)

// bodyFor is the member for of a step as it is written.
type bodyFor struct {
	Each     json.RawMessage `json:"each"`
	As       string          `json:"as"`
	Parallel int             `json:"parallel"`
	Tolerate json.RawMessage `json:"tolerate"`
	Collect  string          `json:"collect"`
}

func (b *bodyFor) complete() *For {
	if b == nil {
		return nil
	}
	f := &For{Each: b.Each, As: b.As, Parallel: b.Parallel, Tolerate: strings.Trim(string(present(b.Tolerate)), `"`), Collect: b.Collect}
	if f.As == "" {
		f.As = defaultItem
	}
	if f.Parallel == 0 {
		f.Parallel = defaultParallel
	}
	return f
}

// tolerated returns how many of count items may fail.
func (f *For) tolerated(count int) int {
	if percent, ok := strings.CutSuffix(f.Tolerate, "%"); ok {
		n, _ := strconv.Atoi(percent) // it was checked
		return count * n / 100
	}
	n, _ := strconv.Atoi(f.Tolerate)
	return n
}

// vars returns the variables of the expressions of the step: the others, and those of its items if it has any.
func (s *Step) vars(others []string) []string {
	if s.For == nil {
		return others
	}
	return append(slices.Clip(others), s.For.As, "index")
}

func compileFanStep(s *Step, item stepKind) (*fanStep, error) {
	each, err := exprlang.Compile(s.For.Each, doVars...)
	if err != nil {
		return nil, fmt.Errorf("for.each: %w", err)
	}
	return &fanStep{item, s, each}, nil
}

// begin begins the items, or one of them.
func (f *fanStep) begin(env *Env, path string) (opening, error) {
	if events.IsItem(path) {
		return f.stepKind.begin(env, path)
	}
	list, err := f.list(env, path)
	if err != nil {
		return opening{}, err
	}
	collect := f.step.For.Collect
	switch {
	case len(list) > events.MaxItems:
		return opening{}, fmt.Errorf("for.each gives %d entries, and a step has at most %d items: split the list, and let a child do each part", len(list), events.MaxItems)
	case collect == "" && len(list) > maxCollected:
		return opening{}, fmt.Errorf("for.each gives %d entries, and the outputs of more than %d are collected only on request: write collect: outputs, or collect: failures to keep only what failed, or collect: none", len(list), maxCollected)
	case collect == "":
		collect = events.CollectOutputs
	}
	return opening{fact: &events.FanOutStarted{
		Step: path, Count: len(list), Tolerate: f.step.For.tolerated(len(list)), Collect: collect, Condition: condition(f.step), RemindAfter: f.step.RemindAfter,
	}}, nil
}

func (f *fanStep) start(env *Env, path string, op events.Operation) (events.Start, error) {
	f.enter(env, path)
	start, err := f.stepKind.start(env, path, op)
	start.Condition, start.RemindAfter = nil, 0 // FanOutStarted has them
	return start, err
}

// enter gives the expressions that follow the variables of an item.
func (f *fanStep) enter(env *Env, path string) {
	step, index, _ := events.SplitItem(path)
	env.item = &itemVariables{f, step, index}
}

// list returns the entries of the fan-out.
func (f *fanStep) list(env *Env, path string) ([]json.RawMessage, error) {
	key := listKey{incarnation: env.task.Incarnation, path: path, run: env.task.RunOf(path)}
	if in := env.task.Input; len(in) > 0 {
		key.input = &in[0]
	}
	if list, ok := env.lists.find(key); ok {
		return list, nil
	}
	raw, err := f.each.Eval(env.open())
	if err != nil {
		return nil, fmt.Errorf("for.each: %w", err)
	}
	var list []json.RawMessage
	switch {
	case len(raw) > maxListBytes:
		return nil, fmt.Errorf("for.each gives %d bytes, and at most %d are allowed: give IDs instead of whole objects, or split the list, and let a child do each part", len(raw), maxListBytes)
	case len(raw) == 0 || raw[0] != '[':
		return nil, fmt.Errorf("for.each gives %s, but must give a list: correct the expression %s", exprlang.KindOf(raw), events.Clip(string(f.step.For.Each), 200))
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("for.each: %w", err)
	}
	if !env.opened { // its keys may be erased at any time
		env.lists.add(key, list, len(env.task.Input))
	}
	return list, nil
}

// itemVariables are the variables that only the expressions of an item see.
type itemVariables struct {
	fan   *fanStep
	step  string
	index int
}

// set sets the variables. The entry is looked up when an expression first uses it: most undos do not need it, and a list that can no longer be
// evaluated, since its key was erased, must not prevent them.
func (v *itemVariables) set(env *Env, s *exprlang.Scope) {
	s.Set("index", s.Int(v.index))
	s.SetLater(v.fan.step.For.As, func() *exprlang.Node {
		of := Env{task: env.task, keys: env.keys, lists: env.lists} // the list itself has no entry
		list, err := v.fan.list(&of, v.step)
		env.spent += of.Close()
		if of.sealed != nil && env.unopened() == nil {
			env.sealed = of.sealed
		}
		switch {
		case err != nil:
			return s.Missing(err)
		case v.index >= len(list):
			return s.Missing(fmt.Errorf("for.each gives %d entries, and none for index %d", len(list), v.index))
		}
		return s.Raw(list[v.index])
	})
}

// lists are the lists that were evaluated last, and the outputs that were put together. Within one run of a step they do not change, and otherwise each
// item would make them again.
type lists struct {
	keys   []listKey
	values map[listKey]knownList
	// bytes is about how much memory they take.
	bytes int
}

type knownList struct {
	list  []json.RawMessage
	bytes int
}

type listKey struct {
	incarnation, path string
	run               int
	// input is the first byte of the input of the task, which a rerun would replace: nil if the task has none.
	input *byte
	// output says that the only entry is the collected output of the step.
	output bool
}

// keptLists bounds the lists, and keptListBytes their memory.
const (
	keptLists     = 256
	keptListBytes = 8 << 20
)

func (l *lists) find(key listKey) ([]json.RawMessage, bool) {
	if l == nil {
		return nil, false
	}
	x, ok := l.values[key]
	return x.list, ok
}

// add keeps a list; input is the size of the task's input, which the list's key keeps in memory.
func (l *lists) add(key listKey, list []json.RawMessage, input int) {
	if l == nil {
		return
	}
	x := knownList{list, input}
	for _, e := range list {
		x.bytes += cap(e) + 24
	}
	l.bytes += x.bytes
	for len(l.keys) > 0 && (len(l.keys) == keptLists || l.bytes > keptListBytes) {
		l.bytes -= l.values[l.keys[0]].bytes
		delete(l.values, l.keys[0])
		l.keys = append(l.keys[:0], l.keys[1:]...)
	}
	if l.values == nil {
		l.values = map[listKey]knownList{}
	}
	l.keys = append(l.keys, key)
	l.values[key] = x
}

// items adds what the items of a fan-out need next, and says whether one of them makes the task go on. failed is an item that an operator must look
// at: then no more begin. Most open items are running; of those it reads only the state.
func (w *planner) items(c *compiledStep, at *events.Step, env *Env) (active bool, failed string) {
	open := at.Fan.Open()
	for _, s := range w.task.Live() {
		switch {
		case s.State == events.StepStateRunning || !events.IsItemOf(s.Path, c.step.ID):
		case stuck(s):
			open--
			failed = cmp.Or(failed, s.Path)
		case s.Tolerated():
			w.undoTolerated(c, s)
		case s.State == events.StepStateWaiting:
			w.startItem(c, s.Path, env, s.NotBefore())
		}
	}
	if failed != "" {
		return open > 0, failed
	}
	if at.Fan.Over() {
		w.plan.Facts = append(w.plan.Facts, &events.StepCompleted{Step: c.step.ID})
		return true, ""
	}
	if at.Fan.Begun < at.Fan.Count && open < c.step.For.Parallel { // only one: the next follows once it has begun, so that they begin in order
		open++
		w.startItem(c, events.ItemPath(c.step.ID, at.Fan.Begun), env, nextItemAt(w.task, at))
	}
	return open > 0, ""
}

// undoTolerated undoes an item that failed while the task goes on without it.
func (w *planner) undoTolerated(c *compiledStep, s *events.Step) {
	if !s.ToUndo() || s.Undo != nil && s.Undo.State == events.StepStateFailed {
		return
	}
	if err := w.undo(c, s); err != nil {
		w.plan.Broken = append(w.plan.Broken, events.Broken{Path: s.Path, Operation: events.Undo, Error: expressionError(err)})
	}
}

// offersItem says whether an item may start: it waits, or it is the next one, and fewer are open than may be.
func offersItem(t *events.Task, step string, index int, at *events.Step, parallel int) bool {
	fan := t.Step(step)
	if fan == nil || !fan.Fans() {
		return false
	}
	if at != nil && at.State != events.StepStateNotStarted {
		return at.State == events.StepStateWaiting
	}
	return index == fan.Fan.Begun && index < fan.Fan.Count && fan.Fan.Open() < parallel && firstFailed(t, step) == ""
}

// firstFailed returns an item of a fan-out that an operator must look at, "" if there is no such item.
func firstFailed(t *events.Task, fan string) string {
	for _, s := range t.Live() {
		if stuck(s) && events.IsItemOf(s.Path, fan) {
			return s.Path
		}
	}
	return ""
}

// stuck says whether an operator must look at the step.
//
//mutant:no-item-begins-after-a-failure
func stuck(s *events.Step) bool { return s.Failed() || s.State == events.StepStateUndoFailed }

// nextItemAt returns when the next item of a fan-out may begin: in a rerun, once the last request to undo it can no longer take effect.
func nextItemAt(t *events.Task, fan *events.Step) events.Instant {
	if next := fan.NextItem(t); next != nil {
		return next.NotBefore()
	}
	return 0
}

func (w *planner) startItem(c *compiledStep, path string, env *Env, notBefore events.Instant) {
	o, err := c.kind.begin(env, path)
	if err != nil {
		w.plan.Broken = append(w.plan.Broken, events.Broken{Path: path, Operation: events.Do, Error: env.fault(events.ClassExpression, err.Error())})
		return
	}
	w.open(path, o, notBefore)
}

// fanMember is a step with items as a member of the variable steps.
type fanMember struct {
	task  *events.Task
	step  *events.Step
	known *lists
}

// Member implements exprlang.Members.
func (m fanMember) Member(s *exprlang.Scope, name string) *exprlang.Node {
	switch name {
	case "output":
		if m.step.State != events.StepStateCompleted { // the outputs of its items stay when these are undone
			return s.Raw(nil)
		}
		all, err := m.collected(s)
		if err != nil {
			return s.Missing(err)
		}
		return s.Raw(all)
	case "counts":
		f := m.step.Fan
		text, err := events.Marshal(map[string]int{"total": f.Count, "completed": f.Completed, "failed": f.Failed, "skipped": f.Skipped})
		if err != nil {
			return nil // numbers can be encoded
		}
		return s.Raw(text)
	}
	return (*stepMember)(m.step).Member(s, name)
}

// collected returns the output of the step. It does not change while the step is completed, so it is kept.
func (m fanMember) collected(s *exprlang.Scope) (json.RawMessage, error) {
	key := listKey{incarnation: m.task.Incarnation, path: m.step.Path, run: m.task.RunOf(m.step.Path), output: true}
	if err := s.Spend(m.step.Fan.Count); err != nil { // whether it is known or not, so that what follows does not depend on that
		return nil, err
	}
	if known, ok := m.known.find(key); ok {
		return known[0], nil
	}
	all, err := Collected(m.task, m.step)
	if err == nil {
		all = bytes.Clone(all) // it may have twice the memory
		m.known.add(key, []json.RawMessage{all}, 0)
	}
	return all, err
}

// Names implements exprlang.Members.
func (m fanMember) Names() []string { return fanMembers }

// Collected returns the output of a fan-out, put together from its items, or an error if it takes more than maxCollectedBytes.
func Collected(t *events.Task, fan *events.Step) (json.RawMessage, error) {
	if fan.Fan.Collect == events.CollectNone {
		return nil, nil
	}
	var b bytes.Buffer
	b.WriteByte('[')
	n := 0
	for index := range fan.Fan.Count {
		s := t.Step(events.ItemPath(fan.Path, index))
		if b.Len() > maxCollectedBytes {
			return nil, fmt.Errorf("the %s of the items of step %q take more than %d MiB: let the items store their results elsewhere and return IDs, or write collect: none", fan.Fan.Collect, fan.Path, maxCollectedBytes>>20)
		}
		if fan.Fan.Collect == events.CollectFailures {
			if s == nil || !s.Continued || n == maxFailures {
				continue
			}
			text, err := events.Marshal(failedItem{index, s.Input, s.Error})
			if err != nil {
				continue // what the fold has can be encoded
			}
			comma(&b, n)
			b.Write(text)
			n++
			continue
		}
		comma(&b, n)
		if n++; s == nil || len(s.Output) == 0 || s.Continued {
			b.WriteString("null")
		} else {
			b.Write(s.Output)
		}
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

func comma(b *bytes.Buffer, before int) {
	if before > 0 {
		b.WriteByte(',')
	}
}

// failedItem is an entry of CollectFailures.
type failedItem struct {
	Index int             `json:"index"`
	Input json.RawMessage `json:"input"`
	Error *events.Error   `json:"error"`
}
