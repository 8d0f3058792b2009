package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/supervisor"
)

// TestEachRuleIsNeeded switches off one rule at a time (docs/protocol.md, "What breaks without each rule"). Then some
// seed violates an invariant, and with the rule on the same seed violates none.
func TestEachRuleIsNeeded(t *testing.T) {
	t.Parallel()
	hand := sim.Faults{Reassign: 8, Pause: 4, Crash: 4, Slow: 0.1, AgentFails: 0.1, AgentSilent: 0.1, Duplicate: 0.3}
	with := func(change func(f *sim.Faults)) *sim.Faults {
		f := hand
		change(&f)
		return &f
	}
	for _, c := range []struct {
		name   string
		rule   supervisor.Rule
		faults *sim.Faults
		breaks string
	}{
		{"a claim names its predecessor", supervisor.RuleClaimPrev, with(func(f *sim.Faults) { f.Double, f.Slow = 0.3, 0.3 }), "INV11"},
		{"the claim is read back", supervisor.RuleReadBack, with(func(f *sim.Faults) { f.Slow = 0.3 }), "INV"},
		{"the sequence is gapless", supervisor.RuleSequence, with(func(f *sim.Faults) { f.Lost, f.Reorder = 0.1, 0.5 }), "INV|has an earlier time|the watermark passes"},
		{"acknowledged offsets are contiguous", supervisor.RuleContiguous, with(func(f *sim.Faults) { f.Apart, f.Double = 0.1, 0.1 }), "INV"},
		{"effects leave after their facts are durable", supervisor.RuleDurable, with(func(*sim.Faults) {}), "INV8"},
		{"effects above the watermark are sent again", supervisor.RuleWatermark, with(func(*sim.Faults) {}), "the watermark passes"},
		{"an unknown outcome ends the epoch", supervisor.RuleUnknown, with(func(f *sim.Faults) { f.Lost, f.Silent = 0.05, 0.05 }), "INV"},
		{"inputs are resumed from the fold", supervisor.RuleResume, with(func(f *sim.Faults) { f.Error = 0.2 }), "INV12"},
		{"a timer waits for the reports", supervisor.RuleTimers, with(func(f *sim.Faults) { f.AgentLate, f.Slow = 0.4, 0.3 }), "a Timeout beat a report"},
		{"a misplaced input is forwarded by a fact", supervisor.RuleForward, with(func(f *sim.Faults) { f.Misplaced, f.Slow, f.Crash, f.Pause = 0.6, 0.5, 20, 0 }), "has no outcome"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opt := sim.Options{Faults: c.faults, Partitions: 2, Chaos: 20e9}
			off := opt
			off.Off = c.rule
			failed, _ := run(1, 100, off)
			require.NotNil(t, failed, "no seed violates an invariant without the rule")
			require.Regexp(t, c.breaks, failed.Violation, failed.String())
			t.Logf("without it, seed %d: %s", failed.Seed, failed.Violation)
			kept := sim.Run(failed.Seed, opt)
			require.False(t, kept.Failed(), kept.String())
		})
	}
}

// A submission of a schedule may land again long after its task was forgotten. It starts no second task. (Without the refusal of what is too old, seed 1
// accepts one twice.)
func TestADueTimeStartsOneTask(t *testing.T) {
	t.Parallel()
	faults := sim.Faults{Reassign: 8, Crash: 4, EffectTwice: 0.6, Schedules: 2, LateStarts: 0.8}
	failed, _ := run(1, 10, sim.Options{Faults: &faults, Partitions: 2, Chaos: 30e9, Remember: 2e9})
	require.Nil(t, failed, "%v", failed)
}
