package supervisor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

const sharedAgent = `workflow: shared
labels: {tenant: "${ input.tenant }"}
priority: "${ input.urgent == true ? 5 : 0 }"
fair_by: "${ task.labels.tenant }"
steps: {only: {agent: alpha}}
`

// starts lets the agent complete what was sent to it until n attempts have started, and returns their tasks.
func (c *candidate) starts(n int) (tasks []string) {
	done := 0
	for range 10 * n {
		for _, w := range c.requests()[done:] {
			done++
			tasks = append(tasks, w.Task)
			if len(tasks) == n {
				return tasks
			}
			c.b.done(w.Task, w.Step, w.Attempt)
		}
		c.pass(10 * time.Millisecond)
	}
	require.Fail(c.b.t, "too few attempts start", "%v", tasks)
	return nil
}

// Memory holds a part of the queue, so a tenant's tasks have to be found in the store too, also by a new owner.
func TestATenantWithManyTasksDoesNotHoldUpAnother(t *testing.T) {
	t.Parallel()
	const many, few, window = 2000, 10, 4
	for name, takeOver := range map[string]bool{"the same owner": false, "a new owner": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sharedAgent)
			a := b.candidate("A", func(c *candidate) { c.cfg.Queue = 50 })
			a.o.SetOffers(b.now, map[string]supervisor.Offer{})
			a.own()
			for i := range many {
				b.submit(fmt.Sprintf("large%04d", i), "shared", `,"input":{"tenant":"large"}`)
			}
			a.run()
			for i := range few {
				b.submit(fmt.Sprintf("small%d", i), "shared", `,"input":{"tenant":"small"}`)
			}
			b.submit("urgent0", "shared", `,"input":{"tenant":"large","urgent":true}`)
			b.submit("urgent1", "shared", `,"input":{"tenant":"large","urgent":true}`)
			a.run()
			if takeOver {
				a.restart()
				a.o.SetOffers(b.now, map[string]supervisor.Offer{})
				a.own()
			}
			require.Empty(t, a.requests())
			a.o.SetOffers(b.now, offers(window))

			started := a.starts(2 + 2*few + 4)
			require.Equal(t, []string{"urgent0", "urgent1"}, started[:2])
			small := 0
			for i, task := range started[2:] {
				if strings.HasPrefix(task, "small") {
					require.Equal(t, fmt.Sprint("small", small), task)
					small++
				} else {
					require.Equal(t, fmt.Sprintf("large%04d", i-small), task)
				}
				require.LessOrEqual(t, min(i, 2*few), 2*small+1, "%v", started)
			}
			require.Equal(t, few, small)
		})
	}
}

func TestATaskKeepsTheKeyOfItsFirstJudgement(t *testing.T) {
	t.Parallel()
	b := newBench(t, sharedAgent, "workflow: keyed\nfair_by: \"${ input.key }\"\nsteps: {only: {agent: alpha}}\n")
	a := b.candidate("A").own()
	b.submit("t1", "shared", `,"input":{"tenant":"acme"}`)
	b.submit("t2", "keyed", `,"input":{"key":7}`)
	b.submit("t3", "keyed", `,"input":{}`)
	a.run()
	require.Equal(t, "acme", b.task("t1").FairBy)
	require.Equal(t, "7", b.task("t2").FairBy)
	require.Empty(t, b.task("t3").FairBy)
	for key, fault := range map[string]string{
		`["a"]`: "/fair_by: fair_by of the workflow is an object or a list; a key is a text, a number, true or false",
		`""`:    "/fair_by: fair_by of the workflow is empty; for a task without a key it must be null",
		`"` + strings.Repeat("x", events.MaxTaskID+1) + `"`: "/fair_by: fair_by of the workflow has 256 bytes; 255 are allowed",
		`"\n"`: `/fair_by: fair_by of the workflow "\n" is not UTF-8 without control characters`,
	} {
		b.submit("bad", "keyed", `,"input":{"key":`+key+`}`)
		a.run()
		require.Equal(t, events.RejectSchema, last[*events.InputRejected](b).Reason)
		require.Equal(t, fault, last[*events.InputRejected](b).Detail)
	}
	sameEverywhere(t, b, a)
}
