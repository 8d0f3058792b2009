package scheduler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"github.com/sagalog/sagalog/events"
)

// The defaults of a definition. They enter a partition with the definition (DefinitionAdopted), so a change of them
// changes no task that is under way.
const (
	// DefaultCompleteBy is long enough for a slow HTTP call behind a queue, and short enough that a lost one is
	// noticed while somebody still waits for the task.
	DefaultCompleteBy = events.Duration(30 * time.Second)
	// DefaultAttempts rides out a restart of the remote service: with the backoff below, 15 s beside the attempts
	// themselves. Fewer would undo tasks for a deployment; many more would hold resources of earlier steps for long.
	DefaultAttempts = 5
	// DefaultBackoff is about the time that a connection pool or a leader election needs.
	DefaultBackoff = events.Duration(time.Second)
	// DefaultFactor doubles, so that a service that is down sees load fall quickly.
	DefaultFactor = 2.0
	// DefaultMax keeps a step from sleeping long after its service is back.
	DefaultMax = events.Duration(time.Minute)
	// DefaultUndoAttempts is more than for a do, because behind it is only a person: six minutes in all.
	DefaultUndoAttempts = 10
	// DefaultCoolDowns is how often a step begins its attempts anew, if it cools down and does not say.
	DefaultCoolDowns = 3
)

// body is the source of a definition as Parse left it: its keys are those of the language.
type body struct {
	Workflow    string              `json:"workflow"`
	Description string              `json:"description"`
	Input       json.RawMessage     `json:"input"`
	Deadline    events.Duration     `json:"deadline"`
	Defaults    bodyDefaults        `json:"defaults"`
	Steps       map[string]bodyStep `json:"steps"`
	Output      json.RawMessage     `json:"output"`
}

type bodyDefaults struct {
	bodyPolicy
	Undo struct {
		CompleteBy events.Duration `json:"complete_by"`
		Retry      bodyRetry       `json:"retry"`
	} `json:"undo"`
}

type bodyPolicy struct {
	CompleteBy events.Duration `json:"complete_by"`
	Retry      bodyRetry       `json:"retry"`
	CoolDown   *bodyCoolDown   `json:"cool_down"`
}

type bodyRetry struct {
	Attempts int             `json:"attempts"`
	Backoff  events.Duration `json:"backoff"`
	Factor   float64         `json:"factor"`
	Max      events.Duration `json:"max"`
	Then     string          `json:"then"`
}

type bodyCoolDown struct {
	Wait  events.Duration `json:"wait"`
	Times *int            `json:"times"`
}

type bodyStep struct {
	bodyPolicy
	Agent string          `json:"agent"`
	Needs []string        `json:"needs"`
	If    string          `json:"if"`
	With  json.RawMessage `json:"with"`
	Pivot bool            `json:"pivot"`
	Undo  *bodyUndo       `json:"undo"`
}

type bodyUndo struct {
	Agent      string          `json:"agent"`
	With       json.RawMessage `json:"with"`
	CompleteBy events.Duration `json:"complete_by"`
	Retry      bodyRetry       `json:"retry"`
}

// Complete fills the defaults of a body that Parse made. It errors on a body of a later version, whose keys it does
// not know: to leave them out would run another workflow than the one that was applied.
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
	def := &Definition{Workflow: b.Workflow, Description: b.Description, Input: present(b.Input), Deadline: b.Deadline, Output: present(b.Output)}
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

// present returns nil for an absent value and for null, which in a definition means the same.
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
	needs := append([]string(nil), s.Needs...)
	sort.Strings(needs)
	out := Step{
		ID: id, Agent: s.Agent, Needs: needs, If: s.If, With: present(s.With), Pivot: s.Pivot,
		CompleteBy: firstOf(s.CompleteBy, b.Defaults.CompleteBy, DefaultCompleteBy),
		Retry:      retry(DefaultAttempts, s.Retry, b.Defaults.Retry),
		CoolDown:   coolDown(s.CoolDown, b.Defaults.CoolDown),
	}
	if forward {
		out.Retry.Then = ThenPark
	}
	if s.Undo != nil {
		out.Undo = b.undo(out, s.Undo)
	}
	return out
}

func (b *body) undo(s Step, u *bodyUndo) *Undo {
	out := &Undo{
		Agent: firstOf(u.Agent, s.Agent), With: present(u.With),
		CompleteBy: firstOf(u.CompleteBy, b.Defaults.Undo.CompleteBy, s.CompleteBy),
		Retry:      retry(DefaultUndoAttempts, u.Retry, b.Defaults.Undo.Retry),
	}
	out.Retry.Then = ThenPark
	return out
}

// retry fills each member on its own: a step that says only "attempts" keeps the backoff of the defaults.
func retry(attempts int, own, inherited bodyRetry) Retry {
	r := Retry{
		Attempts: firstOf(own.Attempts, inherited.Attempts, attempts),
		Backoff:  firstOf(own.Backoff, inherited.Backoff, DefaultBackoff),
		Factor:   firstOf(own.Factor, inherited.Factor, DefaultFactor),
		Max:      firstOf(own.Max, inherited.Max, DefaultMax),
		Then:     firstOf(own.Then, inherited.Then, ThenUndo),
	}
	// A backoff above a maximum that is not its own neighbour's wins: it was written for this step.
	r.Max = max(r.Max, r.Backoff)
	return r
}

// coolDown returns nil for none; times: 0 switches an inherited one off.
func coolDown(own, inherited *bodyCoolDown) *CoolDown {
	c := own
	if c == nil {
		c = inherited
	}
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

func firstOf[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}
