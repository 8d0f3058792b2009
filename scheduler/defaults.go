package scheduler

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// The defaults of a definition. They reach a partition inside the definition (DefinitionAdopted), so changing them here changes
// no task that is under way.
const (
	// DefaultCompleteWithin is long enough for a slow HTTP call behind a queue, and short enough that a lost one is
	// noticed while someone still waits for the task.
	DefaultCompleteWithin = events.Duration(30 * time.Second)
	// DefaultAttempts outlasts a restart of the remote service: with the backoff below, the pauses add up to 15 s. With fewer, a
	// deployment would undo tasks; with many more, the resources of earlier steps would be held too long.
	DefaultAttempts = 5
	// DefaultBackoff is about the time that a connection pool or a leader election needs.
	DefaultBackoff = events.Duration(time.Second)
	// DefaultFactor doubles, so that a service that is down sees load fall quickly.
	DefaultFactor = 2.0
	// DefaultMaxBackoff keeps a step from waiting long after its service is back.
	DefaultMaxBackoff = events.Duration(time.Minute)
	// DefaultUndoAttempts is larger than DefaultAttempts, because only a person can help after the last attempt of an
	// undo. Its attempts take six minutes in all.
	DefaultUndoAttempts = 10
	// DefaultCoolDowns is how often a step that cools down starts over, if the definition does not say.
	DefaultCoolDowns = 3
)

// body is the source of a definition as Parse returns it: its keys are those of the language.
type body struct {
	Workflow    string                     `json:"workflow"`
	Title       string                     `json:"title"`
	Description string                     `json:"description"`
	Input       json.RawMessage            `json:"input"`
	Deadline    events.Duration            `json:"deadline"`
	RemindAfter events.Duration            `json:"remind_after"`
	RememberFor events.Duration            `json:"remember_for"`
	Labels      map[string]json.RawMessage `json:"labels"`
	Priority    json.RawMessage            `json:"priority"`
	FairBy      json.RawMessage            `json:"fair_by"`
	Concurrency *bodyConcurrency           `json:"concurrency"`
	Defaults    bodyDefaults               `json:"defaults"`
	Steps       map[string]bodyStep        `json:"steps"`
	Output      json.RawMessage            `json:"output"`
}

type bodyDefaults struct {
	bodyPolicy
	Undo struct {
		CompleteWithin events.Duration `json:"complete_within"`
		Retry          bodyRetry       `json:"retry"`
	} `json:"undo"`
}

type bodyPolicy struct {
	CompleteWithin events.Duration `json:"complete_within"`
	Retry          bodyRetry       `json:"retry"`
	CoolDown       *bodyCoolDown   `json:"cool_down"`
}

type bodyRetry struct {
	Attempts   int             `json:"attempts"`
	Backoff    events.Duration `json:"backoff"`
	Factor     float64         `json:"factor"`
	MaxBackoff events.Duration `json:"max_backoff"`
	Within     events.Duration `json:"within"`
	Then       string          `json:"then"`
}

type bodyCoolDown struct {
	Wait  events.Duration `json:"wait"`
	Times *int            `json:"times"`
}

type bodyStep struct {
	bodyPolicy
	Title       string          `json:"title"`
	Description string          `json:"description"`
	StartWithin events.Duration `json:"start_within"`
	RemindAfter events.Duration `json:"remind_after"`
	OnTimeout   string          `json:"on_timeout"`
	Agent       string          `json:"agent"`
	Operation   string          `json:"operation"`
	Limit       string          `json:"limit"`
	Heartbeat   events.Duration `json:"heartbeat"`
	Sleep       json.RawMessage `json:"sleep"`
	Wait        json.RawMessage `json:"wait"`
	Child       json.RawMessage `json:"child"`
	For         *bodyFor        `json:"for"`
	Needs       []string        `json:"needs"`
	If          string          `json:"if"`
	With        json.RawMessage `json:"with"`
	FailIf      string          `json:"fail_if"`
	FailReason  string          `json:"fail_reason"`
	Pivot       bool            `json:"pivot"`
	Undo        *bodyUndo       `json:"undo"`
}

type bodyUndo struct {
	Agent          string          `json:"agent"`
	Operation      string          `json:"operation"`
	With           json.RawMessage `json:"with"`
	CompleteWithin events.Duration `json:"complete_within"`
	Retry          bodyRetry       `json:"retry"`
}

// Complete fills in the defaults of a body from Parse. It returns an error for an unknown key, which comes from a later version
// of Sagalog: without that key it would run a different workflow from the one that was applied.
func Complete(raw json.RawMessage) (*Definition, error) {
	var b body
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return nil, fmt.Errorf("read definition: %w", err)
	}
	g := make(graph, len(b.Steps))
	for id, s := range b.Steps {
		g[id] = s.Needs
	}
	order, ok := g.order()
	if !ok {
		return nil, fmt.Errorf("workflow %q: steps need each other in a cycle", b.Workflow)
	}
	def := &Definition{
		Workflow: b.Workflow, Title: b.Title, Description: b.Description, Input: present(b.Input), Deadline: b.Deadline, RemindAfter: b.RemindAfter, RememberFor: b.RememberFor,
		Labels: b.Labels, Priority: present(b.Priority), FairBy: present(b.FairBy), Concurrency: b.Concurrency.complete(), Output: present(b.Output),
	}
	forward := b.forwardOnly(g)
	for _, id := range order {
		def.Steps = append(def.Steps, b.step(id, forward[id]))
	}
	return def, nil
}

// DecodeDefinition reads a definition with its defaults filled, as DefinitionAdopted carries it.
func DecodeDefinition(raw json.RawMessage) (*Definition, error) {
	var d Definition
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("read adopted definition: %w", err)
	}
	return &d, nil
}

// present returns nil for an absent value and for null. They mean the same in a definition.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// forwardOnly returns the pivot and the steps after it.
func (b *body) forwardOnly(g graph) map[string]bool {
	out := map[string]bool{}
	for pivot, s := range b.Steps {
		if !s.Pivot {
			continue
		}
		out[pivot] = true
		ancestors := g.ancestors()
		for id := range b.Steps {
			if ancestors.needs(id, pivot) {
				out[id] = true
			}
		}
	}
	return out
}

func (b *body) step(id string, forward bool) Step {
	s := b.Steps[id]
	needs := slices.Sorted(slices.Values(s.Needs))
	out := Step{
		ID: id, Title: s.Title, Description: s.Description, Agent: s.Agent, Operation: s.Operation, Limit: s.Limit, Needs: needs, If: s.If, With: present(s.With), FailIf: s.FailIf, FailReason: s.FailReason, Pivot: s.Pivot,
		CompleteWithin: cmp.Or(s.CompleteWithin, b.Defaults.CompleteWithin, DefaultCompleteWithin),
		Heartbeat:      s.Heartbeat, StartWithin: s.StartWithin, OnTimeout: s.OnTimeout, RemindAfter: s.RemindAfter,
		Retry:    retry(DefaultAttempts, s.Retry, b.Defaults.Retry),
		CoolDown: coolDown(s.CoolDown, b.Defaults.CoolDown),
	}
	if out.Sleep, out.Wait = present(s.Sleep), present(s.Wait); out.Sleep != nil || out.Wait != nil {
		out.CompleteWithin, out.Retry, out.CoolDown = s.CompleteWithin, Retry{Attempts: 1, Then: out.Retry.Then}, nil
	}
	if out.Child = present(s.Child); out.Child != nil { // a child may take any time
		out.CompleteWithin, out.CoolDown = s.CompleteWithin, nil
	}
	out.For = s.For.complete()
	if forward && !(s.Pivot && s.Retry.Then == ThenUndo) { // a pivot that says undo itself undoes the task, if no attempt of it had an effect
		out.Retry.Then = ThenPark
	}
	if s.Undo != nil {
		out.Undo = b.undo(out, s.Undo)
	}
	return out
}

func (b *body) undo(s Step, u *bodyUndo) *Undo {
	within := s.CompleteWithin
	if s.Child != nil { // the time of a child says nothing about an agent
		within = cmp.Or(b.Defaults.CompleteWithin, DefaultCompleteWithin)
	}
	out := &Undo{
		Agent: cmp.Or(u.Agent, s.Agent), With: present(u.With),
		CompleteWithin: cmp.Or(u.CompleteWithin, b.Defaults.Undo.CompleteWithin, within),
		Retry:          retry(DefaultUndoAttempts, u.Retry, b.Defaults.Undo.Retry),
	}
	if out.Operation = u.Operation; out.Operation == "" && out.Agent == s.Agent {
		out.Operation = s.Operation
	}
	if out.Agent == "" { // the child undoes itself
		return &Undo{Retry: Retry{Attempts: 1, Then: ThenPark}}
	}
	out.Retry.Then = ThenPark
	return out
}

// retry fills each member separately: a step that sets only "attempts" keeps the default backoff.
func retry(attempts int, own, inherited bodyRetry) Retry {
	r := Retry{
		Attempts:   cmp.Or(own.Attempts, inherited.Attempts, attempts),
		Backoff:    cmp.Or(own.Backoff, inherited.Backoff, DefaultBackoff),
		Factor:     cmp.Or(own.Factor, inherited.Factor, DefaultFactor),
		MaxBackoff: cmp.Or(own.MaxBackoff, inherited.MaxBackoff, DefaultMaxBackoff),
		Within:     cmp.Or(own.Within, inherited.Within),
		Then:       cmp.Or(own.Then, inherited.Then, ThenUndo),
	}
	// If a step's backoff is above the default maximum, the backoff wins, because it was written for
	// this step.
	r.MaxBackoff = max(r.MaxBackoff, r.Backoff)
	return r
}

// coolDown returns nil if the step does not cool down. times: 0 switches an inherited cool-down off.
func coolDown(own, inherited *bodyCoolDown) *CoolDown {
	c := cmp.Or(own, inherited)
	if c == nil {
		return nil
	}
	times := DefaultCoolDowns
	if c.Times != nil {
		times = *c.Times
	}
	if times == 0 {
		return nil
	}
	return &CoolDown{Wait: c.Wait, Times: times}
}
