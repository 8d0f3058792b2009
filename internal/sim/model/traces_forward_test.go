package model

import (
	"fmt"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// forwardTraces are about inputs in the wrong partition. The home of T2 is partition 1.
var forwardTraces = []trace{
	{
		name: "a misplaced input is forwarded by a fact",
		rule: supervisor.RuleForward, breaks: "INV12: an acknowledged input has no outcome: the misplaced submissions 0",
		config: Config{Partitions: 2, Budgets: budget{Unknowns: 1}, Clients: []Client{submits("T2"), submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides Submitted(T1)
			on: has: A decides InputForwarded()[A1/0
			on: A's append lands: InputForwarded
			A's append lands: Submitted(T1)
			=> accepted
			A's append has an unknown outcome
			A claims and owns
			=> A owns epoch A2`,
		comes: []string{"A sends and has the ack: the forward of s/0/0", "submissions/1 has at 0"},
	},
	{
		name: "a forward waits for its fact",
		rule: supervisor.RuleDurable, breaks: "INV8: phantom",
		config: Config{Partitions: 2, Clients: []Client{submits("T2")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides InputForwarded()[A1/0
			without A is about to send
			not: A sends`,
		comes: []string{"submissions/1 has at 0"},
	},
	{
		name:   "a forwarded input that is misplaced again goes no further",
		config: Config{Partitions: 2, Clients: []Client{submits("T2")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides InputForwarded()[A1/0
			A's append lands
			A has the ack of its append
			A sends and has the ack: the forward of s/0/0
			* the forward comes back
			A reads submissions
			without A decides InputForwarded
			=> A decides InputRejected(misplaced`,
		by:    map[string]func(w *World) error{"the forward comes back": comesBack},
		comes: []string{"A sends and has the ack: the dead letter of submissions 1"},
	},
	{
		name: "a forward before a claim is not acknowledged by it",
		rule: supervisor.RuleWatermark, breaks: "the watermark passed an effect that nobody sent",
		config: Config{Partitions: 2, Budgets: budget{Unknowns: 1}, Clients: []Client{submits("T2"), submits("T1")}, InFlight: 1},
		script: `
			A claims and owns
			A reads submissions
			=> A decides InputForwarded()[A1/0
			A's append lands: InputForwarded
			=> at 4: .. accepted
			A's append has an unknown outcome: InputForwarded
			A reads its log
			A's claim lands
			=> at 5: Claim{A2, prev A1}: accepted
			A reads its log
			=> A owns epoch A2
			A reads submissions
			=> A decides Submitted(T1)[A2/0
			without watermark<=A1/0
			A's append lands: Submitted
			=> accepted
			* the fold has no watermark of A`,
		by:    map[string]func(w *World) error{"the fold has no watermark of A": noWatermark},
		comes: []string{"A sends and has the ack: the forward of s/0/0", "submissions/1 has at 0"},
	},
	{
		name:   "a forward that only memory knows as sent needs its input again",
		config: Config{Partitions: 2, Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T2")}},
		script: `
			the group gives the partition to B
			A claims and owns
			A reads submissions
			=> A decides InputForwarded()[A1/0
			A's append lands: InputForwarded
			A has the ack of its append
			A sends and has the ack: the forward of s/0/0
			=> submissions/1 has at 0
			* the fold has no watermark of A
			B learns
			B reads its log
			B's claim lands
			=> at 5: Claim{B1, prev A1}: accepted
			B reads its log
			=> B owns epoch B1
			B fetches submissions 0
			=> B is about to send the forward of s/0/0
			B sends and has the ack: the forward of s/0/0
			=> submissions/1 has at 1`,
		by: map[string]func(w *World) error{"the fold has no watermark of A": noWatermark},
	},
	{
		name:   "a forward that the broker refuses becomes a dead letter",
		config: Config{Partitions: 2, Budgets: budget{Refusals: 1}, Clients: []Client{submits("T2"), submits("T1")}},
		script: `
			A claims and owns
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
		name:   "a forward that comes again after its task was forgotten is a dead letter",
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
}

// comesBack takes the forward that partition 1 has received and copies it, unchanged, back into partition 0.
func comesBack(w *World) error {
	id := w.s.parts[1].inputs[0][0].input
	if r := w.sp.inputs[id].record; r.Header(events.HeaderForwardedFrom) == "" {
		return fmt.Errorf("the forward is not marked")
	}
	w.put(0, id)
	return nil
}
