package model

import (
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// settledTraces are about the position up to which effects are acknowledged: Cm.
var settledTraces = []trace{
	{
		name:   "Cm1 the settled position counts no fact in flight",
		config: Config{Budgets: budget{Crashes: 1}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides InputRejected(unreadable)[A1/0
			without settled<=A1
			=> A decides Submitted(T1)[A1/1
			A's append lands: InputRejected
			=> accepted
			A's append lands: Submitted
			=> accepted
			* the fold has settled nothing of A
			A crashes, keeps its store`,
		by:    map[string]func(w *World) error{"the fold has settled nothing of A": unsettled},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0"},
	},
	{
		name: "Cm2 the settled position is contiguous",
		rule: supervisor.RuleSettled, breaks: "settled passed an effect that nobody sent",
		config: Config{Budgets: budget{Passes: 1}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			A's append lands: InputRejected
			A's append lands: Submitted
			A has the ack of its append: InputRejected
			=> A is about to send the dead letter of submissions 0
			=> A decides StepStarted(T1.s attempt 1)[A1/2
			A's append lands: StepStarted
			A has the ack of its append: Submitted
			A has the ack of its append: StepStarted
			A sends and has the ack: T1.s attempt 1
			the clock passes the next step
			A ticks
			the broker answers A's question
			A sees the answer
			on: => A decides Timeout(T1.s attempt 1)[A1/3]
			without settled<=A1
			A's append lands: Timeout
			on: * the fold has settled nothing of A`,
		by:    map[string]func(w *World) error{"the fold has settled nothing of A": unsettled},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0", "settled<=A1/"},
	},
	{
		name: "Cm3 what lies before a claim is not settled by it",
		rule: supervisor.RuleSettled, breaks: "settled passed an effect that nobody sent",
		config: Config{Budgets: budget{Unknowns: 1}, Clients: []Client{garbage(), submits("T1")}, InFlight: 1},
		script: `
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides InputRejected(unreadable)[A1/0
			A's append lands: InputRejected
			=> at 4: .. accepted
			A's append has an unknown outcome: InputRejected
			A reads its log
			A's claim lands
			=> at 5: Claim{A2, prev A1}: accepted
			A reads its log
			=> A owns epoch A2
			A reads submissions
			=> A decides Submitted(T1)[A2/0
			without settled<=A1/0
			A's append lands: Submitted
			=> accepted
			* the fold has settled nothing of A`,
		by:    map[string]func(w *World) error{"the fold has settled nothing of A": unsettled},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0"},
	},
	{
		name: "Cm4 what the store held at the take-over is sent again too",
		rule: supervisor.RuleSettled, breaks: "settled passed an effect that nobody sent",
		config: Config{Budgets: budget{Unknowns: 1}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides Submitted(T1)[A1/1
			A's append lands: InputRejected
			A has the ack of its append: InputRejected
			=> A commits up to 5
			A's append has an unknown outcome: Submitted
			A reads its log
			A's claim lands
			=> at 5: Claim{A2, prev A1}: accepted
			A reads its log
			=> A owns epoch A2
			A reads submissions
			=> A decides Submitted(T1)[A2/0
			without settled<=A1/0
			A's append lands: Submitted
			=> accepted
			* the fold has settled nothing of A`,
		by:    map[string]func(w *World) error{"the fold has settled nothing of A": unsettled},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0"},
	},
	{
		name:   "Cm5 a dead letter that only memory knows as sent needs its input again",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{garbage()}},
		script: `
			the group gives the partition to B
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides InputRejected(unreadable)[A1/0
			A's append lands: InputRejected
			A has the ack of its append
			A sends and has the ack: the dead letter of submissions 0
			* the fold has settled nothing of A
			B learns
			B reads its log
			B's claim lands
			=> at 5: Claim{B1, prev A1}: accepted
			B reads its log
			=> B owns epoch B1
			B fetches submissions 0
			=> B is about to send the dead letter of submissions 0
			B sends and has the ack: the dead letter of submissions 0`,
		by: map[string]func(w *World) error{"the fold has settled nothing of A": unsettled},
	},
}

// unsettled says that the log knows no effect of an epoch of A as settled. What deletes inputs goes by that.
func unsettled(w *World) error {
	if p := w.log(0).state.Partition.Settled; strings.HasPrefix(claimName(p.Epoch.ID), "A") {
		return fmt.Errorf("settled up to %s/%d", claimName(p.Epoch.ID), p.Sequence)
	}
	return nil
}

// forwardTraces are about inputs in a partition that is not theirs: Am. T2 is at home in partition 1.
var forwardTraces = []trace{
	{
		name: "Am1 a misplaced input is forwarded by a fact",
		rule: supervisor.RuleForward, breaks: "INV12: an acknowledged input ends in nothing: the misplaced submissions 0",
		config: Config{Partitions: 2, Budgets: budget{Unknowns: 1}, Clients: []Client{submits("T2"), submits("T1")}},
		script: `
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides Submitted(T1)
			on: has: A decides InputForwarded()[A1/0
			on: A's append lands: InputForwarded
			A's append lands: Submitted(T1)
			=> accepted
			A's append has an unknown outcome
			A reads its log
			A's claim lands
			A reads its log
			=> A owns epoch A2`,
		comes: []string{"A sends and has the ack: the forward of s/0/0", "submissions/1 has at 0"},
	},
	{
		name: "Am2 a forward waits for its fact",
		rule: supervisor.RuleDurable, breaks: "INV8: phantom",
		config: Config{Partitions: 2, Clients: []Client{submits("T2")}},
		script: `
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides InputForwarded()[A1/0
			without A is about to send
			not: A sends`,
		comes: []string{"submissions/1 has at 0"},
	},
	{
		name:   "Am3 a forwarded input that is misplaced again goes no further",
		config: Config{Partitions: 2, Clients: []Client{submits("T2")}},
		script: `
			A reads its log
			A's claim lands
			A reads its log
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
		name: "Am4 a forward before a claim is not settled by it",
		rule: supervisor.RuleSettled, breaks: "settled passed an effect that nobody sent",
		config: Config{Partitions: 2, Budgets: budget{Unknowns: 1}, Clients: []Client{submits("T2"), submits("T1")}, InFlight: 1},
		script: `
			A reads its log
			A's claim lands
			A reads its log
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
			without settled<=A1/0
			A's append lands: Submitted
			=> accepted
			* the fold has settled nothing of A`,
		by:    map[string]func(w *World) error{"the fold has settled nothing of A": unsettled},
		comes: []string{"A sends and has the ack: the forward of s/0/0", "submissions/1 has at 0"},
	},
	{
		name:   "Am5 a forward that only memory knows as sent needs its input again",
		config: Config{Partitions: 2, Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{submits("T2")}},
		script: `
			the group gives the partition to B
			A reads its log
			A's claim lands
			A reads its log
			A reads submissions
			=> A decides InputForwarded()[A1/0
			A's append lands: InputForwarded
			A has the ack of its append
			A sends and has the ack: the forward of s/0/0
			=> submissions/1 has at 0
			* the fold has settled nothing of A
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
		by: map[string]func(w *World) error{"the fold has settled nothing of A": unsettled},
	},
}

// comesBack puts the forward that partition 1 has got into partition 0 again, as it is.
func comesBack(w *World) error {
	id := w.s.parts[1].inputs[0][0].input
	if r := w.sp.inputs[id].record; r.Header(events.HeaderForwardedFrom) == "" {
		return fmt.Errorf("the forward is not marked")
	}
	w.put(0, id)
	return nil
}
