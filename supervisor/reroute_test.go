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

func TestWorkThatItsPartitionDoesNotTakeGoesToAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, longStep)
	a := twoInstances(b)
	ids := home(4, 3)
	b.submit(ids[0], "long", "")
	a.run()
	a.pass(time.Second)
	require.Empty(t, a.work(), "partition 0 has not answered yet")
	a.pass(1500 * time.Millisecond)
	require.Equal(t, []string{ids[0] + ".only do#1"}, a.work())
	require.Equal(t, map[int32]int{1: 1}, spread(a, 0))

	b.submit(ids[1], "long", "")
	a.run()
	require.Equal(t, map[int32]int{1: 2}, spread(a, 0), "the next one does not try the slow partition first")

	a.silent = nil
	a.pass(slowFor)
	b.submit(ids[2], "long", "")
	a.run()
	require.Equal(t, map[int32]int{0: 1, 1: 2}, spread(a, 0), "the slow partition is tried again")
}

const slowFor = 11 * time.Second

// The first request may have landed without an answer, at an instance that has an effect.
func TestAReroutedAttemptIsNeverWithoutEffect(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"sent once": time.Second, "sent twice": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, longStep)
			a := twoInstances(b)
			id := home(4, 1)[0]
			b.submit(id, "long", "")
			a.run()
			a.pass(wait)
			b.failed(id, "only", 1, events.ClassPermanent, events.EffectNone)
			a.run()
			want := events.EffectNone
			if name == "sent twice" {
				want = events.EffectInDoubt
			}
			require.Equal(t, want, last[*events.StepFailed](b).Effect)
		})
	}
}

// The request landed without an answer, and its attempt has ended: a copy would do the step again, perhaps after its undo.
func TestWorkOfAnAttemptThatEndedIsNotRerouted(t *testing.T) {
	t.Parallel()
	b := newBench(t, longStep)
	a := twoInstances(b)
	id := home(4, 1)[0]
	b.submit(id, "long", "")
	a.run()
	b.done(id, "only", 1)
	a.run()
	a.pass(5 * time.Second)
	require.Empty(t, a.work())
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
defaults: {complete_by: 1s, retry: {attempts: `+c.attempts+`, backoff: 100ms, then: park}}
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
