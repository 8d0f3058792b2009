package supervisor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

// silentPartition lets a partition of an agent's topic take no work.
func silentPartition(partition int32) func(supervisor.Send) bool {
	return func(s supervisor.Send) bool { return s.Kind == events.EffectWork && s.Record.Partition == partition }
}

// twoInstances is a candidate in a namespace of four partitions whose partition 0 takes no work for agent alpha.
func twoInstances(b *bench) *candidate {
	b.partitions = 4
	a := b.candidate("A").own()
	a.o.SetOffers(b.now, offers(64, reads("a", 64, 0), reads("b", 64, 1)))
	a.silent = silentPartition(0)
	return a
}

func TestNewWorkAvoidsAPartitionThatTakesNone(t *testing.T) {
	t.Parallel()
	b := newBench(t, longStep)
	a := twoInstances(b)
	ids := home(4, 4)
	b.submit(ids[0], "long", "")
	a.run()
	a.pass(time.Second)
	require.Empty(t, a.work(), "partition 0 has not answered yet")
	a.pass(1500 * time.Millisecond)
	b.submit(ids[1], "long", "")
	a.run()
	require.Equal(t, []string{ids[1] + ".only do#1"}, a.work(), "the first request is not sent twice: its first copy may land later")
	require.Equal(t, map[int32]int{1: 1}, spread(a, 0))

	a.pass(time.Minute)
	b.submit(ids[2], "long", "")
	a.run()
	require.Equal(t, map[int32]int{1: 2}, spread(a, 0), "it is avoided for as long as it has not answered")

	b.done(ids[0], "only", 1) // the request had landed
	a.silent = nil
	for _, s := range a.unanswered {
		a.o.Sent(b.now, s.Generation, s.ID, nil)
	}
	a.run()
	a.pass(11 * time.Second)
	b.submit(ids[3], "long", "")
	a.run()
	require.Equal(t, map[int32]int{0: 1, 1: 2}, spread(a, 0), "it is tried again")
}

// Nothing else reads the work of the agent, so the attempt times out. It does not count, except where one attempt is allowed.
func TestAnAttemptWhoseRequestNoBrokerTookDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempts string
		want     events.TaskState
	}{
		"two attempts": {"2", events.TaskStateProcessing},
		"one attempt":  {"1", events.TaskStateError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, `
workflow: one
defaults: {complete_within: 1s, retry: {attempts: `+c.attempts+`, backoff: 100ms, then: park}}
steps:
  only: {agent: alpha}
`)
			a := b.candidate("A").own()
			a.silent = silentPartition(0)
			b.submit("t1", "one", "")
			a.run()
			for range 40 {
				a.pass(500 * time.Millisecond)
			}
			require.Equal(t, c.want, b.task("t1").State, b.names())
			if name != "two attempts" {
				return
			}
			require.Greater(t, b.task("t1").Step("only").Attempt, 3)
			require.Contains(t, last[*events.Timeout](b).Verdict.Reason, supervisor.UnsentReason)
			a.silent = nil
			for range 80 {
				a.pass(500 * time.Millisecond)
			}
			require.Equal(t, events.TaskStateError, b.task("t1").State, "requests that arrive and are not answered count")
			require.Equal(t, 2, b.task("t1").Step("only").Tries)
		})
	}
}

// While the brokers take no work for an agent at all, no more attempts of it start, since they would only time out. The work of others
// goes on.
func TestNoWorkStartsForATopicThatTakesNone(t *testing.T) {
	t.Parallel()
	for name, offered := range map[string]bool{"instances that publish what they read": true, "an agent that nobody routes to": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, longStep, `
workflow: other
defaults: {complete_within: 1h}
steps:
  only: {agent: beta}
`)
			a := b.candidate("A").own()
			if offered {
				alpha := offers(64, reads("a", 64, 0))
				alpha["beta"] = supervisor.Offer{Window: 64, Do: true}
				a.o.SetOffers(b.now, alpha)
			}
			a.silent = func(s supervisor.Send) bool { return s.Topic == "work.alpha" }
			b.submit("t1", "long", "")
			a.run()
			a.pass(2500 * time.Millisecond)
			b.submit("t2", "long", "")
			b.submit("t3", "other", "")
			a.run()
			for range 40 {
				a.pass(time.Second)
			}
			require.Equal(t, []string{"t3.only do#1"}, a.work())
			require.Equal(t, 2, count[*events.StepStarted](b), b.names())
			require.Equal(t, []events.Missing{{Agent: "alpha", Operation: events.Do, Since: start.Add(2501 * time.Millisecond), Behind: true}}, a.o.Status().Missing)

			a.silent = nil
			for _, s := range a.unanswered {
				a.o.Sent(b.now, s.Generation, s.ID, nil)
			}
			a.run()
			a.pass(11 * time.Second)
			require.Equal(t, []string{"t3.only do#1", "t2.only do#1"}, a.work())
			require.Empty(t, a.o.Status().Missing)
		})
	}
}
