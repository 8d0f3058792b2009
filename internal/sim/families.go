package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// The workflows of tasks that do steps of others, and of tasks whose steps are done by others. The first ones start no task.
var familySources = []string{`
workflow: kid
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  a: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  b: {needs: [a], agent: gamma, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
output: "${ steps.a.output }"
`, `
workflow: kid-firm
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  a: {agent: gamma, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  b: {needs: [a], agent: alpha, pivot: true}
  c: {needs: [b], sleep: 1500ms}
`, `
workflow: kid-waits
remember_for: 2s
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  a: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  v: {needs: [a], wait: {signal: go, schema: {type: object}}, complete_within: 4s, on_timeout: continue}
`, `
workflow: kid-stops
deadline: 6s
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: park}}
steps:
  a: {agent: gamma, undo: {retry: {attempts: 2, backoff: 200ms, max_backoff: 1s}}}
  b: {needs: [a], agent: beta, operation: take}
`, `
workflow: kin
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  p: {child: {workflow: kid}, with: {n: 1}, undo: {}}
  q: {needs: [p], agent: alpha}
`, `
workflow: kin-of-kin
defaults: {complete_within: 2s, retry: {attempts: 3, backoff: 200ms, then: undo}}
steps:
  p: {child: {workflow: kin, labels: {tier: own}, priority: 2, deadline: 9s}, undo: {}, remind_after: 2s}
  q: {child: {workflow: kid-waits}, complete_within: 3s, undo: {}}
  z: {needs: [p, q], agent: gamma}
output: {p: "${ steps.p.output }"}
`, `
workflow: kin-of-many
remember_for: 2s
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 200ms, then: undo}}
steps:
  p: {child: {workflow: kid-stops}, complete_within: 5s, on_timeout: continue, undo: {}}
  q: {child: {workflow: kid, version: 1}, fail_if: "${ output.v == 2 }", retry: {then: park}, undo: {}}
  r: {child: {workflow: kid}, undo: {agent: gamma, with: {v: "${ step.output.v }"}, retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  z: {needs: [p, q, r], agent: alpha}
`, `
workflow: kin-of-firm
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  p: {child: {workflow: kid-firm}, undo: {}}
  q: {needs: [p], child: {workflow: kid}, fail_if: "${ output.v == 2 }", retry: {then: park}, undo: {}}
  r: {needs: [p], child: {workflow: kid-waits, detach: true}}
  z: {needs: [q, r], agent: alpha}
`, `
workflow: kin-of-taken
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  a: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  p: {child: {workflow: kid, id: "${ input.id }"}, retry: {then: park}, undo: {}}
  z: {needs: [a, p], child: {workflow: "kid-firm"}, pivot: true}
`, `
workflow: kin-of-none
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  p: {child: {workflow: kid}, undo: {}}
  q: {child: {workflow: none}, retry: {then: park}, undo: {}}
  r: {child: {workflow: dag}, with: {n: "no number"}, retry: {then: park}}
`, `
workflow: kin-of-each
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  p: {for: {each: [1, 2, 3, 4], parallel: 2, tolerate: 1}, child: {workflow: kid}, with: {n: "${ item }"}, undo: {}}
  q: {needs: [p], agent: alpha, with: "${ steps.p.counts }"}
`, `
workflow: kid-of-two
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  a: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  b: {needs: [a], if: "${ task.id endsWith '~2' }", agent: gamma, pivot: true}
output: {v: 2}
`, `
workflow: kin-of-two
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  p: {child: {workflow: kid-of-two}, fail_if: "${ output.v == 2 }", retry: {then: park}, undo: {}}
`}

// parents are the workflows whose steps are done by other tasks, the deepest one several times.
var parents = []string{"kin", "kin-of-kin", "kin-of-kin", "kin-of-many", "kin-of-many", "kin-of-firm", "kin-of-taken", "kin-of-none"}

// families are tasks that start tasks: what clients and operators do with them. They draw from a separate stream.
type families struct {
	w    *World
	dice *rand.Rand
	// hand draws what operators decide about tries and undos.
	hand *rand.Rand
	// bodies are the submissions of the parents.
	bodies []map[string]any
	// landed are the tries whose submissions have landed, begun those whose children were accepted, and refused those whose children were refused.
	landed, begun, refused map[string]bool
	// turnedAt is when each child ended, or an attempt of its pivot did.
	turnedAt map[string]events.Instant
}

func newFamilies(w *World, seed uint64) *families {
	return &families{w: w, dice: rand.New(rand.NewPCG(seed, 0xfa3111e5)), hand: rand.New(rand.NewPCG(seed, 0xdec1de)), landed: map[string]bool{}, begun: map[string]bool{}, refused: map[string]bool{}, turnedAt: map[string]events.Instant{}}
}

// plan submits the parents, and spreads what operators do with them and with their children over the time of chaos.
func (c *families) plan() {
	w := c.w
	for i := range w.count(w.faults.Families) {
		id := fmt.Sprintf("f%d", i)
		input := map[string]any{"n": i, "extra": c.dice.IntN(2) == 0, "id": fmt.Sprintf("k%d", c.dice.IntN(3))}
		if c.dice.IntN(2) == 0 {
			input["id"] = fmt.Sprintf("t%d", c.dice.IntN(w.opt.Tasks)) // it may be taken
		}
		body := map[string]any{"id": id, "workflow": parents[c.dice.IntN(len(parents))], "input": input}
		if w.faults.FanOuts > 0 && c.dice.IntN(4) == 0 {
			body["workflow"] = "kin-of-each"
		}
		if c.hand.IntN(6) == 0 {
			body["workflow"] = "kin-of-two"
		}
		if c.dice.IntN(8) == 0 {
			body["deadline"] = fmt.Sprintf("%dms", 500+c.dice.IntN(6000))
		}
		if w.faults.Panic > 0 && c.dice.IntN(8) == 0 {
			w.clients.toxic[fmt.Sprintf("%s/p", id)] = []toxin{toxicPlan, toxicStart, toxicPolicy}[c.dice.IntN(3)]
		}
		c.bodies = append(c.bodies, body)
		at := c.dice.IntN(int(w.opt.Chaos.Milliseconds()))
		for again := true; again; again = w.chance(w.faults.Duplicate) {
			w.after(at, func() { w.clients.submit(body, false) })
			at += c.dice.IntN(15_000)
		}
		for range c.dice.IntN(6) {
			w.after(at+c.dice.IntN(9000), c.operate)
		}
		if c.dice.IntN(3) == 0 || body["workflow"] == "kin-of-two" {
			c.persists(id, at)
		}
	}
}

// persists makes an operator retry a parent whenever it is parked, and cancel it at last. So a step has several tries, and some of them an effect.
func (c *families) persists(id string, at int) {
	w := c.w
	for range 2 + c.dice.IntN(3) {
		at += 500 + c.dice.IntN(2500)
		w.after(at, func() {
			if t := find(statesOf(w), id); t != nil && t.State == events.TaskStateError && !w.healed {
				w.clients.request(events.Request{Kind: events.RequestRetry, Task: id})
			}
		})
	}
	at += 1500 + c.dice.IntN(2500)
	w.after(at, func() {
		if !w.healed {
			w.clients.request(events.Request{Kind: events.RequestCancel, Task: id})
		}
	})
	if c.hand.IntN(2) == 0 {
		c.insists(id, at)
	}
}

// insists makes an operator decide about each failed undo of a parent. from is when the parent is cancelled.
func (c *families) insists(id string, from int) {
	w := c.w
	verb := []events.Verb{events.RequestSkip, events.RequestComplete}[c.hand.IntN(2)]
	for range 8 {
		from += 300 + c.hand.IntN(900)
		w.after(from, func() {
			t := find(statesOf(w), id)
			if t == nil || w.healed || t.State != events.TaskStateError {
				return
			}
			for _, s := range t.Steps {
				if s.Undo != nil && s.Undo.State == events.StepStateFailed {
					w.clients.request(events.Request{Kind: verb, Task: id, Step: s.Path})
				}
			}
		})
	}
}

// operate makes an operator do something with a parent or a child: many of these requests are refused.
func (c *families) operate() {
	w := c.w
	if w.healed {
		return
	}
	var list []*events.Task
	for _, p := range w.parts {
		p.state.Loaded(func(t *events.Task) bool {
			if ofFamily(t) {
				list = append(list, t)
			}
			return true
		})
	}
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(a, b *events.Task) int { return strings.Compare(a.ID, b.ID) })
	t := list[c.dice.IntN(len(list))]
	verbs := []events.Verb{events.RequestCancel, events.RequestPause, events.RequestTerminate, events.RequestRerun, events.RequestSkip, events.RequestFail, events.RequestSignal, events.RequestSignal}
	if t.State == events.TaskStateError {
		verbs = []events.Verb{events.RequestRetry, events.RequestRetry, events.RequestRetry, events.RequestRerun, events.RequestSkip, events.RequestComplete, events.RequestTerminate, events.RequestCancel}
	}
	q := events.Request{Kind: verbs[c.dice.IntN(len(verbs))], Task: t.ID}
	switch q.Kind {
	case events.RequestSignal:
		q.Signal, q.Payload = "go", json.RawMessage(`{"n":1}`)
	case events.RequestPause:
		w.after(c.dice.IntN(8000), func() { w.clients.request(events.Request{Kind: events.RequestResume, Task: q.Task}) })
	case events.RequestSkip, events.RequestComplete, events.RequestFail:
		if q.Step = c.stepOf(t); q.Step == "" {
			return
		}
		if q.Kind == events.RequestFail {
			q.Error = &events.Error{Class: events.ClassPermanent, Message: "by hand"}
		}
	}
	w.clients.request(q)
}

// stepOf draws a step, rather one that waits for an operator.
func (c *families) stepOf(t *events.Task) string {
	for _, s := range t.Steps {
		if s.State == events.StepStateFailed || s.Undo != nil && s.Undo.State == events.StepStateFailed {
			return s.Path
		}
	}
	if len(t.Steps) == 0 {
		return ""
	}
	return t.Steps[c.dice.IntN(len(t.Steps))].Path
}

// ofFamily says whether the task is a child, or has children.
func ofFamily(t *events.Task) bool {
	return t.Parent != nil || slices.ContainsFunc(t.Steps, func(s *events.Step) bool { return s.ByChild != nil })
}
