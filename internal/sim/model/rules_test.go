package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim/model"
	"github.com/sagalog/sagalog/supervisor"
)

type budget = map[model.Budget]int

// TestModelNeedsEachRule switches off one rule of DESIGN 4 at a time: the search then finds the shortest way to break a
// property, and with the rule no way of that length breaks any. trace names the scenario of reading/traces.md.
func TestModelNeedsEachRule(t *testing.T) {
	t.Parallel()
	one := []model.Client{{Kind: model.Submit, Task: "T1", AtStart: true}}
	none := []model.Client{{Kind: model.Submit, Task: "T1", Workflow: "none", AtStart: true}}
	stray := []model.Client{{Kind: model.Submit, Task: model.TaskOf(1, 1), Workflow: "none", AtStart: true}}
	for _, c := range []struct {
		rule, trace string
		off         supervisor.Rule
		config      model.Config
		breaks      string
	}{
		{"a claim names its predecessor", "a1", supervisor.RuleClaimPrev,
			model.Config{Clients: none, Budgets: budget{model.Doubles: 1, model.Reassigns: 1, model.LateAppends: 1}},
			"INV11: the claim A1 becomes current a second time"},
		{"the claim is read back", "b1", supervisor.RuleReadBack,
			model.Config{Clients: none, ClaimAcks: true, Budgets: budget{model.Reassigns: 1}},
			"INV2: a store differs from the fold"},
		{"the sequence is gapless", "c1", supervisor.RuleSequence,
			model.Config{Clients: one, Budgets: budget{model.Reorders: 1}},
			"INV2: StepStarted"},
		{"acknowledged offsets are contiguous", "d1", supervisor.RuleContiguous,
			model.Config{Clients: one, Budgets: budget{model.Reassigns: 1}},
			"INV8: phantom"},
		{"effects leave after their facts are durable", "e1", supervisor.RuleDurable,
			model.Config{Clients: one},
			"INV8: phantom"},
		{"settled effects are contiguous and sent again", "f1", supervisor.RuleSettled,
			model.Config{Clients: one, Budgets: budget{model.Crashes: 1}},
			"lost effect"},
		{"an unknown outcome ends the epoch", "g1", supervisor.RuleUnknown,
			model.Config{Clients: one, UnknownByTick: true, Budgets: budget{model.Unknowns: 1}},
			"INV8: phantom"},
		{"inputs are resumed from the fold", "h4", supervisor.RuleResume,
			model.Config{Clients: one, Budgets: budget{model.Unknowns: 1}},
			"INV12"},
		{"a timer waits for the reports", "Em1", supervisor.RuleTimers,
			model.Config{Clients: one, Budgets: budget{model.Passes: 1}},
			"a Timeout beat a report"},
		{"a misplaced input is forwarded by a fact", "Am1", supervisor.RuleForward,
			model.Config{Clients: stray, Partitions: 2, Budgets: budget{model.Crashes: 1}},
			"INV12: an acknowledged input ends in nothing"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			c.config.Coarse = true
			off := c.config
			off.Off = c.off
			broken := model.Search{Config: off, Breaks: c.breaks, MaxStates: 50_000}.Run()
			require.Contains(t, broken.Violation, c.breaks, "nothing needs the rule (trace %s)", c.trace)
			t.Logf("without it (trace %s) after %d steps, %d states: %s", c.trace, broken.Steps, broken.States, broken.Violation)
			kept := model.Search{Config: c.config, MaxDepth: broken.Steps}.Run()
			require.Empty(t, kept.Violation, kept.String())
		})
	}
}
