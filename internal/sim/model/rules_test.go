package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim/model"
	"github.com/sagalog/sagalog/supervisor"
)

type budget = map[model.Budget]int

// TestModelNeedsEachRule switches off one rule at a time (docs/protocol.md, "What breaks without each rule"). The
// search then finds the shortest path that violates a property. With the rule on, no path of that length violates any.
func TestModelNeedsEachRule(t *testing.T) {
	t.Parallel()
	one := []model.Client{{Kind: model.Submit, Task: "T1", AtStart: true}}
	none := []model.Client{{Kind: model.Submit, Task: "T1", Workflow: "none", AtStart: true}}
	stray := []model.Client{{Kind: model.Submit, Task: model.TaskOf(1, 1), Workflow: "none", AtStart: true}}
	for _, c := range []struct {
		rule   string
		off    supervisor.Rule
		config model.Config
		breaks string
	}{
		{"a claim names its predecessor", supervisor.RuleClaimPrev,
			model.Config{Clients: none, Budgets: budget{model.Doubles: 1, model.Reassigns: 1, model.LateAppends: 1}},
			"INV11: the claim A1 becomes current a second time"},
		{"the claim is read back", supervisor.RuleReadBack,
			model.Config{Clients: none, ClaimAcks: true, Budgets: budget{model.Reassigns: 1}},
			"INV2: a store differs from the fold"},
		{"the sequence is gapless", supervisor.RuleSequence,
			model.Config{Clients: one, Budgets: budget{model.Reorders: 1}},
			"INV2: StepStarted"},
		{"acknowledged offsets are contiguous", supervisor.RuleContiguous,
			model.Config{Clients: one, Budgets: budget{model.Reassigns: 1}},
			"INV8: phantom"},
		{"effects leave after their facts are durable", supervisor.RuleDurable,
			model.Config{Clients: one},
			"INV8: phantom"},
		{"effects above the watermark are sent again", supervisor.RuleWatermark,
			model.Config{Clients: one, Budgets: budget{model.Crashes: 1}},
			"lost effect"},
		{"an unknown outcome ends the epoch", supervisor.RuleUnknown,
			model.Config{Clients: one, UnknownByTick: true, Budgets: budget{model.Unknowns: 1}},
			"INV8: phantom"},
		{"inputs are resumed from the fold", supervisor.RuleResume,
			model.Config{Clients: one, Budgets: budget{model.Unknowns: 1}},
			"INV12"},
		{"a timer waits for the reports", supervisor.RuleTimers,
			model.Config{Clients: one, Budgets: budget{model.Passes: 1}},
			"a Timeout beat a report"},
		{"a misplaced input is forwarded by a fact", supervisor.RuleForward,
			model.Config{Clients: stray, Partitions: 2, Budgets: budget{model.Crashes: 1}},
			"INV12: an acknowledged input has no outcome"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			c.config.Coarse = true
			off := c.config
			off.Off = c.off
			broken := model.Search{Config: off, Breaks: c.breaks, MaxStates: 50_000}.Run()
			require.Contains(t, broken.Violation, c.breaks, "no property is violated without the rule")
			t.Logf("without it after %d steps, %d states: %s", broken.Steps, broken.States, broken.Violation)
			kept := model.Search{Config: c.config, MaxDepth: broken.Steps}.Run()
			require.Empty(t, kept.Violation, kept.String())
		})
	}
}
