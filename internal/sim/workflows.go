package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// The workflows of the simulation.
var sources = []string{`
workflow: one
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: park}}
steps:
  only: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
output: "${ steps.only.output }"
`, `
workflow: dag
deadline: 60s
labels: {n: "${ input.n }", tier: standard}
fair_by: "${ input.extra }"
input: {type: object, required: [n], properties: {n: {type: integer}, extra: {type: boolean}}}
defaults: {complete_within: 2s, retry: {attempts: 3, backoff: 200ms, factor: 2, max_backoff: 1s, then: undo}}
steps:
  a: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  b: {needs: [a], agent: beta, operation: hold, with: {n: "${ input.n }"}, undo: {with: {id: "${ task.id }"}, retry: {attempts: 3, backoff: 200ms, max_backoff: 1s}}}
  c: {needs: [a], agent: gamma, if: "${ input.extra == true }", undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  d: {needs: [b, c], agent: beta, operation: take, pivot: true, with: {of: "${ steps.b.output.v }"}}
  e: {needs: [d], agent: alpha}
output: {n: "${ input.n }"}
`, `
workflow: wide
fair_by: "${ input.n }"
defaults: {complete_within: 1s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  x: {agent: alpha, limit: gate, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  y: {agent: alpha, fail_if: "${ output.v == 2 }", fail_reason: "v is ${ output.v }", undo: {agent: gamma, retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}, cool_down: {wait: 1s, times: 1}}
  nap: {sleep: {until: "${ input.extra == true ? '700ms' : '2027-01-15T08:00:00Z' }"}}
  z: {needs: [nap], agent: beta, operation: hold, limit: gate, undo: {with: {v: "${ step.output.v + 1 }"}, retry: {attempts: 3, backoff: 100ms}}}
  end: {needs: [x, y, z], agent: gamma, with: {x: "${ steps.x.output.v }"}}
output: {x: "${ steps.x.output }", y: "${ steps.y.output }"}
`, `
workflow: one
defaults: {complete_within: 3s, retry: {attempts: 3, backoff: 50ms, then: undo}}
steps:
  only: {agent: beta, retry: {within: 10s}, remind_after: 1500ms, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
output: "${ steps.only.output }"
`, `
workflow: late
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: park}}
steps:
  p: {agent: gamma, complete_within: 25s, heartbeat: 5s, undo: {complete_within: 2s, with: {at: "${ step.progress?.n ?? 0 }"}, retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  q: {needs: [p], agent: alpha, if: "${ input.n > 2 }", retry: {then: undo}, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  r: {agent: beta, start_within: 3s, retry: {attempts: 4, backoff: 500ms, within: 2s}, on_timeout: continue, undo: {}}
  s: {needs: [r, nap], agent: beta, operation: take, start_within: 4s, undo: {retry: {within: 2s}}}
  nap: {needs: [p], if: "${ input.extra == true }", sleep: 1500ms}
`, `
workflow: firm
remember_for: 2s
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  k: {agent: alpha, pivot: true}
  l: {agent: beta, operation: take, retry: {attempts: 1}, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  m: {needs: [k], agent: gamma, limit: gate, retry: {attempts: 1}, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
`, `
workflow: ask
remind_after: 5s
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  a: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  w: {needs: [a], wait: {signal: [go, stop], schema: {type: object}}, complete_within: 4s, remind_after: 2s, fail_if: "${ output.signal == 'stop' }"}
  v: {needs: [a], wait: {signal: go, schema: {type: object}}, complete_within: 3s, on_timeout: continue}
  b: {needs: [w, v], agent: beta}
`, `
workflow: lone
concurrency: {key: "${ input?.key }", max: 1}
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  a: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  b: {needs: [a], sleep: 500ms}
`, `
workflow: few
remember_for: 30s
concurrency: {key: "${ input.extra == true }", max: 2, parked: release}
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: park}}
steps:
  a: {agent: gamma, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  b: {agent: beta}
`, `
workflow: many
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  a: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  s:
    for: {each: "${ input.extra == true ? [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] : [1, {'x': 2}, 3] }", as: x, parallel: 3, tolerate: 2, collect: failures}
    needs: [a]
    agent: gamma
    with: {x: "${ input.extra == true ? x : x + 1 }", at: "${ index }"}
    fail_if: "${ output.v == 2 }"
    remind_after: 1s
    undo: {with: {x: "${ x }"}, retry: {attempts: 2, backoff: 200ms}}
  p: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}}
  z: {needs: [s], agent: beta, operation: hold, with: {failed: "${ steps.s.output }", n: "${ steps.s.counts?.completed }"}, undo: {retry: {attempts: 3, backoff: 200ms, max_backoff: 1s}}}
  end: {needs: [z, p], agent: gamma}
output: "${ steps.s.counts }"
`, `
workflow: gated
defaults: {complete_within: 2s, retry: {attempts: 2, backoff: 100ms, then: park}}
steps:
  s:
    for: {each: "${ input.n == 3 ? 'three' : [1, 2, 3, 4] }", parallel: 2, collect: outputs}
    agent: alpha
    limit: gate
    with: "${ item }"
    undo: {agent: gamma, retry: {attempts: 4, backoff: 200ms, max_backoff: 1s}}
  z: {needs: [s], agent: alpha, with: "${ steps.s.output }"}
`}

// applications are the workflows in the order in which they are applied, as indexes into sources: the first at the
// start, the others while the world runs. The last one makes an older version current again.
var applications = append(append(familiesOf(sources), 9, 10), 0, 1, 2, 5, 6, 7, 8, 3, 4, 0)

var appliedAtStart = len(familySources) + 9

// familiesOf returns the indexes of the workflows of families, which follow on the others.
func familiesOf(others []string) (list []int) {
	for i := range familySources {
		list = append(list, len(others)+i)
	}
	return list
}

// Workflow is a compiled workflow.
type Workflow struct {
	Version    supervisor.Version
	Definition *scheduler.Definition
}

// Compile compiles workflows, and makes them known to Process. Several with one name are its versions, from 1.
func Compile(sources []string) []Workflow {
	var list []Workflow
	count := map[string]int{}
	for i, text := range sources {
		src, faults := scheduler.Parse("sim.yaml", []byte(text), nil)
		if src == nil {
			panic(fmt.Sprint("sim: ", faults))
		}
		d, err := scheduler.Complete(src.Body)
		if err != nil {
			panic(err)
		}
		body, err := events.Marshal(d)
		if err != nil {
			panic(err)
		}
		if err := programs.Prepare(src.Hash, body); err != nil {
			panic(err)
		}
		count[src.Workflow]++
		v := supervisor.Version{Workflow: src.Workflow, Version: count[src.Workflow], Hash: src.Hash, Body: json.RawMessage(body), Offset: int64(i + 1)}
		list = append(list, Workflow{v, d})
	}
	return list
}

// compiled is shared by all runs: compiling costs more than a run.
var compiled = sync.OnceValue(func() []Workflow { return Compile(slices.Concat(sources, familySources)) })

// programs knows every workflow. Since all runs share it, it plans nothing itself: planning does.
var programs = scheduler.New()

// planning returns a scheduler that knows every workflow. Nobody else uses it.
func planning() *scheduler.Scheduler {
	s := *programs
	return &s
}

// definitionOf returns the definition with the given hash.
func definitionOf(hash string) *scheduler.Definition {
	for _, w := range compiled() {
		if w.Version.Hash == hash {
			return w.Definition
		}
	}
	return nil
}

// Catalog is a definitions topic: the versions in the order in which they were applied.
type Catalog []supervisor.Version

// catalog is the definitions topic after the first n applications.
func catalog(n int) Catalog { return applied()[:n] }

var applied = sync.OnceValue(func() (all Catalog) {
	for i, source := range applications {
		v := compiled()[source].Version
		v.Offset = int64(i + 1)
		all = append(all, v)
	}
	return all
})

// find returns the last application that fits.
func (c Catalog) find(fits func(v *supervisor.Version) bool) (supervisor.Version, bool) {
	for _, v := range slices.Backward(c) {
		if fits(&v) {
			return v, !v.Deleted
		}
	}
	return supervisor.Version{}, false
}

// Level implements supervisor.Catalog: no definition is applied above the level.
func (c Catalog) Level() (level int) {
	for i := range c {
		level = max(level, c[i].Level)
	}
	return level
}

// Settings implements supervisor.Catalog: no record sets any.
func (c Catalog) Settings() (events.Settings, int64) { return events.DefaultSettings(), 0 }

// Current implements supervisor.Catalog.
func (c Catalog) Current(name string) (supervisor.Version, bool) {
	return c.find(func(v *supervisor.Version) bool { return v.Workflow == name })
}

// Version implements supervisor.Catalog.
func (c Catalog) Version(name string, n int) (supervisor.Version, bool) {
	return c.find(func(v *supervisor.Version) bool { return v.Workflow == name && v.Version == n })
}

// ByHash implements supervisor.Catalog.
func (c Catalog) ByHash(name, hash string) (supervisor.Version, bool) {
	return c.find(func(v *supervisor.Version) bool { return v.Workflow == name && v.Hash == hash })
}

// Process is the scheduler of one process: the real one, which knows no workflow until it is prepared.
type Process struct {
	known                map[string]bool
	prepared, unprepared *scheduler.Scheduler
}

// NewProcess returns the scheduler of a process that has just started.
func NewProcess() Process { return Process{map[string]bool{}, planning(), scheduler.New()} }

func (p *Process) by(hash string) *scheduler.Scheduler {
	if p.known[hash] {
		return p.prepared
	}
	return p.unprepared
}

// Prepare implements supervisor.Scheduler.
func (p *Process) Prepare(hash string, body []byte) error {
	if p.known[hash] {
		return nil
	}
	if err := programs.Prepare(hash, body); err != nil {
		return err
	}
	p.known[hash] = true
	return nil
}

// Prepared implements supervisor.Scheduler.
func (p *Process) Prepared(hash string) bool { return p.known[hash] }

// Accept implements supervisor.Scheduler.
func (p *Process) Accept(hash string, sub *events.Submission, version int) (events.Acceptance, string) {
	return p.by(hash).Accept(hash, sub, version)
}

// Deadline implements supervisor.Scheduler.
func (p *Process) Deadline(hash string) events.Duration { return p.by(hash).Deadline(hash) }

// Plan implements supervisor.Scheduler.
func (p *Process) Plan(t *events.Task) (events.Plan, error) { return p.by(t.Definition).Plan(t) }

// Offers implements supervisor.Scheduler.
func (p *Process) Offers(t *events.Task, path string, op events.Operation) (events.Instant, bool, error) {
	return p.by(t.Definition).Offers(t, path, op)
}

// Start implements supervisor.Scheduler.
func (p *Process) Start(t *events.Task, path string, op events.Operation) (events.Start, error) {
	return p.by(t.Definition).Start(t, path, op)
}

// Check implements supervisor.Scheduler.
func (p *Process) Check(t *events.Task, path string, output json.RawMessage) (*events.Error, int, error) {
	return p.by(t.Definition).Check(t, path, output)
}

// Limit implements supervisor.Scheduler.
func (p *Process) Limit(t *events.Task, path string) string { return p.by(t.Definition).Limit(t, path) }

// Defined implements supervisor.Scheduler.
func (p *Process) Defined(t *events.Task, path string) events.StepTraits {
	return p.by(t.Definition).Defined(t, path)
}

// Redone implements supervisor.Scheduler.
func (p *Process) Redone(t *events.Task, path string) []string {
	return p.by(t.Definition).Redone(t, path)
}

// Reset implements supervisor.Scheduler.
func (p *Process) Reset() {
	p.prepared.Reset()
	p.unprepared.Reset()
}

// Policy implements supervisor.Scheduler.
func (p *Process) Policy(t *events.Task, path string, op events.Operation) events.Policy {
	return p.by(t.Definition).Policy(t, path, op)
}

// CheckSignal implements supervisor.Scheduler.
func (p *Process) CheckSignal(t *events.Task, signal string, payload []byte) (string, error) {
	return p.by(t.Definition).CheckSignal(t, signal, payload)
}

// Admit implements supervisor.Scheduler.
func (p *Process) Admit(ready []events.Ready, room map[string]int, now events.Instant) []events.Ready {
	return programs.Admit(ready, room, now)
}

// trapped is a Process that panics for some tasks.
type trapped struct {
	Process
	w *World
	// ended says that judging an input has ended the process.
	ended bool
}

// trap panics for the tasks that are poison at the given place.
func (p *trapped) trap(way toxin, t *events.Task) {
	if p.w.clients.toxic[t.ID] == way && (way != toxicPlan || len(t.Steps) > 0) {
		p.w.saw(sawPanicTask)
		panic("the " + string(way) + " of a task")
	}
}

// Accept implements supervisor.Scheduler.
func (p *trapped) Accept(hash string, sub *events.Submission, version int) (events.Acceptance, string) {
	if _, id, lethal := strings.Cut(string(sub.Input), lethalInput); lethal {
		id, _, _ = strings.Cut(id, `"`)
		p.w.clients.deaths[id]++
		p.ended = true
	}
	if strings.Contains(string(sub.Input), toxicInput) {
		p.w.saw(sawPanicInput)
		panic("the input of a task")
	}
	return p.Process.Accept(hash, sub, version)
}

// Plan implements supervisor.Scheduler.
func (p *trapped) Plan(t *events.Task) (events.Plan, error) {
	p.trap(toxicPlan, t)
	return p.Process.Plan(t)
}

// Offers implements supervisor.Scheduler.
func (p *trapped) Offers(t *events.Task, path string, op events.Operation) (events.Instant, bool, error) {
	p.trap(toxicPlan, t)
	return p.Process.Offers(t, path, op)
}

// Start implements supervisor.Scheduler.
func (p *trapped) Start(t *events.Task, path string, op events.Operation) (events.Start, error) {
	p.trap(toxicStart, t)
	return p.Process.Start(t, path, op)
}

// Policy implements supervisor.Scheduler.
func (p *trapped) Policy(t *events.Task, path string, op events.Operation) events.Policy {
	p.trap(toxicPolicy, t)
	return p.Process.Policy(t, path, op)
}

// toxin is the place where deciding about a task panics.
type toxin string

const (
	toxicPlan   toxin = "plan"
	toxicStart  toxin = "start"
	toxicPolicy toxin = "policy"
	// toxicInput marks an input whose check panics.
	toxicInput = "toxic-input"
	// lethalInput, followed by the ID of the task, marks an input that ends the process.
	lethalInput = "lethal-input:"
)
