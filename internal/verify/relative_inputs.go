package verify

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sagalog/sagalog/events"
)

// relatedInput checks that a fact follows from a record of one of the types about the link.
func relatedInput(p *partition, f *events.Fact, at Place, input *events.Record, l events.Link, kinds ...string) {
	kind, got, err := relativeInput(p, f, at, input)
	if input == nil {
		return
	}
	if err != nil || relationOf(got) != relationOf(l) && got.Operation == events.Do || got.Task != l.Task || !slices.Contains(kinds, kind) {
		p.book.add(Finding{Check: CheckInputs, Kind: "not_its_input", Place: at, Task: f.Task, What: fmt.Sprintf("the fact follows from the input %s, which is about another child or cannot be read (%v)", f.Cause, err)})
	}
}

// releasedByInput checks that a child is released because its parent says so, or because a later task with the ID of its parent asks for one.
func releasedByInput(p *partition, f *events.Fact, at Place, input *events.Record, l events.Link) {
	kind, got, err := relativeInput(p, f, at, input)
	if input == nil {
		return
	}
	by := kind == events.TypeChildRelease && printStep(got) == printStep(l) || kind == "" && got.Task == l.Task && got.Path == l.Path && got.Incarnation != l.Incarnation
	if err != nil || !by {
		p.book.add(Finding{Check: CheckInputs, Kind: "not_its_input", Place: at, Task: f.Task, What: fmt.Sprintf("the child is released because of the input %s, which does not release it or cannot be read (%v)", f.Cause, err)})
	}
}

// relativeInput returns the type and the link of the record of which a fact about a parent or a child follows.
func relativeInput(p *partition, f *events.Fact, at Place, input *events.Record) (kind string, l events.Link, err error) {
	if input == nil {
		if _, _, _, ok := f.Cause.Input(); !ok {
			p.book.add(Finding{Check: CheckInputs, Kind: "not_its_input", Place: at, Task: f.Task, What: fmt.Sprintf("the fact follows from %q, and not from a record of a parent or a child", f.Cause)})
		}
		return "", l, nil
	}
	env, data, err := events.Open(input)
	if err != nil {
		return "", l, err
	}
	var m struct {
		Link   events.Link        `json:"link"`
		Parent *events.ParentLink `json:"parent"`
	}
	if err = json.Unmarshal(data, &m); m.Parent != nil {
		m.Link = m.Parent.Link
	}
	return childKind(env.Type), m.Link, err
}

// childKind returns the type of a record about a child, "" for a submission.
func childKind(kind string) string {
	if isRelative(kind) {
		return kind
	}
	return ""
}

// isRelative says whether a record is one of a parent or a child, other than a submission.
func isRelative(kind string) bool {
	switch kind {
	case events.TypeChildAsk, events.TypeChildUndo, events.TypeChildRelease, events.TypeChildAnswer:
		return true
	}
	return false
}

// silentRelative checks that a record of a parent or a child needed no fact.
func silentRelative(p *partition, j *join, kind string, data []byte, wrong func(task, format string, args ...any)) {
	var m events.ChildAnswer
	if err := json.Unmarshal(data, &m); err != nil {
		wrong("", "the record cannot be read (%v)", err)
		return
	}
	to := m.Child
	if kind == events.TypeChildAnswer {
		to = m.Link.Task
	}
	if home := events.Home(to, p.check.number); home != p.number {
		wrong(to, "the record belongs in partition %d", home)
		return
	}
	s := p.live[to]
	if kind != events.TypeChildAnswer || s == nil || s.incarnation != m.Link.Incarnation || s.step(m.Link.Path) == nil {
		return
	}
	if w := s.step(m.Link.Path).work(m.Link.Operation); w.running && w.child == m.Child && w.attempts == m.Link.N && w.started < j.since && (m.State == events.ChildUndone || m.State == events.ChildTerminated || m.State == events.ChildLost) {
		wrong(to, "the answer %s of task %s about attempt %d of step %s was not recorded", m.State, m.Child, m.Link.N, m.Link.Path)
	}
}
