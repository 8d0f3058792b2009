package model

import "github.com/sagalog/sagalog/supervisor"

// epochTraces are about sequence, contiguity and appends without an answer.
var epochTraces = []trace{
	{
		name: "a fact lands before an older one",
		rule: supervisor.RuleSequence, breaks: "INV2: StepStarted(T1.s attempt 1)[A1/1] at 4 cannot be folded",
		config: Config{Budgets: budget{Reorders: 1}, Clients: []Client{submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides Submitted(T1)[A1/0
			=> A decides StepStarted(T1.s attempt 1)[A1/1] (2 in flight)
			A's append lands BEFORE an older one: StepStarted
			=> at 4: StepStarted(T1.s attempt 1)[A1/1]: VOID
			A's append lands: Submitted(T1)[A1/0
			=> at 5: .. VOID
			A has the ack of its append: Submitted
			without A commits
			A reads its log
			=> A sends Claim{A2, prev A1}`,
		comes: []string{"StepStarted(T1.s attempt 1)[A2/1] .. accepted"},
	},
	{
		name: "an acknowledgement behind another's claim",
		rule: supervisor.RuleContiguous, breaks: "INV2: a store differs from the fold at its offset: A at 6",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 2}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A claims and owns
			A reads submissions
			=> A decides StepStarted(T1.s attempt 1)[A1/1] (2 in flight)
			A's append lands: Submitted(T1)[A1/0
			A has the ack of its append: Submitted
			=> A commits up to 5
			B learns
			B reads its log
			=> B sends Claim{B1, prev A1}
			B's claim lands
			=> at 5: Claim{B1, prev A1}: accepted
			A's append lands: StepStarted(T1.s attempt 1)[A1/1]
			=> at 6: .. VOID
			A has the ack of its append: StepStarted
			without A commits
			without A is about to send
			not: A sends`,
		comes: []string{"B decides StepStarted(T1.s attempt 1)[B2/"},
		never: []string{"A sends and has the ack: T1.s attempt 1"},
	},
	{
		name: "acknowledgements behind another's claim, the second right behind the first",
		rule: supervisor.RuleContiguous, breaks: "INV2: a store differs from the fold at its offset: A at 7",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 2, Passes: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A claims and owns
			A reads submissions
			A's append lands: Submitted
			A's append lands: StepStarted(T1.s attempt 1)[A1/1]
			=> at 5: .. accepted
			A has the ack of its append: Submitted
			A has the ack of its append: StepStarted
			the clock passes the next step
			A ticks
			the broker answers A's question
			A sends and has the ack: T1.s attempt 1
			A sees the answer
			=> A decides Timeout(T1.s attempt 1)[A1/3] (2 in flight)
			B learns
			B reads its log
			B's claim lands
			=> at 6: Claim{B1, prev A1}: accepted
			A's append lands: InputsPassed
			=> at 7: .. VOID
			A's append lands: Timeout
			=> at 8: .. VOID
			on: A has the ack of its append: Timeout
			A has the ack of its append: InputsPassed
			without A commits
			off: A has the ack of its append: Timeout
			without A commits
			not: A sends
			B reads its log
			=> B owns epoch B1
			the agent reports T1.s attempt 1: completed`,
		comes: []string{"StepCompleted(T1.s attempt 1)[B2/ .. accepted"},
		never: []string{"about to send T1.s attempt 2"},
	},
	{
		name: "a gap without a newer claim, behind a younger fact",
		rule: supervisor.RuleContiguous, breaks: "INV2: a store differs from the fold at its offset: A at 6",
		config: Config{Budgets: budget{Reorders: 1}, Clients: []Client{submits("T1"), submits("T5")}},
		script: `
			A claims and owns
			A reads submissions
			A's append lands: Submitted(T1)
			A has the ack of its append: Submitted(T1)
			=> A commits up to 5
			=> A decides StepStarted(T1.s attempt 1)[A1/2
			A's append lands BEFORE an older one: StepStarted(T1.s attempt 1)[A1/2
			=> at 5: .. VOID
			A's append lands: Submitted(T5)[A1/1
			=> at 6: .. VOID
			A has the ack of its append: Submitted(T5)
			without A commits
			without A is about to send
			not: A sends`,
		comes: []string{"A owns epoch A2"},
	},
	{
		name: "a gap without a newer claim, at the first fact",
		rule: supervisor.RuleContiguous, breaks: "INV2: a store differs from the fold at its offset: A at 5",
		config: Config{Budgets: budget{Reorders: 1}, Clients: []Client{submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			A's append lands BEFORE an older one: StepStarted(T1.s attempt 1)[A1/1
			=> at 4: .. VOID
			A's append lands: Submitted(T1)[A1/0
			=> at 5: .. VOID
			A has the ack of its append: Submitted
			without A commits`,
		comes: []string{"A owns epoch A2"},
	},
	{
		name:   "an answer waits for that of the append before it",
		config: Config{Budgets: budget{Reorders: 1}, Clients: []Client{submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			A's append lands BEFORE an older one: StepStarted(T1.s attempt 1)[A1/1
			=> at 4: .. VOID
			A has the ack of its append: StepStarted
			without A commits
			without A is about to send
			not: A sends`,
		comes: []string{"A owns epoch A2"},
	},
	{
		name: "no effect of a fact that is in flight",
		rule: supervisor.RuleDurable, breaks: "INV8: phantom",
		config: Config{Clients: []Client{submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides StepStarted(T1.s attempt 1)[A1/1
			without A is about to send
			not: A sends`,
		comes: []string{"A sends and has the ack: T1.s attempt 1"},
	},
	{
		name: "no effect of a fact that the log can never hold",
		rule: supervisor.RuleDurable, breaks: "INV8: phantom",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 2, Passes: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A claims and owns
			A reads submissions
			A's append lands: Submitted
			A's append lands: StepStarted(T1.s attempt 1)
			A has the ack of its append: Submitted
			A has the ack of its append: StepStarted
			the clock passes the next step
			A ticks
			the broker answers A's question
			A sends and has the ack: T1.s attempt 1
			A sees the answer
			=> A decides Timeout(T1.s attempt 1)[A1/3
			A's append lands: InputsPassed
			A has the ack of its append: InputsPassed
			=> A decides StepStarted(T1.s attempt 2)[A1/4
			without A is about to send
			not: A sends
			B learns
			B reads its log
			B's claim lands
			=> at 7: Claim{B1, prev A1}: accepted
			B reads its log
			=> B owns epoch B1
			the agent reports T1.s attempt 1: completed
			B reads reports
			B's append lands: InputsPassed
			B has the ack of its append: InputsPassed
			=> B decides StepCompleted(T1.s attempt 1)[B1/
			B's append lands: StepCompleted
			=> accepted`,
		never: []string{"about to send T1.s attempt 2"},
	},
	{
		name: "silence is no success",
		rule: supervisor.RuleUnknown, breaks: "INV3: A commits up to 6, the log ends at 5",
		config: Config{Budgets: budget{Unknowns: 1, LostAppends: 1}, Clients: []Client{submits("T1")}, UnknownByTick: true},
		script: `
			A claims and owns
			A reads submissions
			A's append lands: Submitted
			A has the ack of its append: Submitted
			A's append is lost: StepStarted(T1.s attempt 1)[A1/1
			A has no answer for too long
			without A commits
			without A is about to send
			not: A sends
			A reads its log
			=> A sends Claim{A2, prev A1}`,
		comes: []string{"A decides StepStarted(T1.s attempt 1)[A2/"},
	},
	{
		name:   "silence is no failure within the epoch",
		config: Config{Budgets: budget{Unknowns: 1, LateAppends: 2}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides InputRejected(unreadable)[A1/0
			=> A decides Submitted(T1)[A1/1 .. (2 in flight)
			A's append has an unknown outcome: InputRejected
			without A decides
			not: A reads submissions
			A reads its log
			=> A sends Claim{A2, prev A1}
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides InputRejected(unreadable)[A2/0
			A's append lands: InputRejected(unreadable)[A2/0
			=> at 5: .. accepted
			a late append lands: Submitted(T1)[A1/1
			=> at 6: .. VOID`,
		comes: []string{"the dead letter of submissions 0"},
	},
}
