package model

// writtenTraces are the rules as they were first written, before the model had shown what is wrong with them.
var writtenTraces = []trace{
	{
		name:   "A2 a forward that the broker refuses becomes a dead letter",
		config: Config{Partitions: 2, Budgets: budget{Refusals: 1}, Clients: []Client{submits("T2"), submits("T1")}},
		script: `
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides InputForwarded()[A1/0
			A's append lands: InputForwarded
			A's append lands: Submitted(T1)
			A has the ack of its append: InputForwarded
			=> A is about to send the forward of s/0/0
			the broker refuses for good, from A: the forward of s/0/0
			A has the ack of its append: Submitted(T1)
			has: A decides EffectFailed()[A1/`,
		comes: []string{"A sends and has the ack: the dead letter of submissions 0"},
		never: []string{"submissions/1 has"},
	},
	{
		name:   "A5 a forward that comes again after its task was forgotten is a dead letter",
		config: Config{Full: 2, Budgets: budget{Reassigns: 1, StaleClaims: 1, Passes: 1}, Clients: []Client{{Kind: Submit, Task: "T2", Workflow: "none", AtStart: true}}},
		script: `
			the group gives the partition 0 to B
			A/0 reads its log
			A/0's claim lands
			A/0 reads its log
			A/0 reads submissions
			=> A/0 decides InputForwarded()[A1/0
			A/0's append lands: InputForwarded
			A/0 has the ack of its append
			A/0 sends and has the ack: the forward of s/0/0
			=> submissions/1 has at 0
			B/0 learns
			B/0 reads its log
			B/0's claim lands
			B/0 reads its log
			=> B/0 owns epoch B1
			A/1 reads its log
			A/1's claim lands
			A/1 reads its log
			A/1 reads submissions
			=> A/1 decides Submitted(T2)[A1/0 .. TaskProcessed(T2)
			A/1's append lands
			A/1 has the ack of its append
			the clock passes the next step
			A/1 ticks
			the broker answers A/1's question
			A/1 sees the answer
			=> A/1 decides TasksSwept(T2)
			A/1's append lands
			=> TasksSwept(T2) .. accepted
			A/1 has the ack of its append
			B/0 fetches submissions 0
			B/0 sends and has the ack: the forward of s/0/0
			=> submissions/1 has at 1
			A/1 reads submissions
			without Submitted
			=> A/1 decides InputRejected(misplaced T2)`,
		comes: []string{"A/1 sends and has the ack: the dead letter of submissions 1"},
	},
	{
		name:   "A7 a dead letter is never given up",
		config: Config{Budgets: budget{Refusals: 1, Passes: 1}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides InputRejected(unreadable)[A1/0
			A's append lands: InputRejected
			A has the ack of its append
			=> A is about to send the dead letter of submissions 0
			the broker refuses for good, from A: the dead letter of submissions 0
			without EffectFailed
			not: A sends and has the ack: the dead letter
			A's append lands: Submitted(T1)
			A has the ack of its append: Submitted(T1)
			* the fold has settled nothing of A
			the clock passes the next step
			A ticks
			=> A is about to send the dead letter of submissions 0`,
		by:    map[string]func(w *World) error{"the fold has settled nothing of A": unsettled},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0", "settled<=A1/"},
		never: []string{"EffectFailed"},
	},
	{
		name:   "B1 a sweep waits for what was durable before the horizon",
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
		name:   "B2 a sweep waits for what an owner before had judged",
		config: Config{Budgets: budget{Passes: 1, Crashes: 1}, Clients: []Client{ends(1)}},
		script: oneEnded + `
			a client submits T1
			A reads submissions
			=> A decides InputsPassed(submissions<2)[A1/3
			A crashes, keeps its store
			A learns
			A reads its log
			A's claim lands
			A reads its log
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
		// Replies are no effects yet; the alert of a cancelled task is as good.
		name:   "B3 a sweep waits for the effects of its tasks",
		config: Config{Budgets: budget{Passes: 1, Crashes: 1}, Clients: []Client{soon(Cancel, "T1"), soon(Submit, "T1")}, Alerts: true},
		script: `
			A reads its log
			A's claim lands
			A reads its log
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
			A reads its log
			A's claim lands
			A reads its log
			=> A is about to send the alert undone of T1
			without TasksSwept`,
		comes: []string{"A sends and has the ack: the alert undone of T1"},
	},
	{
		name:   "B7 a cancel from before the horizon does not meet the next task of the ID",
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
		name:   "D1 an expiry waits for the submissions from before it",
		config: Config{Budgets: budget{Passes: 1}, Clients: []Client{soon(Cancel, "T1"), soon(Submit, "T1")}},
		script: `
			A reads its log
			A's claim lands
			A reads its log
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
	{
		name:   "E1 an answer to a question from before a timer fell due is none",
		config: Config{Budgets: budget{Passes: 1, Crashes: 1}, Clients: []Client{submits("T1")}},
		script: sent + `
			A crashes, keeps its store
			A learns
			A reads its log
			A's claim lands
			A reads its log
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
