package scheduler

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// Definition is one version of a workflow with every $ref inlined and every default filled, as DefinitionAdopted carries it. A
// partition never fills defaults itself, so a later Sagalog with other defaults changes no task that is under way.
type Definition struct {
	Workflow string `json:"workflow"`
	// Title and Description say to people what the workflow does.
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Input is the JSON Schema of a task's input. If absent, any JSON value is valid.
	Input json.RawMessage `json:"input,omitempty"`
	// Deadline counts from a task's acceptance. Zero means no deadline.
	Deadline events.Duration `json:"deadline,omitzero"`
	// RemindAfter is the soft limit of a task: an operator is alerted, once, if it has not ended that long after it may start. Zero means
	// that there is no limit.
	RemindAfter events.Duration `json:"remind_after,omitzero"`
	// RememberFor is how long a task, and with it its ID, is remembered after its end. Zero means: as long as the setting remember_for says.
	RememberFor events.Duration `json:"remember_for,omitzero"`
	// Labels holds the template of each label that a task gets, and Priority that of its priority. What the submission says itself wins.
	Labels   map[string]json.RawMessage `json:"labels,omitempty"`
	Priority json.RawMessage            `json:"priority,omitempty"`
	// FairBy is the template of the key by which the queues of agents take turns; nil without one.
	FairBy json.RawMessage `json:"fair_by,omitempty"`
	// Concurrency is nil if any number of tasks may run at a time.
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	// Steps are in topological order, and sorted by ID if that leaves a choice: a canonical body has no
	// order.
	Steps []Step `json:"steps"`
	// Output is the template of a task's output. If absent, the output is null.
	Output json.RawMessage `json:"output,omitempty"`
}

// Step is one step of a workflow: a vertex of its DAG.
type Step struct {
	ID          string `json:"id"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Agent does the step. Absent if a task does, or nobody: Child, Sleep or Wait is set then.
	Agent string `json:"agent,omitempty"`
	// Operation is the agent's operation that does the step, if it has a name: events.Call.Function.
	Operation string   `json:"operation,omitempty"`
	Needs     []string `json:"needs,omitempty"`
	// If is an expression that gives true or false. If absent, the step always runs.
	If string `json:"if,omitempty"`
	// Sleep is the duration of a step that sleeps, or an object with the template of its end, until.
	Sleep json.RawMessage `json:"sleep,omitempty"`
	// Child is an object with the workflow of the task that does the step, and what its submission says.
	Child json.RawMessage `json:"child,omitempty"`
	// For is set if the step has an item for each entry of a list, each of which is done as the step says.
	For *For `json:"for,omitempty"`
	// Wait is an object with signal, a name or a list of names, and the JSON Schema of the payload.
	Wait json.RawMessage `json:"wait,omitempty"`
	// With is the template of the step's input. If absent, the step gets the task's input.
	With json.RawMessage `json:"with,omitempty"`
	// FailIf is an expression, over the output too. If it gives true, a step that completed has failed. FailReason is the template of
	// the text that says why.
	FailIf         string          `json:"fail_if,omitempty"`
	FailReason     string          `json:"fail_reason,omitempty"`
	CompleteWithin events.Duration `json:"complete_within,omitzero"`
	// Limit is the limit of which each attempt to do or undo the step needs a permit.
	Limit string `json:"limit,omitempty"`
	// Heartbeat is how long an attempt may be silent; zero if it may be silent until the end. CompleteWithin is the most that an attempt
	// takes, whatever progress it shows.
	Heartbeat events.Duration `json:"heartbeat,omitzero"`
	Retry     Retry           `json:"retry"`
	// StartWithin is how long the step may be ready to start before its first attempt starts. Zero means that there is no limit.
	StartWithin events.Duration `json:"start_within,omitzero"`
	// OnTimeout says what happens when the time of the step is over (StartWithin, Retry.Within): OnTimeoutContinue, ThenUndo or ThenPark. If
	// absent, Retry.Then says it.
	OnTimeout string `json:"on_timeout,omitempty"`
	// RemindAfter is the soft limit of the step: an operator is alerted, once, if it runs or waits that long after its first attempt, or its
	// wait, began. Zero means that there is no limit.
	RemindAfter events.Duration `json:"remind_after,omitzero"`
	CoolDown    *CoolDown       `json:"cool_down,omitempty"`
	// Undo is nil if the step has nothing to undo.
	Undo *Undo `json:"undo,omitempty"`
	// Pivot marks the point of no return. A failure before it undoes the task; after it the task only goes forward.
	Pivot bool `json:"pivot,omitempty"`
}

// For says which items a step has.
type For struct {
	// Each is the template of the list.
	Each json.RawMessage `json:"each"`
	// As is the name of the entry in the expressions of the item.
	As string `json:"as"`
	// Parallel is how many items may be open at a time.
	Parallel int `json:"parallel"`
	// Tolerate is how many items may fail: a number, or a percentage of them such as 1%. Empty for none.
	Tolerate string `json:"tolerate,omitempty"`
	// Collect is events.CollectOutputs, CollectFailures or CollectNone. It is empty for the outputs of at most maxCollected items.
	Collect string `json:"collect,omitempty"`
}

// String says which items a step has, in one line for people.
func (f *For) String() string {
	var text string
	var list []json.RawMessage
	switch {
	case json.Unmarshal(f.Each, &list) == nil:
		text = fmt.Sprintf("for each of %d entries", len(list))
	case json.Unmarshal(f.Each, &text) == nil:
		text = "for each of " + strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(text, "${"), "}"))
	}
	text += fmt.Sprintf(", %d at a time", f.Parallel)
	if f.Tolerate != "" {
		text += ", up to " + f.Tolerate + " may fail"
	}
	return text
}

// Retry is the policy of failures. The n-th retry waits Backoff times Factor^(n-1), at most MaxBackoff, and all of that spread by up to a quarter
// either way: the wait may exceed MaxBackoff by a quarter. The spread is a function of task, step and retry (supervisor.Backoff).
type Retry struct {
	// Attempts includes the first one.
	Attempts   int             `json:"attempts"`
	Backoff    events.Duration `json:"backoff,omitzero"`
	Factor     float64         `json:"factor,omitzero"`
	MaxBackoff events.Duration `json:"max_backoff,omitzero"`
	// Within is how long after the first attempt another may start, whatever Attempts and a cool-down say. Zero means that there is no limit.
	Within events.Duration `json:"within,omitzero"`
	// Then says what happens when the attempts are used up.
	Then string `json:"then"`
}

// The values of Retry.Then.
const (
	ThenUndo = "undo"
	ThenPark = "park"
	// OnTimeoutContinue is a value of Step.OnTimeout only: the task goes on without the step, which has no output.
	OnTimeoutContinue = "continue"
)

// CoolDown makes a step wait when its attempts are used up and then start over, at most Times times.
type CoolDown struct {
	Wait  events.Duration `json:"wait"`
	Times int             `json:"times"`
}

// Undo is how a step is undone.
type Undo struct {
	// Agent is the agent of the step, unless the definition names another one. It is absent if the child that did the step undoes itself.
	Agent string `json:"agent,omitempty"`
	// Operation is the agent's operation whose undo is called: the one of the step, unless the definition names another one or another
	// agent.
	Operation string `json:"operation,omitempty"`
	// With is the template of the undo's input. If absent, the undo gets the step's recorded input.
	With           json.RawMessage `json:"with,omitempty"`
	CompleteWithin events.Duration `json:"complete_within,omitzero"`
	// Retry.Then is always park: an undo cannot be undone.
	Retry Retry `json:"retry"`
}
