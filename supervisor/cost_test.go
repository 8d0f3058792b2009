package supervisor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// costing adds up what the expressions of an owner cost.
type costing struct {
	*scheduler.Scheduler
	cost int
}

func (c *costing) Plan(t *events.Task) (events.Plan, error) {
	plan, err := c.Scheduler.Plan(t)
	c.cost += plan.Cost
	return plan, err
}

// costly is a condition that takes most of the budget of a plan.
const costly = "count(1..150000, # > input.n) %s 150000"

// An owner looks at the head of the queue again and again while no agent is there. Its conditions must not be evaluated again.
func TestAStepThatWaitsForItsAgentCostsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, fmt.Sprintf("workflow: costly\nsteps:\n  only: {agent: alpha, if: \"${ "+costly+" }\"}\n", "=="))
	sched := &costing{Scheduler: scheduler.New()}
	a := b.candidate("A", func(c *candidate) { c.sched = sched }).own()
	a.o.SetOffers(b.now, map[string]supervisor.Offer{})
	b.submit("t0", "costly", `,"input":{"n":0}`)
	a.run()
	a.pass(time.Second)
	before := sched.cost
	require.Positive(t, before)
	for range 20 {
		a.pass(time.Second)
	}
	require.Equal(t, before, sched.cost)
	require.Len(t, a.o.Status().Missing, 1)
}

// Each skipped step leads to another plan, so that a chain of conditions could take a thousand budgets for one cause. The task is
// parked after a few, and a retry goes on.
func TestAChainOfCostlyConditionsIsParked(t *testing.T) {
	if testing.Short() {
		t.Skip("large, and the race detector has nothing to find: step test runs it")
	}
	t.Parallel()
	var w strings.Builder
	w.WriteString("workflow: chain\nsteps:\n  s0: {agent: alpha, if: \"${ " + fmt.Sprintf(costly, "!=") + " }\"}\n")
	for i := range 11 {
		fmt.Fprintf(&w, "  s%d: {agent: alpha, needs: [s%d], if: \"${ "+costly+" }\"}\n", i+1, i, "!=")
	}
	b := newBench(t, w.String())
	sched := &costing{Scheduler: scheduler.New()}
	a := b.candidate("A", func(c *candidate) { c.sched = sched }).own()
	b.submit("t0", "chain", `,"input":{"n":0}`)
	a.run()
	parked := b.task("t0")
	require.Equal(t, events.TaskStateError, parked.State)
	require.Contains(t, parked.Reason, "do too much work; a retry continues")
	require.Less(t, sched.cost, 8_000_000)
	for i := range 3 {
		b.request(events.RequestRetry, fmt.Sprint("r", i), "t0")
		a.run()
	}
	require.Equal(t, events.TaskStateProcessed, b.task("t0").State)
}

// Past its pivot a task cannot be cancelled, and an output that fails will fail again: a retry ends the task without one.
func TestARetryEndsATaskWhoseOutputFails(t *testing.T) {
	t.Parallel()
	for name, output := range map[string]string{
		"an expression that fails": "${ input.x.y }",
		"too large":                strings.Repeat("x", 300<<10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "workflow: out\nsteps:\n  only: {agent: alpha, pivot: true}\noutput: \""+output+"\"\n")
			a := b.candidate("A").own()
			b.submit("t0", "out", `,"input":{"x":null}`)
			a.run()
			b.report(events.Report{Task: "t0", Step: "only", Operation: events.Do, Attempt: 1, Run: 1, Result: events.ResultCompleted, Output: []byte("1")})
			a.run()
			require.Equal(t, events.TaskStateError, b.task("t0").State)
			require.Contains(t, b.task("t0").Reason, "; a retry ends the task with the output null")
			require.NotContains(t, b.task("t0").Reason, "cancel")
			b.request(events.RequestRetry, "r0", "t0")
			a.run()
			require.Equal(t, events.TaskStateProcessed, b.task("t0").State)
			require.Equal(t, "null", string(b.task("t0").Output))
		})
	}
}

// A start shows only when it is decided how large it is and what it cost. A batch ends with the start that fills it, whatever room the
// agent has, and the other starts come with the next batches.
func TestABatchOfStartsIsBoundedByBytesAndCost(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]string{
		"bytes": "${ input.text }",
		"cost":  "${ count(1..150000, # > input.n) }",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "workflow: large\nsteps:\n  only: {agent: alpha, with: {v: \""+with+"\"}}\n")
			a := b.candidate("A", func(c *candidate) { c.cfg.BatchBytes = 64 << 10 }).own()
			a.o.SetOffers(b.now, map[string]supervisor.Offer{})
			text := strings.Repeat("x", 30<<10)
			for i := range 6 {
				b.submit(fmt.Sprint("t", i), "large", `,"input":{"n":0,"text":"`+text+`"}`)
			}
			a.run()
			a.hold["Append"] = true
			a.o.SetOffers(b.now, offers(64))
			a.run()
			list := held[supervisor.Append](a)
			require.NotEmpty(t, list)
			require.LessOrEqual(t, len(list[0].Records), 4)
			a.hold["Append"] = false
			a.run()
			a.pass(time.Second)
			require.Equal(t, 6, count[*events.StepStarted](b))
		})
	}
}
