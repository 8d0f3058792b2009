package model

import "github.com/sagalog/sagalog/supervisor"

// heldTraces are about requests for tasks that do not exist yet.
var heldTraces = []trace{
	{
		name:   "a cancel for an unknown task makes a fact",
		config: Config{Clients: []Client{soon(Cancel, "T1"), soon(Submit, "T1")}},
		script: `
			A claims and owns
			an operator cancels T1
			A reads reports
			=> A decides RequestHeld(T1)[A1/0
			A's append lands: RequestHeld
			a client submits T1
			A reads submissions
			=> A decides Submitted(T1)[A1/1 .. CancelRequested(T1)[A1/2`,
		comes: []string{"TaskUndone(T1)[A1/ .. accepted"},
		never: []string{"StepStarted(T1"},
	},
	{
		name:   "the cancel of an accepted task is planned from the state",
		config: Config{Budgets: budget{Splits: 1, Crashes: 1}, Clients: []Client{soon(Cancel, "T1"), soon(Submit, "T1")}},
		script: `
			A claims and owns
			a client submits T1
			an operator cancels T1
			A reads reports
			=> A decides RequestHeld(T1)[A1/0
			A reads submissions
			=> A decides Submitted(T1)[A1/1
			A's append lands: RequestHeld
			A's append lands in part: Submitted(T1)
			=> at 5: Submitted(T1) .. accepted
			without CancelRequested
			A crashes, keeps its store
			A learns
			A claims and owns
			=> A owns epoch A2`,
		comes: []string{"CancelRequested(T1)[A2/ .. accepted", "TaskUndone(T1)[A2/"},
		never: []string{"StepStarted(T1"},
	},
	{
		name:   "no step of a cancelled task starts",
		config: Config{Clients: []Client{soon(Cancel, "T1"), soon(Submit, "T1")}},
		script: `
			A claims and owns
			a client submits T1
			an operator cancels T1
			A reads reports
			A reads submissions
			=> A decides Submitted(T1)[A1/1
			without StepStarted
			A's append lands: RequestHeld
			A's append lands: Submitted
			=> CancelRequested(T1) .. accepted
			A has the ack of its append: RequestHeld
			without StepStarted`,
		comes: []string{"A is about to send the alert undone of T1"},
		never: []string{"StepStarted(T1"},
	},
	{
		name:   "a held cancel is not in memory only",
		config: Config{Budgets: budget{Crashes: 1}, Clients: []Client{soon(Cancel, "T1"), soon(Submit, "T1")}},
		script: `
			A claims and owns
			an operator cancels T1
			A reads reports
			=> A decides RequestHeld(T1)[A1/0
			without InputsPassed
			A's append lands
			=> at 4: RequestHeld(T1)[A1/0 .. accepted
			A crashes, keeps its store
			A learns
			A claims and owns
			=> A owns epoch A2
			a client submits T1
			A reads submissions`,
		comes: []string{"CancelRequested(T1)[A2/ .. accepted"},
		never: []string{"StepStarted(T1"},
	},
	{
		name:   "an answer to a question from before the expiry does not count",
		config: Config{Budgets: budget{Passes: 1, Crashes: 1}, Clients: []Client{submits("T5"), soon(Cancel, "T1"), soon(Submit, "T1")}},
		script: `
			A claims and owns
			A reads submissions
			A's append lands: Submitted(T5)
			A's append lands: StepStarted(T5.s attempt 1)
			A has the ack of its append: Submitted(T5)
			A has the ack of its append: StepStarted
			A crashes, keeps its store
			A learns
			A claims and owns
			=> A asks for the end offsets
			the broker answers A's question
			a client submits T1
			an operator cancels T1
			A reads reports
			=> A decides RequestHeld(T1)[A2/
			A's append lands: RequestHeld
			A has the ack of its append: RequestHeld
			the clock passes the next step
			A sees the answer
			=> A is about to send T5.s attempt 1
			without expired`,
		comes: []string{"CancelRequested(T1)[A2/ .. accepted"},
		never: []string{"expired", "StepStarted(T1"},
	},
	{
		name:   "an expiry waits for the submissions from before it",
		config: Config{Budgets: budget{Passes: 1}, Clients: []Client{soon(Cancel, "T1"), soon(Submit, "T1")}},
		script: `
			A claims and owns
			a client submits T1
			an operator cancels T1
			A reads reports
			=> A decides RequestHeld(T1)[A1/0
			A's append lands: RequestHeld
			A has the ack of its append
			the clock passes the next step
			A ticks
			=> A asks for the end offsets
			without expired
			the broker answers A's question
			A sees the answer
			without expired
			A reads submissions
			=> A decides Submitted(T1)[A1/1 .. CancelRequested(T1)`,
		never: []string{"expired", "StepStarted(T1"},
	},
}

// sent leaves A owning A1, with attempt 1 of T1 sent.
const sent = `
	A claims and owns
	A reads submissions
	A's append lands: Submitted
	A's append lands: StepStarted
	A has the ack of its append: Submitted
	A has the ack of its append: StepStarted
	A sends and has the ack: T1.s attempt 1
`

// timerTraces are about timers and reports.
var timerTraces = []trace{
	{
		name: "a timer that is due waits for the reports",
		rule: supervisor.RuleTimers, breaks: "a Timeout beat a report that was durable before the timer fell due",
		config: Config{Budgets: budget{Passes: 1}, Clients: []Client{submits("T1")}},
		script: sent + `
			the agent reports T1.s attempt 1: completed
			the clock passes the next step
			A ticks
			without Timeout
			on: => A asks for the end offsets
			the broker answers A's question
			A sees the answer
			without Timeout
			off: A's append lands: Timeout`,
		comes: []string{"StepCompleted(T1.s attempt 1)[A1/"},
		never: []string{"Timeout("},
	},
	{
		name:   "to have caught up counts in its epoch only, for a timer",
		config: Config{Budgets: budget{Passes: 1, Unknowns: 1}, Clients: []Client{submits("T1")}},
		script: sent + `
			the agent reports T1.s attempt 1: completed
			the clock passes the next step
			A ticks
			=> A asks for the end offsets
			the broker answers A's question
			A reads reports
			=> A decides StepCompleted(T1.s attempt 1)[A1/
			A sees the answer
			without Timeout
			A's append has an unknown outcome
			A claims and owns
			=> A owns epoch A2
			without Timeout
			A reads submissions
			without Timeout`,
		comes: []string{"StepCompleted(T1.s attempt 1)[A2/ .. accepted"},
		never: []string{"Timeout("},
	},
	{
		name:   "a retry waits for no reports",
		config: Config{Budgets: budget{Passes: 1, Failures: 1}, Outcomes: []Outcome{Failed}, Clients: []Client{{Kind: Submit, Task: "T1", Workflow: "wait", AtStart: true}}},
		script: sent + `
			the agent reports T1.s attempt 1: failed
			A reads reports
			A's append lands: StepFailed
			A has the ack of its append: StepFailed
			the clock passes the next step
			A ticks
			without asks for the end offsets
			=> A decides StepStarted(T1.s attempt 2)[A1/`,
		comes: []string{"TaskProcessed(T1) .. accepted"},
	},
	{
		name:   "an undo waits for no reports",
		config: Config{Budgets: budget{Passes: 1, Failures: 1}, Outcomes: []Outcome{FailedInDoubt}, Clients: []Client{{Kind: Submit, Task: "T1", Workflow: "saga", AtStart: true}}},
		script: sent + `
			the agent reports T1.s attempt 1: failed in doubt
			A reads reports
			A's append lands: StepFailed
			A has the ack of its append: StepFailed
			the clock passes the next step
			A ticks
			without asks for the end offsets
			=> A decides CompensationStarted(`,
		comes: []string{"TaskUndone(T1) .. accepted"},
	},
	{
		// A report of progress that extends an attempt is not a fact yet, so a result that ends the attempt stands in
		// for it.
		name:   "a timer must still be due when it may fire",
		config: Config{Budgets: budget{Passes: 1}, Clients: []Client{submits("T1")}},
		script: sent + `
			the clock passes the next step
			A ticks
			=> A asks for the end offsets
			the broker answers A's question
			the agent reports T1.s attempt 1: completed
			A's append lands: InputsPassed
			A has the ack of its append: InputsPassed
			A reads reports
			=> A decides StepCompleted(T1.s attempt 1)[A1/ .. (1 in flight)
			A sees the answer
			without Timeout`,
		comes: []string{"TaskProcessed(T1) .. accepted"},
		never: []string{"Timeout("},
	},
	{
		name:   "an answer to a question from before a timer fell due does not count",
		config: Config{Budgets: budget{Passes: 1, Crashes: 1}, Clients: []Client{submits("T1")}},
		script: sent + `
			A crashes, keeps its store
			A learns
			A claims and owns
			=> A asks for the end offsets
			the broker answers A's question
			the agent reports T1.s attempt 1: completed
			the clock passes the next step
			A sees the answer
			without Timeout`,
		comes: []string{"StepCompleted(T1.s attempt 1)[A2/ .. accepted"},
		never: []string{"Timeout("},
	},
}
