package model

import "github.com/sagalog/sagalog/supervisor"

// claimTraces are about which node owns a partition.
var claimTraces = []trace{
	{
		name: "a claim lands a second time behind that of another",
		rule: supervisor.RuleClaimPrev, breaks: "INV11: the claim A1 becomes current a second time",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1, Doubles: 1, LateAppends: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A reads its log
			=> A sends Claim{A1, prev g}
			A's claim lands, a copy is on its way
			=> at 3: Claim{A1, prev g}: accepted
			A reads its log
			=> A owns epoch A1
			A reads submissions
			=> A decides Submitted(T1)[A1/0
			B learns
			B reads its log
			=> B sends Claim{B1, prev A1}
			B's claim lands
			=> at 4: Claim{B1, prev A1}: accepted
			B reads its log
			=> B owns epoch B1 and reads submissions from 0
			B reads submissions
			=> B decides Submitted(T1)[B1/0
			B's append lands
			=> accepted
			a late append lands: Claim{A1, prev g}
			=> at 6: Claim{A1, prev g}: VOID
			A's append lands: Submitted(T1)[A1/0
			=> at 7: Submitted(T1)[A1/0.. VOID`,
	},
	{
		name: "the answer to a claim, with a fact in front of it",
		rule: supervisor.RuleReadBack, breaks: "INV2: a store differs from the fold at its offset: B at 6",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T1")}, ClaimAcks: true},
		script: `
			the group gives the partition to B
			A reads its log
			A's claim lands
			A has the ack of its claim
			without A owns
			on: not: A reads submissions
			on: A reads its log
			on: => A owns epoch A1
			A reads submissions
			=> A decides Submitted(T1)[A1/0
			B learns
			B reads its log
			=> B sends Claim{B1, prev A1}
			A's append lands
			=> at 4: Submitted(T1)[A1/0.. accepted
			B's claim lands
			=> at 5: Claim{B1, prev A1}: accepted
			B has the ack of its claim
			without B owns
			on: not: B reads submissions
			on: B reads its log
			on: => B owns epoch B1`,
		never: []string{"Submitted(T1)[B1"},
	},
	{
		name: "the answer to a claim that is void",
		rule: supervisor.RuleReadBack, breaks: "INV2: a store differs from the fold at its offset",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T1")}, ClaimAcks: true},
		script: `
			the group gives the partition to B
			A reads its log
			=> A sends Claim{A1, prev g}
			B learns
			B reads its log
			=> B sends Claim{B1, prev g}
			A's claim lands
			=> accepted
			B's claim lands
			=> at 4: Claim{B1, prev g}: VOID
			B has the ack of its claim
			without B owns
			on: not: B reads submissions
			on: B reads its log
			on: without B owns
			on: => B sends Claim{B2, prev A1}`,
	},
	{
		name:   "nothing is decided behind one's own claim on its way",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A reads its log
			=> A sends Claim{A1, prev g}
			without A decides
			not: A reads submissions
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides Submitted(T1)[A1/0
			B learns
			B reads its log
			=> B sends Claim{B1, prev A1}
			without B decides
			not: B reads submissions
			A's append lands: Submitted(T1)[A1/0
			=> at 4: .. accepted
			B's claim lands
			=> at 5: Claim{B1, prev A1}: accepted
			B reads its log
			=> B owns epoch B1`,
		never: []string{"B decides Submitted"},
	},
	{
		name:   "the identifier of a claim is fresh",
		config: Config{Budgets: budget{Unknowns: 1, LateAppends: 2}, Clients: []Client{submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides Submitted(T1)[A1/0
			A's append has an unknown outcome: Submitted(T1)[A1/0
			A reads its log
			=> A sends Claim{A2, prev A1}
			A's claim lands
			=> accepted
			a late append lands: Submitted(T1)[A1/0
			=> at 5: Submitted(T1)[A1/0 .. VOID
			A reads its log
			=> A owns epoch A2`,
		comes: []string{"A decides Submitted(T1)[A3/0"},
		never: []string{"Submitted(T1)[A1/0 .. accepted"},
	},
	{
		name:   "two claims of the same ordinal",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A reads its log
			=> A sends Claim{A1, prev g}
			B learns
			B reads its log
			=> B sends Claim{B1, prev g}
			A's claim lands
			=> accepted
			B's claim lands
			=> at 4: Claim{B1, prev g}: VOID
			B reads its log
			without B owns
			=> B sends Claim{B2, prev A1}
			not: B reads submissions`,
		never: []string{"B decides Submitted(T1)[A1"},
	},
	{
		name:   "two claims of the same ordinal, and a hole",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1, LateAppends: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A reads its log
			B learns
			B reads its log
			=> B sends Claim{B1, prev g}
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides StepStarted(T1.s attempt 1)[A1/1]
			A learns: assigned=false
			a late append lands: StepStarted(T1.s attempt 1)[A1/1]
			=> at 4: .. VOID
			B's claim lands
			=> at 5: Claim{B1, prev g}: VOID
			B reads its log
			without B owns
			=> B sends Claim{B2, prev A1}`,
		comes: []string{"B decides Submitted(T1)[B2/0", "B sends and has the ack: T1.s attempt 1"},
	},
	{
		name: "an owner that is deposed behind its last fact",
		rule: supervisor.RuleContiguous, breaks: "INV2: a store differs from the fold at its offset: B at 7",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1, Passes: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			B learns
			B reads its log
			B's claim lands
			=> at 3: Claim{B1, prev g}: accepted
			A reads its log
			=> A sends Claim{A1, prev B1}
			B reads its log
			B reads submissions
			=> B decides StepStarted(T1.s attempt 1)[B1/1]
			B's append lands: Submitted
			B's append lands: StepStarted
			=> at 5: .. accepted
			A's claim lands
			=> at 6: Claim{A1, prev B1}: accepted
			A reads its log
			=> A owns epoch A1
			A's append lands: InputsPassed
			A has the ack of its append
			the clock passes the next step
			the broker answers A's question
			A sees the answer
			A ticks
			=> A asks for the end offsets
			the broker answers A's question
			A sees the answer
			=> A decides Timeout(T1.s attempt 1)
			=> A decides StepStarted(T1.s attempt 2)
			A's append lands: Timeout
			A's append lands: StepStarted(T1.s attempt 2)
			A has the ack of its append: Timeout
			A has the ack of its append: StepStarted(T1.s attempt 2)
			A sends and has the ack: T1.s attempt 2
			A learns: assigned=false
			B has the ack of its append: Submitted
			=> B commits up to 5
			B has the ack of its append: StepStarted
			=> B commits up to 6
			B sends and has the ack: T1.s attempt 1
			the agent reports T1.s attempt 2: completed
			B reads reports
			B reads its log
			without B commits
			not: B's append
			not: B sends
			B reads its log
			=> B sends Claim{B2, prev A1}`,
		comes: []string{"B decides StepCompleted(T1.s attempt 2)[B2/"},
	},
	{
		name:   "a refused node tries again by itself",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1, LateAppends: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A reads its log
			=> A sends Claim{A1, prev g}
			A learns: assigned=false
			B learns
			B reads its log
			=> B sends Claim{B1, prev g}
			a late append lands: Claim{A1, prev g}
			=> at 3: Claim{A1, prev g}: accepted
			B's claim lands
			=> at 4: Claim{B1, prev g}: VOID
			B reads its log
			=> B sends Claim{B2, prev A1}`,
		comes: []string{"B owns epoch B2"},
	},
	{
		name:   "a deposed node tries again by itself",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 2}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A reads its log
			=> A sends Claim{A1, prev g}
			B learns
			B reads its log
			B's claim lands
			=> at 3: Claim{B1, prev g}: accepted
			B reads its log
			B reads submissions
			A's claim lands
			=> VOID
			A reads its log
			=> A sends Claim{A2, prev B1}
			A's claim lands
			=> at 5: Claim{A2, prev B1}: accepted
			B reads its log
			not: B's append
			B reads its log
			=> B sends Claim{B2, prev A2}`,
		comes: []string{"B owns epoch B2", "B sends and has the ack: T1.s attempt 1"},
	},
	{
		// A knows its claim from a log that is gone. No protocol on one log survives that. What stops the node is the
		// check of its last known record against the log when it opens its state. The ID of the epoch helps too.
		name:   "the broker loses a claim, and another takes its place",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1, LateAppends: 1}, Clients: []Client{submits("T1")}},
		script: `
			the group gives the partition to B
			A reads its log
			A's claim lands
			=> at 3: Claim{A1, prev g}: accepted
			A reads its log
			A reads submissions
			=> A decides Submitted(T1)[A1/0
			B learns
			* the broker loses its last record
			B reads its log up to 3
			=> B sends Claim{B1, prev g}
			B's claim lands
			=> at 3: Claim{B1, prev g}: accepted
			A's append lands: Submitted(T1)[A1/0
			=> at 4: Submitted(T1)[A1/0 .. VOID
			A learns: assigned=false`,
		by: map[string]func(w *World) error{"the broker loses its last record": loseLast}, stale: true,
		comes: []string{"StepStarted(T1.s attempt 1)[B2/1] .. accepted"},
	},
}

// loseLast removes the last record of the log.
func loseLast(w *World) error {
	p := &w.s.parts[0]
	records := w.sp.logs[p.log].records
	p.log = w.sp.root(0)
	for _, r := range records[w.sp.logs[p.log].end() : len(records)-1] {
		p.log = w.sp.extend(0, p.log, r)
	}
	w.path = append(w.path, "the broker loses its last record")
	return nil
}
