package scheduler

import (
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
)

// The keys of the definition language. workflow.schema.json describes the same for editors; a test compares the two.
var (
	workflowKeys     = []string{"workflow", "title", "description", "input", "deadline", "remind_after", "remember_for", "labels", "priority", "fair_by", "concurrency", "defaults", "steps", "output"}
	defaultsKeys     = []string{"complete_within", "retry", "cool_down", "undo"}
	undoDefaultsKeys = []string{"complete_within", "retry"}
	stepKeys         = []string{"title", "description", "agent", "operation", "limit", "for", "child", "sleep", "wait", "needs", "if", "with", "complete_within", "heartbeat", "retry", "cool_down", "undo", "pivot", "fail_if", "fail_reason", "start_within", "on_timeout", "remind_after"}
	retryKeys        = []string{"attempts", "backoff", "factor", "max_backoff", "within", "then"}
	coolDownKeys     = []string{"wait", "times"}
	undoKeys         = []string{"agent", "operation", "with", "complete_within", "retry"}
	sleepKeys        = []string{"until"}
	waitKeys         = []string{"signal", "schema"}
)

// Bounds of numbers. A larger number is a typo: 1,000 attempts a minute apart take most of a day.
const (
	MaxSteps     = 1_000
	maxAttempts  = 1_000
	maxCoolDowns = 1_000
	maxFactor    = 100
)

// outline is the part of a document that the checks across steps need.
type outline struct {
	doc      *document
	workflow string
	input    *member
	output   *member
	// labels holds the labels by name in the order of the document, and priority is nil without one.
	labels   []member
	priority *member
	// fairBy and concurrency are the keys for turns and for the concurrency, if they are expressions.
	fairBy, concurrency *member
	// completeWithin is the one of steps that give none.
	completeWithin events.Duration
	steps          []*outlineStep
}

type outlineStep struct {
	id    string
	doc   *document
	key   *yaml.Node
	path  string
	needs []outlineNeed
	// signals are the names of the signals for which the step waits, and payload is the schema of theirs, with every $ref inlined.
	signals []member
	payload any
	// The members that are present; nil for the others.
	condition, with, until, schema, then, onTimeout, undo, undoWith, pivot, failIf, failReason, child, detach *member
	// given are the members of child that may have expressions.
	given []member
	// each is the list of a step with items, collect says what becomes of their outputs, and items are the names that their expressions have
	// besides the others; nil if it has none.
	each, collect *member
	items         []string
}

type outlineNeed struct {
	id   string
	node *yaml.Node
	path string
}

// outlineOf checks keys, types and values, and returns the outline.
func outlineOf(d *document) *outline {
	o := &outline{doc: d, completeWithin: DefaultCompleteWithin}
	m, ok := d.members(d.root, "", workflowKeys, " with the key workflow")
	if !ok {
		return o
	}
	if w, ok := m["workflow"]; ok {
		o.workflow = w.name()
	} else {
		d.fault(d.root, "", "workflow is missing: the name of the workflow")
	}
	shapeTexts(m)
	for _, key := range []string{"deadline", "remind_after"} {
		if v, ok := m[key]; ok {
			v.duration()
		}
	}
	if v, ok := m["remember_for"]; ok {
		v.remembered()
	}
	if v, ok := m["input"]; ok {
		o.input = &v
	}
	if v, ok := m["output"]; ok {
		o.output = &v
	}
	if v, ok := m["labels"]; ok {
		o.shapeLabels(v)
	}
	if v, ok := m["priority"]; ok {
		o.priority = &v
		shapePriority(v)
	}
	if v, ok := m["fair_by"]; ok {
		o.shapeFairBy(v)
	}
	if v, ok := m["concurrency"]; ok {
		o.shapeConcurrency(v)
	}
	if v, ok := m["defaults"]; ok {
		o.completeWithin = shapeDefaults(v)
	}
	if v, ok := m["steps"]; ok {
		o.shapeSteps(v)
	} else {
		d.fault(d.root, "", "steps is missing: a mapping of at least one step")
	}
	return o
}

// shapeDefaults returns the complete_within of steps that give none.
// The bounds of the texts for people. A title stands in a line of a table; a description is read with the definition.
const (
	maxTitleBytes       = 120
	maxDescriptionBytes = 4 << 10
)

// shapeTexts checks the texts that say to people what a workflow or a step does.
func shapeTexts(keys map[string]member) {
	if v, ok := keys["title"]; ok {
		switch s, ok := v.text(); {
		case !ok:
		case s == "" || len(s) > maxTitleBytes || strings.ContainsAny(s, "\r\n"):
			v.fault("a title is one line of 1 to %d bytes, and this has %d: move the rest into description", maxTitleBytes, len(s))
		}
	}
	if v, ok := keys["description"]; ok {
		if s, ok := v.text(); ok && len(s) > maxDescriptionBytes {
			v.fault("a description has up to %d bytes, and this has %d: keep longer texts elsewhere, and link to them", maxDescriptionBytes, len(s))
		}
	}
}

func shapeDefaults(m member) events.Duration {
	keys, _ := m.doc.members(m.value, m.path, defaultsKeys, "")
	shapePolicy(keys)
	if v, ok := keys["undo"]; ok {
		below, _ := v.doc.members(v.value, v.path, undoDefaultsKeys, "")
		shapePolicy(below)
		undoParks(below)
	}
	return completeWithin(keys, DefaultCompleteWithin)
}

// completeWithin returns the member complete_within, whose faults shapePolicy reports, or else the given duration.
func completeWithin(keys map[string]member, otherwise events.Duration) events.Duration {
	v, ok := keys["complete_within"]
	if !ok {
		return otherwise
	}
	d, err := events.ParseDuration(v.value.Value)
	if err != nil {
		return otherwise
	}
	return d
}

// shapeHeartbeat checks the heartbeat of a step whose attempts may take the given time.
func shapeHeartbeat(keys map[string]member, within events.Duration) {
	v, ok := keys["heartbeat"]
	if !ok {
		return
	}
	switch d := v.duration(); {
	case d == 0: // reported
	case d < events.MinHeartbeat:
		v.fault("heartbeat %s is shorter than %s, the shortest: each one is a record of the history", d, events.MinHeartbeat)
	case d >= within:
		v.fault("heartbeat %s is not shorter than complete_within %s, the most that an attempt takes: it would have no effect", d, within)
	}
}

// shapePolicy checks complete_within, retry and cool_down. It returns the member retry.then if there is one.
func shapePolicy(keys map[string]member) *member {
	if v, ok := keys["complete_within"]; ok {
		v.duration()
	}
	if v, ok := keys["cool_down"]; ok {
		below, ok := v.doc.members(v.value, v.path, coolDownKeys, " with wait and times")
		if w, has := below["wait"]; has {
			w.duration()
		} else if ok {
			v.doc.fault(v.key, v.path, "wait is missing: how long to wait before the step starts over")
		}
		if t, has := below["times"]; has {
			t.count(bounds{0, maxCoolDowns})
		}
	}
	v, ok := keys["retry"]
	if !ok {
		return nil
	}
	return shapeRetry(v)
}

func shapeRetry(m member) *member {
	keys, _ := m.doc.members(m.value, m.path, retryKeys, "")
	if v, ok := keys["attempts"]; ok {
		v.count(bounds{1, maxAttempts})
	}
	var backoff, most events.Duration
	if v, ok := keys["backoff"]; ok {
		backoff = v.duration()
	}
	if v, ok := keys["factor"]; ok {
		v.factor()
	}
	if v, ok := keys["max_backoff"]; ok {
		if most = v.duration(); most > 0 && most < backoff {
			v.fault("max_backoff %s is less than backoff %s", most, backoff)
		}
	}
	if v, ok := keys["within"]; ok {
		v.duration()
	}
	v, ok := keys["then"]
	if !ok {
		return nil
	}
	if !v.oneOf(ThenUndo, ThenPark) {
		return nil
	}
	return &v
}

// undoParks refuses a policy that would undo an undo.
func undoParks(keys map[string]member) {
	retry, ok := keys["retry"]
	if !ok || retry.value.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(retry.value.Content); i += 2 {
		if v := retry.value.Content[i+1]; retry.value.Content[i].Value == "then" && v.Value == ThenUndo {
			retry.doc.fault(v, retry.path+".then", "an undo cannot be undone: it parks the task when its attempts are used up")
		}
	}
}

func (o *outline) shapeSteps(m member) {
	if m.value.Kind != yaml.MappingNode {
		m.fault("expected a mapping of steps by name, got %s", kindOf(m.value))
		return
	}
	n := len(m.value.Content) / 2
	if n == 0 {
		m.fault("a workflow has at least one step")
	}
	if n > MaxSteps {
		m.fault("%d steps are more than %d", n, MaxSteps)
		o.output = nil // without the steps, every reference to one would look wrong
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(m.value.Content); i += 2 {
		key := m.value.Content[i]
		if seen[key.Value] {
			continue // plain has reported it
		}
		seen[key.Value] = true
		s := &outlineStep{id: key.Value, doc: m.doc, key: key, path: join(m.path, key.Value)}
		m.doc.checkName(key, s.path, key.Value)
		s.shape(m.value.Content[i+1], o.completeWithin)
		o.steps = append(o.steps, s)
	}
}

// shape checks a step. within is the complete_within of the defaults.
func (s *outlineStep) shape(n *yaml.Node, within events.Duration) {
	keys, ok := s.doc.members(n, s.path, stepKeys, " with the key agent")
	if !ok {
		return
	}
	shapeTexts(keys)
	s.shapeKind(n, keys)
	if v, ok := keys["needs"]; ok {
		s.shapeNeeds(v)
	}
	if v, ok := keys[keyFor]; ok {
		s.shapeFor(v)
	}
	s.condition, s.with = optional(keys, "if"), optional(keys, "with")
	s.shapeCheck(keys)
	if v, ok := keys["pivot"]; ok && v.boolean() {
		if s.pivot = &v; s.items != nil {
			v.fault("a step with for cannot be the pivot, since some of its items may be done and others not: let a step that needs it be the pivot")
		}
	}
	s.then = shapePolicy(keys)
	shapeHeartbeat(keys, completeWithin(keys, within))
	for _, key := range []string{"start_within", "remind_after"} {
		if v, ok := keys[key]; ok {
			v.duration()
		}
	}
	if v, ok := keys["limit"]; ok {
		v.name()
	}
	if v, ok := keys["on_timeout"]; ok && v.oneOf(ThenUndo, ThenPark, OnTimeoutContinue) {
		if s.onTimeout = &v; s.items != nil && v.is(OnTimeoutContinue) {
			v.fault("a step with for goes on without the items that tolerate allows to fail or time out: write for: {tolerate: 1%%}, and undo or park here")
			s.onTimeout = nil
		}
	}
	if v, ok := keys["undo"]; ok {
		s.undo = &v
		s.shapeUndo(v)
		if s.child != nil {
			s.shapeChildUndo(v)
		}
	}
}

// withoutOutput says when the step is over without an output, "" if never.
func (s *outlineStep) withoutOutput() string {
	times := s.onTimeout.is(OnTimeoutContinue)
	switch {
	case s.condition != nil && times:
		return "is skipped or times out"
	case times:
		return "times out"
	case s.condition != nil:
		return "is skipped"
	}
	return ""
}

func (s *outlineStep) shapeCheck(keys map[string]member) {
	s.failIf, s.failReason = optional(keys, "fail_if"), optional(keys, "fail_reason")
	if m := s.failReason; m != nil {
		if s.failIf == nil {
			s.doc.fault(m.key, m.path, "fail_reason says why fail_if holds, but the step has no fail_if")
		}
		m.text()
	}
}

func optional(keys map[string]member, name string) *member {
	if v, ok := keys[name]; ok {
		return &v
	}
	return nil
}

func (s *outlineStep) shapeUndo(m member) {
	keys, _ := m.doc.members(m.value, m.path, undoKeys, ", {} if the undo takes no more than the step's input")
	if v, ok := keys["agent"]; ok {
		v.name()
	}
	shapeOperation(keys)
	shapePolicy(keys)
	undoParks(keys)
	s.undoWith = optional(keys, "with")
}

func (s *outlineStep) shapeNeeds(m member) {
	if m.value.Kind != yaml.SequenceNode {
		hint := ""
		if isText(m.value) {
			hint = ": write [" + m.value.Value + "]"
		}
		m.fault("expected a list of steps, got %s%s", kindOf(m.value), hint)
		return
	}
	for i, n := range m.value.Content {
		path := item(m.path, i)
		if !isText(n) {
			s.doc.fault(n, path, "expected the name of a step, got %s", kindOf(n))
			continue
		}
		s.needs = append(s.needs, outlineNeed{id: n.Value, node: n, path: path})
	}
}
