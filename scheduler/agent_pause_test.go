package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// Anyone may write the topic, so the agents that are paused are bounded; those that are paused can be resumed.
func TestTheAgentsThatArePausedAreBounded(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	apply := func(a events.AgentPause) error {
		r, err := scheduler.EncodeAgentPause(&a, events.Subject{ID: "1", Source: "/test"})
		require.NoError(t, err)
		return c.Apply(&r)
	}
	for i := range scheduler.MaxPaused {
		require.NoError(t, apply(events.AgentPause{Agent: fmt.Sprint("a", i), Paused: true}))
	}
	require.ErrorContains(t, apply(events.AgentPause{Agent: "more", Paused: true}), "1000 agents are paused already")
	require.NoError(t, apply(events.AgentPause{Agent: "a0", Paused: true, By: "ada"}))
	require.Equal(t, "ada", c.Paused()["a0"].By, "the latest record counts")
	require.NoError(t, apply(events.AgentPause{Agent: "a0"}))
	require.NoError(t, apply(events.AgentPause{Agent: "more", Paused: true}))
	require.Len(t, c.Paused(), scheduler.MaxPaused)
	require.Error(t, apply(events.AgentPause{Paused: true}))
}
