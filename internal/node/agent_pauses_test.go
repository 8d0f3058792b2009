package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// A paused agent stays paused when its node starts again, and its tasks go on when it is resumed.
func TestAPauseOfAnAgentOutlivesItsNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order)
		w.hire(nil)
		w.submit("before")
		w.watch.ended("before")
		pause := func(yes bool) (changed bool) {
			changed, err := n.Pauses().PauseAgent(t.Context(), events.AgentPause{Agent: "stock", Paused: yes, By: "ada"})
			require.NoError(t, err)
			return changed
		}
		require.True(t, pause(true))
		require.False(t, pause(true))
		<-time.After(time.Second) // the owners hear of it
		w.submit("during")
		<-time.After(time.Minute)
		require.Equal(t, events.TaskStatePending, w.watch.task("during").State)
		require.NoError(t, n.stop())
		n = w.node(dir)
		<-time.After(time.Minute)
		require.Equal(t, events.TaskStatePending, w.watch.task("during").State)
		require.Equal(t, "ada", n.Pauses().Paused()["stock"].By)
		require.True(t, pause(false))
		require.Empty(t, n.Pauses().Paused())
		w.watch.ended("during")
	})
}
