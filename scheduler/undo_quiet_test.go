package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// The next run of a step is offered for when no request to undo it can land any more, or for when its retry may start, if that is later.
func TestAStepIsOfferedWhenItsUndoIsQuiet(t *testing.T) {
	t.Parallel()
	const text = "workflow: w\nsteps:\n  a: {agent: a, undo: {}}"
	for _, c := range []struct {
		attempt        int
		retryAt, quiet events.Instant
	}{{0, 0, 7}, {1, 5, 7}, {1, 7, 5}} {
		s := &events.Step{Path: "a", State: events.StepStateWaiting, Attempt: c.attempt, RetryAt: c.retryAt}
		s.UndoQuietAt = c.quiet
		plan := sleeping(t, text, `{}`, s)
		require.Len(t, plan.Ready, 1)
		require.Equal(t, events.Instant(7), plan.Ready[0].NotBefore)
	}
}
