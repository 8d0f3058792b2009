package model

import "github.com/sagalog/sagalog/supervisor"

// effectTraces are about effects that outlive their epoch, and about rejections.
var effectTraces = []trace{
	{
		name: "a running attempt is sent after a take-over",
		rule: supervisor.RuleWatermark, breaks: "lost effect: nobody sent it",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1, LateAppends: 2}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A claims and owns
			A reads submissions
			=> A decides StepStarted(T1.s attempt 1)[A1/1]
			A learns: assigned=false
			B learns
			B reads its log
			=> B sends Claim{B1, prev A1}
			a late append lands: Submitted(T1)[A1/0
			=> at 4: .. accepted
			a late append lands: StepStarted(T1.s attempt 1)[A1/1]
			=> at 5: .. accepted
			B's claim lands
			=> at 6: Claim{B1, prev A1}: accepted
			B reads its log
			=> B owns epoch B1`,
		comes: []string{"B sends and has the ack: T1.s attempt 1"},
		never: []string{"A is about to send"},
	},
	{
		name: "a fact whose effect was not sent stops the watermark",
		rule: supervisor.RuleWatermark, breaks: "the watermark passed an effect that nobody sent",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T1"), soon(Submit, "T5")}},
		script: `
			the group gives the partition to B
			A claims and owns
			A reads submissions
			A's append lands: Submitted
			A's append lands: StepStarted(T1.s attempt 1)[A1/1]
			A has the ack of its append: Submitted
			A has the ack of its append: StepStarted
			=> A is about to send T1.s attempt 1
			a client submits T5
			A reads submissions
			=> A decides Submitted(T5)[A1/2 watermark<=A1/0
			A's append lands: Submitted(T5)
			A learns: assigned=false
			B learns
			B claims and owns
			=> B owns epoch B1`,
		comes: []string{"B sends and has the ack: T1.s attempt 1", "B sends and has the ack: T5.s attempt 1"},
		never: []string{"A sends and has the ack"},
	},
	{
		name: "the dead letter of what cannot be read outlives a crash",
		rule: supervisor.RuleWatermark, breaks: "the watermark passed an effect that nobody sent",
		config: Config{Budgets: budget{Crashes: 1}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides InputRejected(unreadable)[A1/0
			=> A decides Submitted(T1)[A1/1
			without A is about to send
			A's append lands: InputRejected
			A's append lands: Submitted
			=> at 5: .. accepted
			A crashes, keeps its store
			A learns: assigned=true
			A claims and owns
			=> A owns epoch A2`,
		comes: []string{"A sends and has the ack: the dead letter of submissions 0", "A sends and has the ack: T1.s attempt 1"},
	},
	{
		name:   "a report that the state ahead of the log has no use for is judged again",
		config: Config{Budgets: budget{Unknowns: 1, Passes: 1}, Clients: []Client{submits("T1")}, InFlight: 4},
		script: `
			A claims and owns
			A reads submissions
			A's append lands: Submitted
			A's append lands: StepStarted
			A has the ack of its append: Submitted
			A has the ack of its append: StepStarted
			A sends and has the ack: T1.s attempt 1
			the clock passes the next step
			A ticks
			the broker answers A's question
			A sees the answer
			=> A decides Timeout(T1.s attempt 1)[A1/3
			the agent reports T1.s attempt 1: completed
			A reads reports
			=> A decides InputsPassed(reports<1)
			without A decides StepCompleted
			without A is about to send
			not: A sends
			A's append has an unknown outcome: InputsPassed
			A reads its log
			=> A sends Claim{A2, prev A1}
			A's claim lands
			A reads its log
			=> A owns epoch A2 and reads submissions from 0, reports from 0`,
		comes: []string{"A decides StepCompleted(T1.s attempt 1)[A2/"},
		never: []string{"dead letter"},
	},
	{
		name: "a dead letter because of the state ahead of the log waits for the log",
		rule: supervisor.RuleDurable, breaks: "INV8: phantom",
		config: Config{Budgets: budget{Unknowns: 1}, Clients: []Client{submits("T1"), {Kind: Conflict, Task: "T1", AtStart: true}}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides Submitted(T1)[A1/0
			=> A decides InputRejected(conflict T1)[A1/1
			not: A sends
			A's append has an unknown outcome: Submitted
			not: A sends
			A reads its log
			=> A sends Claim{A2, prev A1}`,
		comes: []string{"A decides Submitted(T1)[A2/0", "A decides InputRejected(conflict T1)[A2/", "A sends and has the ack: the dead letter of submissions 1"},
	},
	{
		name:   "a report that a deposed owner has no use for makes no dead letter",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T1")}},
		script: staleOwnerPassesAReport + `
			not: B sends
			A reads reports
			=> A decides StepCompleted(T1.s attempt 1)[A1/2
			A's append lands
			B has the ack of its append
			without B commits
			not: B sends`,
		never: []string{"dead letter", "B is about to send"},
	},
	{
		name: "a dead letter of a deposed owner never leaves",
		rule: supervisor.RuleContiguous, breaks: "INV2: a store differs from the fold at its offset: B at 5",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1, Failures: 1}, Outcomes: []Outcome{Failed}, Clients: []Client{
			{Kind: Submit, Task: "T1", Workflow: "wait", AtStart: true}, {Kind: Retry, Task: "T1", Workflow: "wait", Times: 1},
		}},
		script: `
			the group gives the partition to B
			B learns
			B reads its log
			B's claim lands
			A reads its log
			B reads its log
			=> B owns epoch B1
			A's claim lands
			=> at 4: Claim{A1, prev B1}: accepted
			A reads its log
			A reads submissions
			A's append lands: Submitted
			A's append lands: StepStarted
			A has the ack of its append: Submitted
			A has the ack of its append: StepStarted
			A sends and has the ack: T1.s attempt 1
			the agent reports T1.s attempt 1: failed
			A reads reports
			=> A decides StepFailed(T1.s attempt 1)[A1/2
			A's append lands: StepFailed
			A has the ack of its append: StepFailed
			an operator retries T1
			B reads reports up to 2
			=> B decides InputRejected(refused T1)[B1/
			A reads reports
			=> A decides TaskReopened(T1)[A1/3
			A's append lands: TaskReopened
			B's append lands: InputRejected
			=> VOID
			B has the ack of its append: InputRejected
			without B commits
			without B is about to send
			not: B sends`,
		comes: []string{"T1.s attempt 2"},
		never: []string{"dead letter"},
	},
	{
		name:   "a dead letter is never given up",
		config: Config{Budgets: budget{Refusals: 1, Passes: 1}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A claims and owns
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
			* the fold has no watermark of A
			the clock passes the next step
			A ticks
			=> A is about to send the dead letter of submissions 0`,
		by:    map[string]func(w *World) error{"the fold has no watermark of A": noWatermark},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0", "watermark<=A1/"},
		never: []string{"EffectFailed"},
	},
}
