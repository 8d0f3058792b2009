package model_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/sim/model"
)

// TestATaskRunsToItsEnd plays a world without faults, action by action.
func TestATaskRunsToItsEnd(t *testing.T) {
	t.Parallel()
	w := model.New(model.Config{Clients: []model.Client{{Kind: model.Submit, Task: "T1", AtStart: true}}})
	for range 100 {
		var next string
		for _, a := range w.Enabled() {
			if a.Progress {
				next = w.Name(a)
				break
			}
		}
		if next == "" {
			break
		}
		require.NoError(t, w.Do(next))
		require.Empty(t, w.Violation())
	}
	require.True(t, w.Quiet())
	require.Empty(t, w.Rest())
	require.Contains(t, strings.Join(w.Path(), "\n"), "TaskProcessed(T1)[A1/3]: accepted")
}

func TestAScriptNamesActionsByTheirBeginning(t *testing.T) {
	t.Parallel()
	w := model.New(model.Config{
		Budgets: map[model.Budget]int{model.Reassigns: 1},
		Clients: []model.Client{{Kind: model.Submit, Task: "T1", AtStart: true}},
	})
	for _, does := range []string{"A reads its log", "A's claim lands", "A reads its log", "A reads submissions", "the group gives the partition to B", "B learns"} {
		require.NoError(t, w.Do(does))
		require.Empty(t, w.Violation())
	}
	err := w.Do("B sends")
	require.ErrorContains(t, err, "B reads its log up to 4")
	require.False(t, w.Quiet())
}
