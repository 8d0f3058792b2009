package model

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// The workflows of the model, as small as a rule needs them. A backoff of 1ms is none. Every other time in them is below Step, so that one passing of
// the clock is enough for what waits.
var sources = []string{`
workflow: one
defaults: {complete_by: 5s, retry: {attempts: 2, backoff: 1ms, then: park}}
steps:
  s: {agent: x}
`, `
workflow: saga
defaults: {complete_by: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {agent: x, undo: {retry: {attempts: 2, backoff: 1ms}}}
  t: {agent: y, needs: [s]}
`, `
workflow: wait
defaults: {complete_by: 5s, retry: {attempts: 2, backoff: 2s, then: park}}
steps:
  s: {agent: x}
`, `
workflow: none
input: {type: object, properties: {go: {type: boolean}}}
steps:
  s: {agent: x, if: "${ input.go == true }"}
`}

type workflow struct {
	version    supervisor.Version
	definition *scheduler.Definition
}

// compiled is shared by all worlds: compiling costs more than a search of a small one.
var compiled = sync.OnceValue(func() map[string]workflow {
	all := map[string]workflow{}
	for i, text := range sources {
		src, faults := scheduler.Parse("model.yaml", []byte(text), nil)
		if src == nil {
			panic(fmt.Sprint("model: ", faults))
		}
		d, err := scheduler.Complete(src.Body)
		if err != nil {
			panic(err)
		}
		body, err := events.Marshal(d)
		if err != nil {
			panic(err)
		}
		v := supervisor.Version{Workflow: src.Workflow, Version: 1, Hash: src.Hash, Body: json.RawMessage(body), Offset: int64(i + 1)}
		all[src.Workflow] = workflow{v, d}
		if err := programs.Prepare(v.Hash, v.Body); err != nil {
			panic(err)
		}
	}
	return all
})

// programs knows every workflow, and unprepared none.
var programs, unprepared = scheduler.New(), scheduler.New()

// definitions is the topic of that name: all workflows, applied before the world begins.
type definitions struct{}

// Current implements supervisor.Catalog.
func (definitions) Current(name string) (supervisor.Version, bool) {
	w, ok := compiled()[name]
	return w.version, ok
}

// Version implements supervisor.Catalog.
func (definitions) Version(name string, n int) (supervisor.Version, bool) {
	w, ok := compiled()[name]
	return w.version, ok && n == 1
}

// ByHash implements supervisor.Catalog.
func (definitions) ByHash(name, hash string) (supervisor.Version, bool) {
	w, ok := compiled()[name]
	return w.version, ok && w.version.Hash == hash
}

// process is the scheduler of one process: the real one, which knows nothing until it is prepared.
type process struct{ known map[string]bool }

func (p *process) by(hash string) *scheduler.Scheduler {
	if p.known[hash] {
		return programs
	}
	return unprepared
}

// Prepare implements supervisor.Scheduler.
func (p *process) Prepare(hash string, body []byte) error {
	if err := programs.Prepare(hash, body); err != nil {
		return err
	}
	p.known[hash] = true
	return nil
}

// CheckInput implements supervisor.Scheduler.
func (p *process) CheckInput(hash string, input []byte) string {
	return p.by(hash).CheckInput(hash, input)
}

// Deadline implements supervisor.Scheduler.
func (p *process) Deadline(hash string) events.Duration { return p.by(hash).Deadline(hash) }

// Plan implements supervisor.Scheduler.
func (p *process) Plan(t *events.Task) (events.Plan, error) { return p.by(t.Definition).Plan(t) }

// Start implements supervisor.Scheduler.
func (p *process) Start(t *events.Task, path string, op events.Operation) (events.Start, error) {
	return p.by(t.Definition).Start(t, path, op)
}

// Policy implements supervisor.Scheduler. A retry without a wait needs no passing of the clock.
func (p *process) Policy(t *events.Task, path string, op events.Operation) events.Policy {
	policy := p.by(t.Definition).Policy(t, path, op)
	if policy.Backoff == events.Duration(time.Millisecond) {
		policy.Backoff = 0
	}
	return policy
}

// Admit implements supervisor.Scheduler.
func (p *process) Admit(ready []events.Ready, room map[string]int, now events.Instant) []events.Ready {
	return programs.Admit(ready, room, now)
}
