package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// single is a workflow of one step; its text differs by name and by what it says of itself.
func single(name string, version int) string {
	return fmt.Sprintf("workflow: %s\ndescription: number %d\nsteps:\n  only: {agent: stock, with: {id: \"${ task.id }\"}}\n", name, version)
}

// A definition and a submission are written in the next instant, by a client that knows Kafka alone.
func TestADefinitionIsFoundByASubmissionOfTheNextInstant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 4)
		dir := t.TempDir()
		n := w.node(dir)
		w.apply(n, order) // makes the topics of the agents
		w.hire(nil)
		var tasks []string
		for i := range 200 {
			name := fmt.Sprintf("w-%d", i/2)
			src, faults := scheduler.Parse("w.yaml", []byte(single(name, i)), nil)
			require.Empty(t, faults)
			r, err := scheduler.EncodeDefinition(src, events.Subject{ID: fmt.Sprint(i), Source: "/test", Time: events.At(time.Now())})
			require.NoError(t, err)
			w.produce(w.topics.Definitions(), 0, r)
			id := fmt.Sprintf("t-%d", i)
			w.produce(w.topics.Submissions(), -1, events.Record{Key: []byte(id), Value: fmt.Appendf(nil, `{"id":%q,"workflow":%q}`, id, name)})
			tasks = append(tasks, id)
		}
		w.watch.ended(tasks...)
		for i, id := range tasks {
			task := w.watch.state(id, events.Processed)
			require.GreaterOrEqual(t, task.Version, i%2+1, "not older than what was applied before")
		}
		require.NoError(t, n.stop())
		w.proveHashes(dir)
	})
}

func TestAVersionThatWasAppliedIsTheOneThatIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		for i := 1; i <= 3; i++ {
			a, faults, err := n.ApplyFile(t.Context(), "w.yaml", []byte(single("w", i)), nil)
			require.NoError(t, err)
			require.Empty(t, faults)
			require.Equal(t, i, a.Version)
			require.True(t, a.Changed)
		}
		a, _, err := n.ApplyFile(t.Context(), "w.yaml", []byte(single("w", 3)), nil)
		require.NoError(t, err)
		require.False(t, a.Changed)
		a, _, err = n.ApplyFile(t.Context(), "w.yaml", []byte(single("w", 1)), nil)
		require.NoError(t, err)
		require.True(t, a.Changed, "older content is current again")
		require.Equal(t, 1, a.Version)
		got, err := n.Definitions().Workflow(t.Context(), "w", 0)
		require.NoError(t, err)
		require.Equal(t, 1, got.Version)
		require.Equal(t, []int{1, 2, 3}, got.Versions)
		none, err := n.Definitions().Workflow(t.Context(), "other", 0)
		require.NoError(t, err)
		require.Nil(t, none)
		_, faults, err := n.ApplyFile(t.Context(), "w.yaml", []byte(strings.Replace(single("w", 1), "agent: stock", "agent: stock, needs: [x]", 1)), nil)
		require.NoError(t, err)
		require.NotEmpty(t, faults)
	})
}
