package model

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// The workflows of the model, as small as a rule needs them. A backoff of 1ms counts as none. Every other time in them, except those of
// steps with a heartbeat, is below Step, so that moving the clock once is enough for every wait.
var sources = []string{`
workflow: one
defaults: {complete_within: 5s, retry: {attempts: 2, backoff: 1ms, then: park}}
steps:
  s: {agent: x}
`, `
workflow: saga
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {agent: x, undo: {retry: {attempts: 2, backoff: 1ms}}}
  t: {agent: y, needs: [s]}
`, `
workflow: beats
defaults: {complete_within: 90s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: x, heartbeat: 30s}
`, `
workflow: beats-again
defaults: {complete_within: 90s, retry: {attempts: 2, backoff: 1ms, then: park}}
steps:
  s: {agent: x, heartbeat: 30s}
`, `
workflow: beats-undone
defaults: {complete_within: 90s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {agent: x, heartbeat: 30s, undo: {retry: {attempts: 1, backoff: 1ms}}}
`, `
workflow: wait
defaults: {complete_within: 5s, retry: {attempts: 2, backoff: 2s, then: park}}
steps:
  s: {agent: x}
`, `
workflow: none
input: {type: object, properties: {go: {type: boolean}}}
steps:
  s: {agent: x, if: "${ input.go == true }"}
`, `
workflow: dated
deadline: 10s
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: x}
`, `
workflow: kept
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: x, undo: {}}
  t: {agent: y, needs: [s], retry: {then: undo}}
`, `
workflow: back
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {agent: x, undo: {}}
`, `
workflow: undone-twice
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {agent: x, undo: {retry: {attempts: 2, backoff: 1ms}}}
`, `
workflow: pivot
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: x, pivot: true}
`, `
workflow: limited
defaults: {complete_within: 5s, retry: {attempts: 3, backoff: 2s, within: 3s, then: park}}
steps:
  s: {agent: x, start_within: 10s, on_timeout: continue}
`, `
workflow: nap
steps:
  s: {sleep: 5s}
`, `
workflow: ask
steps:
  s: {wait: {signal: go}, complete_within: 5s, on_timeout: continue}
  t: {wait: {signal: go}, complete_within: 5s, on_timeout: continue}
`, `
workflow: keyed
concurrency: {key: k, max: 1}
input: {type: object, properties: {go: {type: boolean}}}
steps:
  s: {agent: x, if: "${ input.go == true }"}
`, `
workflow: keyed-work
concurrency: {key: k, max: 1, parked: release}
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: x}
`, `
workflow: keyed-doubt
concurrency: {key: k, max: 1}
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {agent: x}
`, `
workflow: banked
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: x, limit: bank}
`, `
workflow: banked-y
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: y, limit: bank}
`, `
workflow: banked-steps
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: x, limit: bank}
  t: {agent: y, needs: [s], limit: bank}
`, `
workflow: banked-agents
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: x, limit: bank}
  t: {agent: y, limit: bank}
`, `
workflow: banked-undo
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {agent: x, limit: bank, undo: {retry: {attempts: 2, backoff: 1ms}}}
`, `
workflow: mother
defaults: {retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {child: {workflow: quick}, undo: {}}
`, `
workflow: mother-back
defaults: {retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {child: {workflow: quick}, undo: {}}
  t: {needs: [s], agent: y, complete_within: 5s}
`, `
workflow: mother-of-work
defaults: {retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {child: {workflow: back}, undo: {}}
`, `
workflow: mother-of-pivot
defaults: {retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {child: {workflow: pivot}, undo: {}}
`, `
workflow: mother-of-nobody
defaults: {retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {child: {workflow: nowhere}, undo: {}}
`, `
workflow: mother-of-two
defaults: {retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {child: {workflow: quick}, fail_if: "${ task.priority == 0 }", undo: {}}
`, `
workflow: mother-of-waiting
defaults: {retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {child: {workflow: waiting}, undo: {}}
`, `
workflow: waiting
steps:
  k: {wait: {signal: go}, complete_within: 100s}
`, `
workflow: quick
steps:
  k: {agent: x, if: "${ task.priority == 9 }"}
`, `
workflow: fan
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {for: {each: [1, 2], parallel: 2}, agent: x, undo: {}}
`, `
workflow: fan-three
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {for: {each: [1, 2, 3], parallel: 2}, agent: x, undo: {retry: {attempts: 2, backoff: 1ms}}}
`, `
workflow: fan-slow
defaults: {complete_within: 5s, retry: {attempts: 2, backoff: 1ms, then: park}}
steps:
  s: {for: {each: [1, 2, 3], parallel: 1}, agent: x}
`, `
workflow: fan-tolerant
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {for: {each: [1, 2], parallel: 2, tolerate: 1, collect: failures}, agent: x, undo: {}}
  t: {needs: [s], agent: y}
`, `
workflow: fan-parked
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {for: {each: [1, 2], parallel: 1}, agent: x, undo: {}}
`, `
workflow: fan-parked-twice
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {for: {each: [1, 2, 3], parallel: 2}, agent: x}
`, `
workflow: fan-banked
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {for: {each: [1, 2], parallel: 2}, agent: x, limit: bank}
`, `
workflow: fan-back
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {for: {each: [1, 2, 3], parallel: 2}, agent: x, undo: {}}
  t: {needs: [s], agent: y}
`, `
workflow: fan-mother
defaults: {retry: {attempts: 1, backoff: 1ms, then: undo}}
steps:
  s: {for: {each: [1, 2], parallel: 2, tolerate: 1}, child: {workflow: quick}, undo: {}}
`, `
workflow: fan-none
steps:
  s: {for: {each: "${ task.priority == 9 ? [1] : [] }"}, agent: x}
`, `
workflow: beside
defaults: {complete_within: 5s, retry: {attempts: 1, backoff: 1ms, then: park}}
steps:
  s: {agent: x}
  t: {agent: y}
`, `
workflow: newer
input: {type: object, properties: {go: {type: boolean}}}
steps:
  s: {agent: x, if: "${ input.go == true }"}
`}

// newerWorkflow is the workflow that needs newerLevel.
const newerWorkflow = "newer"

// definitions is the definitions topic: all workflows, applied before the world begins. All worlds share it: compiling costs
// more than searching a small one.
var definitions = sync.OnceValue(func() (all sim.Catalog) {
	for _, w := range sim.Compile(sources) {
		if w.Version.Workflow == newerWorkflow {
			w.Version.Level = newerLevel
		}
		all = append(all, w.Version)
	}
	return all
})

// definitions returns the definitions topic. If there is only one build, nothing in it needs a level.
func (c *Config) definitions() sim.Catalog {
	all := slices.Clone(definitions())
	for i := range all {
		all[i].Deleted = c.deleted(all[i].Workflow, all[i].Hash)
	}
	if c.Older > 0 {
		return all
	}
	return slices.DeleteFunc(all, func(v supervisor.Version) bool { return v.Level > events.FirstLevel })
}

func (c *Config) deleted(workflow, _ string) bool { return workflow != "" && workflow == c.Deleted }

// process is the scheduler of one process. A retry without a wait does not need the clock to move.
type process struct {
	sim.Process
	// ended says that judging an input has ended the process.
	ended bool
	// marks says that the last mark that this process kept names an input.
	marks bool
}

// lethal is the text in an input that ends the process.
const lethal = "lethal"

// Accept implements supervisor.Scheduler.
func (p *process) Accept(hash string, sub *events.Submission, version int) (events.Acceptance, string) {
	p.ended = p.ended || bytes.Contains(sub.Input, []byte(lethal))
	return p.Process.Accept(hash, sub, version)
}

// Policy implements supervisor.Scheduler.
func (p *process) Policy(t *events.Task, path string, op events.Operation) events.Policy {
	policy := p.Process.Policy(t, path, op)
	if policy.Backoff == events.Duration(time.Millisecond) {
		policy.Backoff = 0
	}
	return policy
}
