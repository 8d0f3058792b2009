package node_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// pastTask is what a test reads of a task as it was.
type pastTask struct {
	State        string `json:"state"`
	FailureCount int    `json:"failure_count"`
	Steps        []struct {
		ID    string `json:"id"`
		State string `json:"state"`
	} `json:"steps"`
	At struct {
		Offset int64 `json:"offset"`
	} `json:"at"`
	Detail string `json:"detail"`
}

// The API of a node shows a task of two tasks after each record of the log as a fold of the whole log does. When the log has been trimmed, it
// says so.
func TestANodeShowsATaskAsItWas(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	n := w.node(t.TempDir(), func(c *node.Config) { c.HTTP = "127.0.0.1:0" })
	s := w.site(n)
	require.Equal(t, 200, s.call("PUT", "/v1/workflows/order", "application/yaml", order, nil)/100*100)
	w.hire(func(_ context.Context, a agent.Attempt) error {
		switch {
		case a.Step == "pack" && a.Operation == events.Do:
			return agent.Permanent(errRefused)
		case a.Step == "charge" && a.Attempt == 1:
			return errRefused
		}
		return nil
	})
	w.submit("t-1", "t-2")
	w.watch.state("t-1", events.TaskStateUndone)
	w.watch.state("t-2", events.TaskStateUndone)

	state, first, last := events.NewState(0, nil), int64(-1), int64(-1)
	for _, r := range w.read(w.topics.Events(), 0) {
		f, err := events.DecodeFact(&r)
		require.NoError(t, err)
		fate, err := state.Apply(f, r.Offset)
		require.NoError(t, err)
		want, err := state.Task("t-1")
		require.NoError(t, err)
		var got pastTask
		status := s.call("GET", fmt.Sprintf("/v1/tasks/t-1?at=0@%d", r.Offset), "", "", &got)
		if want == nil {
			require.Equal(t, 410, status)
			continue
		}
		require.Equal(t, 200, status)
		if fate == events.FateAccepted && f.Task == "t-1" {
			if last = r.Offset; first < 0 {
				first = r.Offset
			}
		}
		require.Equal(t, last, got.At.Offset)
		require.Equal(t, string(want.State), got.State)
		require.Equal(t, want.FailureCount, got.FailureCount)
		for _, step := range got.Steps {
			expected := events.StepStateNotStarted
			if x := want.Step(step.ID); x != nil {
				expected = x.State
			}
			require.Equal(t, string(expected), step.State, "step %s at offset %d", step.ID, r.Offset)
		}
	}

	kafkatest.DeleteRecords(t, w.broker, w.topics.Events(), 0, first+1)
	var gone pastTask
	require.Equal(t, 410, s.call("GET", fmt.Sprintf("/v1/tasks/t-1?at=0@%d", last), "", "", &gone))
	require.Contains(t, gone.Detail, "were trimmed from the log")
	var left struct {
		Events []struct{ Offset int64 } `json:"events"`
	}
	require.Equal(t, 200, s.call("GET", "/v1/tasks/t-1/history", "", "", &left))
	require.Greater(t, left.Events[0].Offset, first)
	require.Equal(t, last, left.Events[len(left.Events)-1].Offset)
}
