package model

// ends is a task that ends as soon as it is accepted: its only step has a condition that is false.
func ends(times int) Client {
	return Client{Kind: Submit, Task: "T1", Workflow: "none", AtStart: true, Times: 1 + times}
}

// oneEnded leaves A owning A1, with T1 ended and nothing in flight.
const oneEnded = `
	A claims and owns
	A reads submissions
	=> A decides Submitted(T1)[A1/0 .. TaskProcessed(T1)[A1/2
	A's append lands: Submitted
	A has the ack of its append: Submitted
	=> A commits up to
`

// sweepTraces are about forgetting tasks and passing inputs.
var sweepTraces = []trace{
	{
		name:   "what was judged a duplicate is passed before the sweep",
		config: Config{Budgets: budget{Passes: 1, Unknowns: 1}, Clients: []Client{ends(1)}},
		script: oneEnded + `
			a client submits T1
			the clock passes the next step
			A ticks
			=> A asks for the end offsets
			the broker answers A's question
			A sees the answer
			without TasksSwept
			A reads submissions
			=> A decides InputsPassed(submissions<2)[A1/ .. TasksSwept(T1)[A1/
			A's append lands: InputsPassed
			=> TasksSwept .. accepted
			A's append has an unknown outcome: InputsPassed
			A claims and owns
			=> A owns epoch A2`,
		never: []string{"Submitted(T1)[A2/"},
	},
	{
		name:   "what was judged a duplicate is passed even if the sweep is lost",
		config: Config{Budgets: budget{Passes: 1, Unknowns: 1, Splits: 1}, Clients: []Client{ends(1)}},
		script: oneEnded + `
			a client submits T1
			the clock passes the next step
			A ticks
			the broker answers A's question
			A sees the answer
			A reads submissions
			=> A decides InputsPassed(submissions<2)[A1/ .. TasksSwept(T1)[A1/
			A's append lands in part: InputsPassed(submissions<2)
			=> at 7: InputsPassed(submissions<2) .. accepted
			without TasksSwept
			A's append has an unknown outcome
			A claims and owns
			=> A owns epoch A2`,
		comes: []string{"TasksSwept(T1)[A2/ .. accepted"},
		never: []string{"Submitted(T1)[A2/"},
	},
	{
		name:   "to have caught up counts in its epoch only, for a sweep",
		config: Config{Budgets: budget{Passes: 1, Unknowns: 1}, Clients: []Client{ends(1)}, InFlight: 1},
		script: oneEnded + `
			a client submits T1
			A reads submissions
			=> A decides InputsPassed(submissions<2)[A1/3
			the clock passes the next step
			A ticks
			the broker answers A's question
			A sees the answer
			without TasksSwept
			A's append has an unknown outcome: InputsPassed
			A claims and owns
			=> A owns epoch A2
			without TasksSwept
			the broker answers A's question
			A sees the answer
			without TasksSwept
			A reads submissions
			=> A decides InputsPassed(submissions<2)[A2/ .. TasksSwept(T1)[A2/`,
		never: []string{"Submitted(T1)[A2/"},
	},
	{
		name:   "an input that nobody judged is not passed",
		config: Config{Budgets: budget{Unknowns: 1}, Clients: []Client{ends(1), soon(Submit, "T5")}},
		script: oneEnded + `
			a client submits T1
			A reads submissions
			a client submits T5
			has: A decides InputsPassed(submissions<2)[A1/3
			A's append lands: InputsPassed
			=> InputsPassed(submissions<2) .. accepted
			A's append has an unknown outcome: InputsPassed
			A claims and owns
			=> A owns epoch A2`,
		comes: []string{"Submitted(T5)[A2/ .. accepted", "T5.s attempt 1"},
		never: []string{"InputsPassed(submissions<3)"},
	},
	{
		name:   "an answer to a question from before the horizon does not count, for a sweep",
		config: Config{Budgets: budget{Passes: 1, Crashes: 1}, Clients: []Client{ends(1), submits("T5")}},
		script: `
			A claims and owns
			A reads submissions
			A's append lands: Submitted(T1)
			A has the ack of its append: Submitted(T1)
			A's append lands: Submitted(T5)
			A has the ack of its append: Submitted(T5)
			A's append lands: StepStarted(T5.s attempt 1)
			A crashes, keeps its store
			A learns
			A claims and owns
			=> A asks for the end offsets
			A reads submissions
			the broker answers A's question
			a client submits T1
			=> submissions/0 has at 2
			the clock passes the next step
			A sees the answer
			=> A is about to send T5.s attempt 1
			without TasksSwept
			without Timeout
			A's append lands: InputsPassed
			A has the ack of its append
			without TasksSwept
			A reads submissions
			without TasksSwept
			without Submitted`,
		comes: []string{"TaskProcessed(T5)"},
		never: []string{"Submitted(T1)[A2/"},
	},
	{
		name:   "each topic is passed by itself",
		config: Config{Clients: []Client{{Kind: Submit, Task: "T1", AtStart: true, Times: 2}}},
		script: `
			A claims and owns
			A reads submissions
			A's append lands: Submitted
			A's append lands: StepStarted
			A has the ack of its append: Submitted
			a client submits T1
			A reads submissions
			=> A decides InputsPassed(submissions<2)[A1/2
			without reports<
			A's append lands: InputsPassed
			=> accepted`,
		comes: []string{"StepCompleted(T1.s attempt 1)"},
	},
	{
		name:   "a report that nobody judged is not passed",
		config: Config{Budgets: budget{Unknowns: 1}, Clients: []Client{{Kind: Submit, Task: "T1", AtStart: true, Times: 2}}},
		script: `
			A claims and owns
			A reads submissions
			A's append lands: Submitted
			A's append lands: StepStarted
			A has the ack of its append: Submitted
			A has the ack of its append: StepStarted
			A sends and has the ack: T1.s attempt 1
			the agent reports T1.s attempt 1: completed
			a client submits T1
			A reads submissions
			=> A decides InputsPassed(submissions<2)[A1/2
			without reports<
			A's append lands: InputsPassed
			A's append has an unknown outcome
			A claims and owns
			=> A owns epoch A2 .. reports from 0`,
		comes: []string{"A decides StepCompleted(T1.s attempt 1)[A2/"},
	},
	{
		name:   "a duplicate is passed, though it makes no fact",
		config: Config{Clients: []Client{ends(1)}},
		script: oneEnded + `
			a client submits T1
			A reads submissions
			without Submitted
			without InputRejected`,
		comes: []string{"InputsPassed(submissions<2) .. accepted"},
	},
	{
		name:   "a sweep waits for what was durable before the horizon",
		config: Config{Budgets: budget{Passes: 1}, Clients: []Client{ends(1)}},
		script: oneEnded + `
			a client submits T1
			the clock passes the next step
			A ticks
			=> A asks for the end offsets
			without TasksSwept
			A reads submissions
			without TasksSwept
			=> A decides InputsPassed(submissions<2)[A1/3
			A's append lands: InputsPassed
			A has the ack of its append
			without TasksSwept`,
		comes: []string{"TasksSwept(T1)[A1/ .. accepted"},
	},
	{
		name:   "a sweep waits for what an owner before had judged",
		config: Config{Budgets: budget{Passes: 1, Crashes: 1}, Clients: []Client{ends(1)}},
		script: oneEnded + `
			a client submits T1
			A reads submissions
			=> A decides InputsPassed(submissions<2)[A1/3
			A crashes, keeps its store
			A learns
			A claims and owns
			=> A owns epoch A2
			the clock passes the next step
			A ticks
			=> A asks for the end offsets
			without TasksSwept
			A reads submissions
			without Submitted
			without TasksSwept`,
		comes: []string{"TasksSwept(T1)[A2/ .. accepted"},
		never: []string{"Submitted(T1)[A2/"},
	},
	{
		// Replies are not effects yet, so the alert of a cancelled task stands in for one.
		name:   "a sweep waits for the effects of its tasks",
		config: Config{Budgets: budget{Passes: 1, Crashes: 1}, Clients: []Client{soon(Cancel, "T1"), soon(Submit, "T1")}, Alerts: true},
		script: `
			A claims and owns
			an operator cancels T1
			A reads reports
			A's append lands: RequestHeld
			A has the ack of its append
			a client submits T1
			A reads submissions
			=> A decides Submitted(T1) .. TaskUndone(T1)
			A's append lands: Submitted
			A has the ack of its append
			=> A is about to send the alert undone of T1
			the clock passes the next step
			A ticks
			=> A asks for the end offsets
			the broker answers A's question
			A sees the answer
			without TasksSwept
			A crashes, keeps its store
			A learns
			A claims and owns
			=> A is about to send the alert undone of T1
			without TasksSwept`,
		comes: []string{"A sends and has the ack: the alert undone of T1"},
	},
	{
		name:   "a cancel from before the horizon does not meet the next task of the ID",
		config: Config{Budgets: budget{Passes: 3}, Clients: []Client{ends(2), soon(Cancel, "T1")}},
		script: oneEnded + `
			a client submits T1
			an operator cancels T1
			the clock passes the next step
			A ticks
			=> A asks for the end offsets
			without TasksSwept
			A reads submissions
			without TasksSwept
			the broker answers A's question
			A sees the answer
			without TasksSwept
			A reads reports
			without RequestHeld
			=> A decides InputRejected(refused T1)
			A's append lands: InputsPassed
			A's append lands: InputRejected
			A has the ack of its append: InputsPassed
			A has the ack of its append: InputRejected
			without TasksSwept
			A sends and has the ack: the dead letter of reports 0
			the clock passes the next step
			A ticks
			A's append lands: InputsPassed
			A has the ack of its append: InputsPassed
			the broker answers A's question
			A sees the answer
			the clock passes the next step
			A ticks
			=> A decides TasksSwept(T1)
			A's append lands: TasksSwept
			=> accepted
			A has the ack of its append: TasksSwept
			a client submits T1
			A reads submissions
			=> A decides Submitted(T1)[A1/ .. TaskProcessed(T1)`,
		never: []string{"RequestHeld", "CancelRequested"},
	},
	{
		name:   "a report about the previous task with the same ID changes nothing",
		config: Config{Nodes: 1, BatchFacts: 8, PassEvery: 1, Budgets: budget{Passes: 3, Repeats: 1}, Clients: []Client{{Kind: Submit, Task: "T1", AtStart: true, Times: 2}}},
		script: `
			A claims and owns
			A reads submissions
			A's append lands: Submitted
			A has the ack of its append: Submitted
			A sends and has the ack: T1.s attempt 1
			the agent reports T1.s attempt 1: completed
			A reads reports
			A's append lands: StepCompleted
			=> TaskProcessed
			A has the ack of its append: StepCompleted
			the clock passes the next step
			A ticks
			the clock passes the next step
			A ticks
			the broker answers A's question
			A sees the answer
			=> A decides TasksSwept(T1)
			A's append lands: TasksSwept
			A has the ack of its append: TasksSwept
			a client submits T1
			A reads submissions
			=> A decides Submitted(T1)
			A's append lands: Submitted
			A has the ack of its append: Submitted
			A sends and has the ack: T1.s attempt 1
			the agent reports T1.s attempt 1: completed
			A reads reports
			without StepCompleted
			A's append lands: InputsPassed
			A has the ack of its append: InputsPassed
			the agent reports T1.s attempt 1: completed
			A reads reports
			=> A decides StepCompleted(T1.s attempt 1)`,
	},
}
