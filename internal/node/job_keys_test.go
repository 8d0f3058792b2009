package node_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/sealing"
)

// The key file of the node lacks the line that wraps the key of one subject, and the key of another task is damaged. A job with content asks the tasks
// behind them, counts a refusal, and ends once the line is there and the task was asked, also if another process goes on with it.
func TestAJobDoesNotStopAtATaskWhoseKeyIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, dir, path := setup(t, 1), t.TempDir(), filepath.Join(t.TempDir(), "seal.key")
		first, second := sealing.NewKey(), sealing.NewKey()
		write := func(lines string) {
			require.NoError(t, os.WriteFile(path, []byte(lines), 0o600))
			<-time.After(2 * time.Second) // a changed file is read within a second
		}
		write(first)
		var err error
		w.keyFile, err = sealing.OpenKeyFile(path, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		var keys *sealing.Keys
		n := w.node(dir, func(c *node.Config) { keys = c.Keys })
		w.apply(n, "workflow: visit\nsteps:\n  ask: {wait: {signal: go}}\n")
		submit := func(subject, id string) {
			w.produce(w.topics.Submissions(), -1, sealedSubmission(t, keys, "visit", subject, id))
		}
		submit("c-17", "v-1")
		write(second + "\n" + first)
		submit("c-18", "v-2")
		submit("c-17", "v-3")
		submit("c-19", "v-4")
		submit("c-17", "v-5")
		for _, id := range []string{"v-1", "v-2", "v-3", "v-4", "v-5"} {
			w.watch.await(id+" waits", func() bool { return w.watch.task(id) != nil })
		}
		require.NoError(t, n.stop())
		w.damageLastKey()
		write(first)
		n = w.node(dir) // its keys have opened nothing yet
		<-time.After(2 * time.Second)
		w.openJob(n, events.Job{ID: "s1", Verb: events.RequestSignal, Filter: everyTask, Args: json.RawMessage(`{"signal":"go","payload":1}`)})
		w.watch.ended("v-1", "v-3", "v-5")
		<-time.After(time.Minute)
		require.Zero(t, w.job(n, "s1").EndedAt)
		require.NoError(t, n.stop())
		n = w.node(dir)
		<-time.After(time.Minute)
		require.Zero(t, w.job(n, "s1").EndedAt)
		write(second + "\n" + first)
		j, _ := w.jobEnded(n, "s1")
		w.watch.ended("v-2")
		require.Equal(t, []int{4, 1}, []int{j.Granted, j.Refused})
		require.Contains(t, j.Refusals[0].Reason, "is damaged")
		for id, times := range w.granted(events.NameSignalReceived) {
			require.Equal(t, 1, times, id)
		}
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}

// damageLastKey makes the latest data key one that nobody can open.
func (w *world) damageLastKey() {
	list := w.read(w.topics.Keys(), 0)
	r := list[len(list)-1]
	var key map[string]any
	require.NoError(w.t, json.Unmarshal(r.Value, &key))
	key["wrapped"], key["with"] = "AAAA", firstWith(w.t, list)
	value, err := json.Marshal(key)
	require.NoError(w.t, err)
	w.produce(w.topics.Keys(), 0, events.Record{Key: r.Key, Value: value})
}

// firstWith returns the fingerprint of the key that wraps the first data key.
func firstWith(t *testing.T, list []events.Record) string {
	var key struct{ With string }
	require.NoError(t, json.Unmarshal(list[0].Value, &key))
	return key.With
}
