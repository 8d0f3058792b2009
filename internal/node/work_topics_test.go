package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// workTopics returns the agents that have a work topic.
func (w *world) workTopics() []string {
	w.t.Helper()
	list, err := w.cluster.ListTopics(kafkatest.Within(w.t), w.topics.Work(""))
	require.NoError(w.t, err)
	for i := range list {
		list[i] = strings.TrimPrefix(list[i], w.topics.Work(""))
	}
	return list
}

// A step waits for its agent, which finds its topic when it comes: it need not be allowed to create one.
func TestAWorkTopicIsMadeWhenAStepFirstWaitsForIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		n := w.node(t.TempDir())
		var steps strings.Builder
		for i := range 500 {
			needs := ""
			if i > 0 {
				needs = fmt.Sprintf(", needs: [s%d]", i-1)
			}
			fmt.Fprintf(&steps, "  s%d: {agent: a%d, undo: {agent: u%d}%s}\n", i, i, i, needs)
		}
		w.apply(n, "workflow: order\nsteps:\n"+steps.String())
		<-time.After(time.Minute)
		require.Empty(t, w.workTopics())
		w.submit("t")
		<-time.After(10 * time.Second)
		require.Equal(t, []string{"a0"}, w.workTopics())
		w.kinds = []string{"a0"}
		w.hire(nil)
		<-time.After(10 * time.Second)
		require.Equal(t, []string{"a0", "a1"}, w.workTopics())
		require.NoError(t, n.stop())
	})
}

// A step whose agent has no topic waits, and says why. Once another topic is deleted, its own is made.
func TestStepsSayThatTheirTopicHasNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, "workflow: one\nsteps:\n  only: {agent: a}\n")
		w.apply(n, "workflow: order\nsteps:\n  only: {agent: b}\n")
		n.LimitDefinitions(1, 10, 1<<20)
		kafkatest.Create(t, w.cluster, w.topics.WorkSpec("a", 1))
		w.submit("t")
		<-time.After(time.Minute)
		require.Equal(t, []string{"a"}, w.workTopics())
		missing := n.Missing()
		require.Len(t, missing, 1)
		require.Contains(t, missing[0].NoTopic, "the namespace has 1 work topics and may have 1")
		kafkatest.DeleteTopic(t, w.broker, w.topics.Work("a"))
		<-time.After(time.Minute)
		require.Equal(t, []string{"b"}, w.workTopics())
		require.Empty(t, n.Missing()[0].NoTopic)
		require.NoError(t, n.stop())
	})
}
