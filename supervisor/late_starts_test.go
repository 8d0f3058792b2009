package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// The home of a task takes the submission of its schedule late. It refuses it only if it may have forgotten that task.
func TestALateStartIsRefusedOnlyIfItsTaskMayBeForgotten(t *testing.T) {
	t.Parallel()
	const other = "workflow: own\nremember_for: 1m\nsteps:\n  only: {agent: alpha}\n"
	for name, c := range map[string]struct {
		workflow string // what the workflow of the schedule says besides its steps
		setting  time.Duration
		late     time.Duration
		// forgets says that a task of another workflow was accepted after the schedule's fact, and is forgotten.
		forgets bool
		refused bool
	}{
		"a task that no schedule started was forgotten":      {"", time.Hour, time.Minute, true, false},
		"the workflow remembers for longer than the setting": {"remember_for: 720h\n", time.Minute, 5 * time.Hour, false, false},
		"neither remembers for that long":                    {"remember_for: 2m\n", time.Minute, 3 * time.Minute, false, true},
		"the setting is longer than the workflow":            {"remember_for: 1m\n", time.Hour, 50 * time.Minute, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &timetable{newBench(t, reportSteps+c.workflow, other), 10, hourlyReport}
			a := b.tell(b.candidate("A", knows(3, c.setting)).own())
			due := b.hourly().Next
			a.pass(b.until())
			start := a.sentTo("submissions")[0]
			if c.forgets {
				b.submit("own", "own", "")
				a.run()
				b.done("own", "only", 1)
				a.run()
				a.forget("own")
			}
			a.pass(c.late)
			b.put(events.Submissions, start)
			a.run()
			if c.refused {
				require.Equal(t, []string{"s/0/0 " + events.RejectTooOld}, b.rejected())
			} else {
				require.Empty(t, b.rejected())
				require.Equal(t, "hourly", b.task(events.ScheduleTask("hourly", due)).Schedule)
			}
			sameEverywhere(t, b.bench, a)
		})
	}
}

// A newer version of the workflow says that its tasks are remembered for longer. A task of the older one was forgotten before, and another copy of its
// submission is young enough by the newer version.
func TestALateStartIsRefusedThoughItsWorkflowRemembersLongerNow(t *testing.T) {
	t.Parallel()
	b := &timetable{newBench(t, reportSteps+"remember_for: 1m\n"), 10, hourlyReport}
	a := b.tell(b.candidate("A", forgetful).own())
	due := b.hourly().Next
	a.pass(b.until())
	start := a.sentTo("submissions")[0]
	b.deliver(a)
	b.ended(a, due)
	a.forget(events.ScheduleTask("hourly", due))
	b.define(reportSteps + "remember_for: 720h\n")
	b.put(events.Submissions, start)
	a.run()
	require.Equal(t, 1, count[*events.Submitted](b.bench))
	require.Equal(t, []string{"s/0/1 " + events.RejectTooOld}, b.rejected())
	sameEverywhere(t, b.bench, a)
}

// A submission was refused as too old, and its schedule has read that. By settings that came later, another copy is young enough.
func TestALateStartThatWasRefusedStaysRefused(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	a := b.tell(b.candidate("A", knows(3, time.Minute)).own())
	a.pass(b.until())
	start := a.sentTo("submissions")[0]
	a.pass(2 * time.Minute)
	b.deliver(a)
	b.deliver(a)
	require.Equal(t, events.EndRejected, b.hourly().Fires[0].State)
	c := b.tell(b.candidate("B", knows(4, 24*time.Hour)).own())
	b.put(events.Submissions, start)
	c.run()
	require.Equal(t, []string{"s/0/0 " + events.RejectTooOld, "s/0/1 " + events.RejectTooOld}, b.rejected())
	sameEverywhere(t, b.bench, c)
}

// The reports of a schedule's home take nothing for a while, so the log does not wait for them. The task is remembered until they have its end: a new
// owner of the schedule would send its submission again.
func TestATaskIsRememberedUntilItsScheduleHasItsEnd(t *testing.T) {
	t.Parallel()
	b := newTimetable(t, "")
	a := b.candidate("A", forgetful, func(c *candidate) { c.cfg.DelayAfter = time.Second })
	a.silent = func(s supervisor.Send) bool { return s.Kind == events.EffectEnd }
	b.tell(a.own())
	id := events.ScheduleTask("hourly", b.hourly().Next)
	a.pass(b.until())
	b.deliver(a)
	b.done(id, "make", 1)
	a.run()
	for range 100 {
		a.pass(time.Second)
	}
	require.Equal(t, 1, count[*events.EffectsDelayed](b.bench))
	require.Equal(t, events.TaskStateProcessed, b.task(id).State)
	require.Len(t, a.unanswered, 1)
	a.o.Sent(b.now, a.unanswered[0].Generation, a.unanswered[0].ID, nil)
	a.run()
	a.forget(id)
	sameEverywhere(t, b.bench, a)
}
