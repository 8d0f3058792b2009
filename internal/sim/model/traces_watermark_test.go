package model

import (
	"fmt"
	"strings"

	"github.com/sagalog/sagalog/supervisor"
)

// watermarkTraces are about the position up to which effects are acknowledged.
var watermarkTraces = []trace{
	{
		name:   "the watermark counts no fact in flight",
		config: Config{Budgets: budget{Crashes: 1}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A claims and owns
			A reads submissions
			=> A decides InputRejected(unreadable)[A1/0
			without watermark<=A1
			=> A decides Submitted(T1)[A1/1
			A's append lands: InputRejected
			=> accepted
			A's append lands: Submitted
			=> accepted
			* the fold has no watermark of A
			A crashes, keeps its store`,
		by:    map[string]func(w *World) error{"the fold has no watermark of A": noWatermark},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0"},
	},
	{
		name: "the watermark is contiguous",
		rule: supervisor.RuleWatermark, breaks: "the watermark passed an effect that nobody sent",
		config: Config{Budgets: budget{Passes: 1}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A claims and owns
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
			without watermark<=A1
			A's append lands: Timeout
			on: * the fold has no watermark of A`,
		by:    map[string]func(w *World) error{"the fold has no watermark of A": noWatermark},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0", "watermark<=A1/"},
	},
	{
		name: "what lies before a claim is not acknowledged by it",
		rule: supervisor.RuleWatermark, breaks: "the watermark passed an effect that nobody sent",
		config: Config{Budgets: budget{Unknowns: 1}, Clients: []Client{garbage(), submits("T1")}, InFlight: 1},
		script: `
			A claims and owns
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
			without watermark<=A1/0
			A's append lands: Submitted
			=> accepted
			* the fold has no watermark of A`,
		by:    map[string]func(w *World) error{"the fold has no watermark of A": noWatermark},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0"},
	},
	{
		name: "what the store held at the take-over is sent again too",
		rule: supervisor.RuleWatermark, breaks: "the watermark passed an effect that nobody sent",
		config: Config{Budgets: budget{Unknowns: 1}, Clients: []Client{garbage(), submits("T1")}},
		script: `
			A claims and owns
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
			without watermark<=A1/0
			A's append lands: Submitted
			=> accepted
			* the fold has no watermark of A`,
		by:    map[string]func(w *World) error{"the fold has no watermark of A": noWatermark},
		comes: []string{"A sends and has the ack: the dead letter of submissions 0"},
	},
	{
		name:   "a dead letter that only memory knows as sent needs its input again",
		config: Config{Budgets: budget{Reassigns: 1, StaleClaims: 1}, Clients: []Client{garbage()}},
		script: `
			the group gives the partition to B
			A claims and owns
			A reads submissions
			=> A decides InputRejected(unreadable)[A1/0
			A's append lands: InputRejected
			A has the ack of its append
			A sends and has the ack: the dead letter of submissions 0
			* the fold has no watermark of A
			B learns
			B reads its log
			B's claim lands
			=> at 5: Claim{B1, prev A1}: accepted
			B reads its log
			=> B owns epoch B1
			B fetches submissions 0
			=> B is about to send the dead letter of submissions 0
			B sends and has the ack: the dead letter of submissions 0`,
		by: map[string]func(w *World) error{"the fold has no watermark of A": noWatermark},
	},
}

// noWatermark checks that the watermark in the log has not passed any effect of A's epochs. Whatever deletes inputs
// would rely on that watermark.
func noWatermark(w *World) error {
	if p := w.replica(0).log().state.Partition.Watermark; strings.HasPrefix(claimName(p.Epoch.ID), "A") {
		return fmt.Errorf("the watermark is at %s/%d", claimName(p.Epoch.ID), p.Sequence)
	}
	return nil
}
