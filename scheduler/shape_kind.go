package scheduler

import (
	"reflect"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
)

// The keys of the kinds of steps. Each step has exactly one of them.
const (
	keyAgent = "agent"
	keySleep = "sleep"
	keyWait  = "wait"
	keyChild = "child"
	// keyFor gives a step of an agent or of a child items.
	keyFor = "for"
)

// kindKeys are the keys that a step may have if no agent does it, by the key of its kind. Agents take all the others.
var kindKeys = map[string][]string{
	keySleep: {keySleep, "needs", "if"},
	keyChild: {keyChild, keyFor, "title", "description", "needs", "if", "with", "complete_within", "retry", "undo", "pivot", "on_timeout", "fail_if", "fail_reason", "remind_after"},
	keyWait:  {keyWait, "needs", "if", "complete_within", "on_timeout", "fail_if", "fail_reason", "remind_after"},
}

// shapeKind checks that the step has one kind, and the keys of that kind.
func (s *outlineStep) shapeKind(n *yaml.Node, keys map[string]member) {
	agent, isAgent := keys[keyAgent]
	sleep, sleeps := keys[keySleep]
	wait, waits := keys[keyWait]
	child, byChild := keys[keyChild]
	switch {
	case byChild && (isAgent || sleeps || waits):
		s.doc.fault(child.key, child.path, "a step has a child or an agent, or sleeps, or waits for a signal, not two of them: make it two steps")
		s.shapeChild(child)
	case byChild:
		s.child = &child
		s.shapeChild(child)
		warnOfRetries(keys)
		s.refuse(keys, keyChild, "a step that a child does")
	case isAgent && sleeps:
		s.doc.fault(sleep.key, sleep.path, "a step has an agent or sleeps, not both: make it two steps")
	case waits && (isAgent || sleeps):
		s.doc.fault(wait.key, wait.path, "a step waits for a signal, or has an agent, or sleeps, not two of them: make it two steps")
		s.shapeWait(wait)
	case isAgent:
		agent.name()
		shapeOperation(keys)
	case sleeps:
		s.shapeSleep(sleep)
		s.refuse(keys, keySleep, "a step that sleeps")
	case waits:
		s.shapeWait(wait)
		s.refuse(keys, keyWait, "a step that waits for a signal")
	case !hasLaterKind(n):
		s.doc.fault(s.key, s.path, "agent is missing: the kind of agent that does the step")
	}
}

// shapeOperation checks the name of the operation of an agent.
func shapeOperation(keys map[string]member) {
	v, ok := keys["operation"]
	if !ok {
		return
	}
	switch name := v.name(); name {
	case string(events.Do), string(events.Undo):
		v.fault("%s is not the name of an operation, which has a do and an undo: leave operation out", name)
	}
}

// maxSignals bounds the names for which one step waits.
const maxSignals = 20

// shapeWait checks the names of the signals. The schema is checked when it is inlined.
func (s *outlineStep) shapeWait(m member) {
	keys, ok := m.doc.members(m.value, m.path, waitKeys, " with signal")
	s.schema = optional(keys, "schema")
	v, has := keys["signal"]
	switch {
	case !ok:
	case !has:
		m.doc.fault(m.key, m.path, "signal is missing: the name of the signal, or a list of names of which the first that comes is taken")
	case v.value.Kind != yaml.SequenceNode:
		s.waitsFor(v)
	case len(v.value.Content) == 0 || len(v.value.Content) > maxSignals:
		v.fault("expected 1 to %d names of signals, got %d", maxSignals, len(v.value.Content))
	default:
		seen := map[string]bool{}
		for i, n := range v.value.Content {
			one := member{doc: v.doc, key: n, value: n, path: item(v.path, i)}
			if name := s.waitsFor(one); seen[name] {
				one.fault("%s is listed twice", abbreviate(name))
			} else {
				seen[name] = true
			}
		}
	}
}

func (s *outlineStep) waitsFor(m member) string {
	s.signals = append(s.signals, m)
	return m.name()
}

// checkSignals refuses two steps that wait for one signal with different schemas: the one that has waited longest takes it, so both must
// be able to.
func (o *outline) checkSignals() {
	first := map[string]*outlineStep{}
	for _, s := range o.steps {
		for _, m := range s.signals {
			name := m.value.Value
			other := first[name]
			if other == nil {
				first[name] = s
			} else if other != s && !reflect.DeepEqual(other.payload, s.payload) {
				m.fault("steps %q and %q wait for the signal %s with different schemas: give both the same schema, or the signals different names", other.id, s.id, abbreviate(name))
			}
		}
	}
}

// refuse reports the keys that a step of the kind cannot have.
func (s *outlineStep) refuse(keys map[string]member, kind, what string) {
	for _, name := range stepKeys {
		if v, has := keys[name]; has && !slices.Contains(kindKeys[kind], name) {
			s.doc.fault(v.key, v.path, "%s has no %s: it may have %s", what, name, strings.Join(kindKeys[kind][1:], ", "))
		}
	}
}

// shapeSleep checks the duration of a sleep, or its end.
func (s *outlineStep) shapeSleep(m member) {
	if m.value.Kind != yaml.MappingNode {
		s.shapeSleepFor(m)
		return
	}
	keys, _ := m.doc.members(m.value, m.path, sleepKeys, "")
	until, ok := keys["until"]
	if !ok {
		m.doc.fault(m.key, m.path, "until is missing: the instant at which the step is over, or an expression that gives it")
		return
	}
	text, ok := until.text()
	if !ok {
		return
	}
	if strings.Contains(text, "${") {
		s.until = &until
		return
	}
	if _, err := events.ParseInstant(text); err != nil {
		until.fault("%s; for a duration write sleep: 10m", err)
	}
}

// shapeSleepFor checks the duration of a sleep. What is only known when the step begins has another key.
func (s *outlineStep) shapeSleepFor(m member) {
	if isText(m.value) {
		text := m.value.Value
		_, err := events.ParseInstant(text)
		if strings.Contains(text, "${") {
			m.fault("expected a duration such as 10m, got an expression: write sleep: {until: %q}, whose result is an instant or a duration", abbreviate(text))
			return
		} else if err == nil {
			m.fault("expected a duration such as 10m, got an instant: write sleep: {until: %s}", text)
			return
		}
	}
	m.duration()
}

// hasLaterKind says whether the step was already refused because its kind belongs to a later version. A missing agent
// is not reported then.
func hasLaterKind(n *yaml.Node) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch n.Content[i].Value {
		case "task":
			return true
		}
	}
	return false
}
