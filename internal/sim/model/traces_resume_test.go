package model

import "github.com/sagalog/sagalog/supervisor"

// resumeTraces are about the position at which a new owner resumes, and about the follow-ups that it plans.
var resumeTraces = []trace{
	{
		name:   "what was read and decided is not passed by that",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A claims and owns
			A reads submissions
			=> A decides Submitted(T1)[A1/0
			A learns: assigned=false
			B learns
			B reads its log
			B's claim lands
			=> at 4: Claim{B1, prev A1}: accepted
			B reads its log
			=> B owns epoch B1 and reads submissions from 0`,
		comes: []string{"B decides Submitted(T1)[B1/0"},
	},
	{
		name:   "what a deposed owner passed is not passed for the owner",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 2, Unknowns: 1}, Clients: []Client{submits("T1"), soon(Submit, "T5")}},
		script: staleOwnerPassesAReport + `
			a client submits T5
			A reads submissions
			=> A decides Submitted(T5)[A1/2
			A's append has an unknown outcome
			A reads its log
			=> A sends Claim{A2, prev A1}
			A's claim lands
			=> accepted
			A reads its log
			=> A owns epoch A2 and reads submissions from 0, reports from 0
			A reads reports
			B has the ack of its append
			without B commits`,
		comes: []string{"StepCompleted(T1.s attempt 1)"},
	},
	{
		name:   "an input whose content identifies nothing is folded once",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{{Kind: Garbage, Times: 1}}},
		script: `
			the group gives the partition to B
			A claims and owns
			=> A owns
			B learns
			B reads its log
			=> B sends Claim{B1, prev A1}
			somebody sends garbage
			A reads submissions
			=> A decides InputRejected(unreadable)[A1/0
			A's append lands
			=> at 4: .. accepted
			B's claim lands
			=> at 5: Claim{B1, prev A1}: accepted
			B reads its log
			=> B owns epoch B1
			B reads submissions
			without B decides InputRejected`,
		comes: []string{"B sends and has the ack: the dead letter of submissions 0"},
	},
	{
		name: "what a deposed owner passed is not passed for itself",
		rule: supervisor.RuleResume, breaks: "INV12: the resume point skipped reports 0, which nobody judged: its attempt is running",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T1")}},
		script: staleOwnerPassesAReport + `
			A learns: assigned=false
			B reads its log
			without B commits
			B reads its log
			=> B sends Claim{B2, prev A1}
			B's claim lands
			=> accepted
			B reads its log
			on: => B owns epoch B2 and reads submissions from 0, reports from 0`,
		comes: []string{"StepCompleted(T1.s attempt 1)[B2/ .. accepted"},
	},
	{
		name: "the reading position ends with the epoch",
		rule: supervisor.RuleResume, breaks: "INV12: the resume point skipped submissions 0",
		config: Config{Budgets: budget{Unknowns: 1}, Clients: []Client{submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides Submitted(T1)[A1/0
			A's append has an unknown outcome: Submitted
			A reads its log
			=> A sends Claim{A2, prev A1}
			A's claim lands
			A reads its log
			on: => A owns epoch A2 and reads submissions from 0`,
		comes: []string{"Submitted(T1)[A2/0 .. accepted"},
	},
	{
		name:   "no input overtakes another of its topic",
		config: Config{Budgets: budget{Crashes: 1}, Clients: []Client{submits("T1"), garbage()}, Catalog: true},
		script: `
			A claims and owns
			A reads submissions up to 2
			without A decides
			not: A's append
			A crashes, keeps its store
			A learns: assigned=true
			A claims and owns
			=> A owns epoch A2 and reads submissions from 0
			A reads submissions up to 2
			without A decides
			A reads definitions
			=> A decides DefinitionAdopted .. Submitted(T1)[A2/1
			=> A decides InputRejected(unreadable)[A2/`,
	},
	{
		name:   "what follows is planned from the state",
		config: Config{Budgets: budget{Crashes: 1}, Clients: []Client{submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			A's append lands: Submitted(T1)[A1/0
			=> at 4: .. accepted
			A crashes, keeps its store
			A learns: assigned=true
			A reads its log
			=> A sends Claim{A2, prev A1}
			A's claim lands
			A reads its log
			=> A owns epoch A2`,
		comes: []string{"StepStarted(T1.s attempt 1)[A2/ .. accepted", "A sends and has the ack: T1.s attempt 1"},
	},
}

// staleOwnerPassesAReport leaves B believing in its epoch B1 while A owns A1 and has started and sent an attempt. The
// attempt's report is in the topic, and B has passed it, because in B's state the attempt is not running.
const staleOwnerPassesAReport = `
	the group gives the partition to B
	B learns
	B reads its log
	B's claim lands
	=> at 3: Claim{B1, prev g}: accepted
	A reads its log
	=> A sends Claim{A1, prev B1}
	B reads its log
	=> B owns epoch B1
	A's claim lands
	=> at 4: Claim{A1, prev B1}: accepted
	A reads its log
	A reads submissions
	=> A decides StepStarted(T1.s attempt 1)[A1/1]
	A's append lands: Submitted
	A's append lands: StepStarted
	A has the ack of its append: Submitted
	A has the ack of its append: StepStarted
	A sends and has the ack: T1.s attempt 1
	the agent reports T1.s attempt 1: completed
	B reads reports up to 1
	without B decides StepCompleted
	=> B decides InputsPassed(reports<1)[B1/0
	B's append lands
	=> at 7: InputsPassed(reports<1)[B1/0 .. VOID
`
