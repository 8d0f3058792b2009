package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/sealing"
)

// The topic of keys is deleted, and the node is restarted. It does not make the topic again: everything encrypted would count as damaged. It starts when the
// topic is restored, and the task goes on.
func TestANodeDoesNotMakeALostTopicOfKeysAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, dir := setup(t, 1), t.TempDir()
		w.seals()
		var keys *sealing.Keys
		n := w.node(dir, func(c *node.Config) { keys = c.Keys })
		w.apply(n, sealedVisit)
		w.produce(w.topics.Submissions(), -1, sealedSubmission(t, keys, "visit", "c-17", "v-1"))
		w.watch.await("the task has begun", func() bool { return w.watch.task("v-1") != nil })
		require.NoError(t, n.stop())
		backup := w.read(w.topics.Keys(), 0)
		kafkatest.DeleteTopic(t, w.broker, w.topics.Keys())

		_, err := w.open(dir)
		require.ErrorContains(t, err, "the topic of keys sagalog.keys is gone or empty, and namespace sagalog has keys")
		list, err := w.cluster.ListTopics(t.Context(), w.topics.Keys())
		require.NoError(t, err)
		require.NotContains(t, list, w.topics.Keys())
		kafkatest.Create(t, w.cluster, w.topics.KeysSpec())
		_, err = w.open(dir)
		require.ErrorContains(t, err, "is gone or empty", "somebody made it, and restored nothing yet")

		w.produce(w.topics.Keys(), 0, events.Record{Key: backup[0].Key, Value: backup[0].Value})
		w.node(dir)
		w.hire(func(context.Context, agent.Attempt) error { return nil })
		w.watch.ended("v-1")
		require.Equal(t, events.TaskStateProcessed, w.watch.task("v-1").State)
	})
}

// The newest checkpoint is made when the topic of keys is gone, and says so. A copy from it and an older one, which has some keys, is refused with the
// key that is missing.
func TestACopyIsNotSatisfiedWithSomeKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, dir := setup(t, 1), t.TempDir()
		w.seals()
		var keys *sealing.Keys
		n := w.node(dir, func(c *node.Config) { c.Checkpoints.Dir, keys = dir+"/checkpoints", c.Keys })
		w.apply(n, sealedVisit)
		submit := func(subject, id string) {
			w.produce(w.topics.Submissions(), -1, sealedSubmission(t, keys, "visit", subject, id))
			w.watch.await("the task has begun", func() bool { return w.watch.task(id) != nil })
			<-time.After(2 * time.Second) // the store has what the log has
		}
		submit("c-17", "v-1")
		older, err := n.Checkpoints().MakeCheckpoint(t.Context(), "older")
		require.NoError(t, err)
		require.False(t, older.KeysMissing)
		submit("c-18", "v-2")
		kafkatest.DeleteTopic(t, w.broker, w.topics.Keys())
		newest, err := n.Checkpoints().MakeCheckpoint(t.Context(), "newest")
		require.NoError(t, err)
		require.True(t, newest.KeysMissing)
		require.NotEmpty(t, w.logs.find("the checkpoint of the state holds no keys"))
		sealed, _ := events.ParseSealed(w.watch.task("v-2").Input)
		require.NoError(t, n.stop())

		_, err = w.copyTo(setup(t, 2), older.Path, newest.Path)
		require.ErrorContains(t, err, "task v-2 is encrypted with the key "+sealed.Key+", which is not among the 1 keys of sagalog")
	})
}
