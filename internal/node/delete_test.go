package node_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

// A workflow is deleted while a task of it runs, as when the task was submitted at that moment. The task goes on by the definition that its
// partition adopted: an operator retries it under another owner. What is submitted afterwards is rejected, even with the stamp of a node
// that had not read the deletion.
func TestATaskOutlivesItsDeletedDefinition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		one, two := t.TempDir(), t.TempDir()
		n := w.node(one)
		w.apply(n, strings.Replace(order, "attempts: 3, backoff: 200ms, factor: 2, max_backoff: 1s, then: undo", "attempts: 1, then: park", 1))
		var failing atomic.Bool
		failing.Store(true)
		w.hire(func(_ context.Context, a agent.Attempt) error {
			if failing.Load() && a.Operation == events.Do && a.Step != "reserve" {
				return errRefused
			}
			return nil
		})
		w.submit("t-0")
		w.watch.await("t-0 is parked", func() bool { return w.watch.task("t-0") != nil && w.watch.task("t-0").State == events.TaskStateError })
		v, err := n.Definitions().Workflow(t.Context(), "order", 0)
		require.NoError(t, err)
		deleted, err := n.Deletions().Delete(t.Context(), "order", 0)
		require.NoError(t, err)
		require.Equal(t, []int{1}, deleted)
		again, err := n.Definitions().Workflow(t.Context(), "order", 0)
		require.NoError(t, err)
		require.Nil(t, again)
		deleted, err = n.Deletions().Delete(t.Context(), "order", 0)
		require.NoError(t, err)
		require.Empty(t, deleted)

		late := func(n *process) {
			before := len(w.submissionLetters())
			stamped := submission("stamped-"+n.name, map[string]any{"n": 1})
			stamped.Headers = append(stamped.Headers, events.Header{Key: events.HeaderDefinition, Value: []byte(v.Hash)})
			numbered := events.Record{Key: []byte("numbered-" + n.name), Value: []byte(`{"workflow":"order","version":1,"input":{"n":1}}`)}
			w.produce(w.topics.Submissions(), -1, submission("plain-"+n.name, map[string]any{"n": 1}), stamped, numbered)
			<-time.After(10 * time.Second)
			letters := w.submissionLetters()
			require.Len(t, letters, before+3)
			for _, l := range letters {
				require.Equal(t, events.RejectUnknownWorkflow, l.Header(supervisor.DeadReason))
				require.Contains(t, l.Header("__dlq.errors.message"), "was deleted")
			}
		}
		late(n)
		n.kill()
		n = w.node(two)
		late(n)
		failing.Store(false)
		w.request(events.RequestRetry, "t-0", "q1")
		w.watch.ended("t-0")
		w.watch.state("t-0", events.TaskStateProcessed)

		// The file of a start does not bring it back; an apply does, under its number.
		_, _, err = n.ApplyFile(t.Context(), "w.yaml", v.Body, nil)
		require.NoError(t, err)
		require.Len(t, w.logs.find("a workflow's file holds a version that was deleted"), 1)
		a, faults, err := n.Definitions().Apply(t.Context(), api.Draft{Name: "order", Source: v.Body})
		require.NoError(t, err)
		require.Empty(t, faults)
		require.Equal(t, 1, a.Version)
		w.submit("t-1")
		w.watch.ended("t-1")
		require.NoError(t, n.stop())
		w.watch.verify()
		w.proveHashes(two)
	})
}

// submissionLetters returns the dead letters of all submissions.
func (w *world) submissionLetters() (list []events.Record) {
	for p := range w.parts {
		list = append(list, w.read(w.topics.DeadSubmissions(), p)...)
	}
	return list
}
