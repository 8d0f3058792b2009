package sim

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// The workflows of the simulation, in the order in which they are applied; the last ones are applied while it runs.
var sources = []string{`
workflow: one
defaults: {complete_by: 2s, retry: {attempts: 2, backoff: 100ms, then: park}}
steps:
  only: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max: 1s}}}
output: "${ steps.only.output }"
`, `
workflow: dag
deadline: 60s
input: {type: object, required: [n], properties: {n: {type: integer}, extra: {type: boolean}}}
defaults: {complete_by: 2s, retry: {attempts: 3, backoff: 200ms, factor: 2, max: 1s, then: undo}}
steps:
  a: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max: 1s}}}
  b: {needs: [a], agent: beta, with: {n: "${ input.n }"}, undo: {with: {id: "${ task.id }"}, retry: {attempts: 3, backoff: 200ms, max: 1s}}}
  c: {needs: [a], agent: gamma, if: "${ input.extra == true }", undo: {retry: {attempts: 4, backoff: 200ms, max: 1s}}}
  d: {needs: [b, c], agent: beta, pivot: true, with: {of: "${ steps.b.output.v }"}}
  e: {needs: [d], agent: alpha}
output: {n: "${ input.n }"}
`, `
workflow: wide
defaults: {complete_by: 1s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  x: {agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max: 1s}}}
  y: {agent: alpha, undo: {agent: gamma, retry: {attempts: 4, backoff: 200ms, max: 1s}}, cool_down: {wait: 3s, times: 1}}
  z: {agent: beta, undo: {retry: {attempts: 3, backoff: 100ms}}}
  end: {needs: [x, y, z], agent: gamma, with: {x: "${ steps.x.output.v }"}}
`, `
workflow: one
defaults: {complete_by: 3s, retry: {attempts: 3, backoff: 50ms, then: undo}}
steps:
  only: {agent: beta, undo: {retry: {attempts: 4, backoff: 200ms, max: 1s}}}
output: "${ steps.only.output }"
`, `
workflow: late
defaults: {complete_by: 2s, retry: {attempts: 2, backoff: 100ms, then: undo}}
steps:
  p: {agent: gamma, undo: {retry: {attempts: 4, backoff: 200ms, max: 1s}}}
  q: {needs: [p], agent: alpha, undo: {retry: {attempts: 4, backoff: 200ms, max: 1s}}}
`}

// applied is how many of the sources are applied at the start.
const appliedAtStart = 3

type workflow struct {
	version    supervisor.Version
	definition *scheduler.Definition
}

// compiled is shared by all runs: compiling costs more than a run.
var compiled = sync.OnceValue(func() []workflow {
	var list []workflow
	count := map[string]int{}
	for _, text := range sources {
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
		count[src.Workflow]++
		list = append(list, workflow{
			version: supervisor.Version{
				Workflow: src.Workflow, Version: count[src.Workflow], Hash: src.Hash, Body: json.RawMessage(body), Offset: int64(len(list) + 1),
			}, definition: d})
		if err := programs.Prepare(src.Hash, body); err != nil {
			panic(err)
		}
	}
	return list
})

var programs, unprepared = scheduler.New(), scheduler.New()

// definitionOf returns the definition of that hash.
func definitionOf(hash string) *scheduler.Definition {
	for _, w := range compiled() {
		if w.version.Hash == hash {
			return w.definition
		}
	}
	return nil
}

// catalog is a prefix of the definitions topic.
type catalog []workflow

// Current implements supervisor.Catalog.
func (c catalog) Current(name string) (v supervisor.Version, ok bool) {
	for _, w := range c {
		if w.version.Workflow == name {
			v, ok = w.version, true
		}
	}
	return v, ok
}

// Version implements supervisor.Catalog.
func (c catalog) Version(name string, n int) (supervisor.Version, bool) {
	for _, w := range c {
		if w.version.Workflow == name && w.version.Version == n {
			return w.version, true
		}
	}
	return supervisor.Version{}, false
}

// ByHash implements supervisor.Catalog.
func (c catalog) ByHash(name, hash string) (supervisor.Version, bool) {
	for _, w := range c {
		if w.version.Workflow == name && w.version.Hash == hash {
			return w.version, true
		}
	}
	return supervisor.Version{}, false
}

// processScheduler is the scheduler of one process: the real one, which knows nothing until it is prepared.
type processScheduler struct{ known map[string]bool }

func newProcessScheduler() *processScheduler { return &processScheduler{known: map[string]bool{}} }

func (p *processScheduler) by(hash string) *scheduler.Scheduler {
	if p.known[hash] {
		return programs
	}
	return unprepared
}

// Prepare implements supervisor.Scheduler.
func (p *processScheduler) Prepare(hash string, body []byte) error {
	if err := programs.Prepare(hash, body); err != nil {
		return err
	}
	p.known[hash] = true
	return nil
}

// CheckInput implements supervisor.Scheduler.
func (p *processScheduler) CheckInput(hash string, input []byte) string {
	return p.by(hash).CheckInput(hash, input)
}

// Deadline implements supervisor.Scheduler.
func (p *processScheduler) Deadline(hash string) events.Duration { return p.by(hash).Deadline(hash) }

// Plan implements supervisor.Scheduler.
func (p *processScheduler) Plan(t *events.Task) (events.Plan, error) {
	return p.by(t.Definition).Plan(t)
}

// Start implements supervisor.Scheduler.
func (p *processScheduler) Start(t *events.Task, path string, op events.Operation) (events.Start, error) {
	return p.by(t.Definition).Start(t, path, op)
}

// Policy implements supervisor.Scheduler.
func (p *processScheduler) Policy(t *events.Task, path string, op events.Operation) events.Policy {
	return p.by(t.Definition).Policy(t, path, op)
}

// Admit implements supervisor.Scheduler.
func (p *processScheduler) Admit(ready []events.Ready, room map[string]int, now events.Instant) []events.Ready {
	return programs.Admit(ready, room, now)
}
