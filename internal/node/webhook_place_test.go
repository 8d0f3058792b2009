package node_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
)

// park makes tasks that are parked, and waits until all of them are.
func (w *world) park(what string, n int) {
	w.t.Helper()
	before := 0
	w.watch.await("the observer is at rest", func() bool { before = w.parked(); return true })
	w.urge(0, ids("bad-"+what, n)...)
	w.watch.await(what+" are parked", func() bool { return w.parked() == before+n })
}

// The stored position names an epoch that the log does not have, as after a loss of records, or is another's. The webhook says so and delivers what comes;
// a record that waits and is not of its kind causes no message.
func TestAPositionOfALostEpochHoldsBackNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.kinds = []string{"stock"}
		r := receive(t)
		dir := t.TempDir()
		one := w.node(dir, r.hooked("parked"))
		w.apply(one, mixed)
		w.hire(failing)
		w.park("first", 5)
		r.await(5, time.Minute)
		require.NoError(t, one.stop())
		marks := kafka.NewBookmarks(w.cluster, kafka.Groups{Namespace: "sagalog"}.Webhook())
		at, err := marks.Committed(t.Context())
		require.NoError(t, err)
		stored := at[w.topics.Events()][0]
		require.True(t, strings.HasPrefix(stored.Metadata, "sagalog-webhook-1 1-"), stored.Metadata)
		stored.Metadata = "sagalog-webhook-1 1-lost 7 0 0 1,2"
		require.NoError(t, marks.Commit(t.Context(), kafka.Positions{w.topics.Events(): {0: stored}}))
		one = w.node(dir, r.hooked("parked"))
		<-time.After(10 * time.Second)
		require.Len(t, w.logs.find("names an epoch that the log does not have"), 1)
		w.park("second", 5)
		r.await(10, time.Minute)
		<-time.After(time.Minute)
		r.agrees(w.said("parked"))
		require.NoError(t, one.stop())
	})
}

// The log is cut while the receiver is down for longer than facts are kept, and then a node begins at the start of the log. What the log still has is delivered.
func TestTheWebhookGoesOnWhereACutLogBegins(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		w.kinds = []string{"stock"}
		r := receive(t)
		keep := func(c *node.Config) {
			node.Trims(c)
			c.Settings = events.DefaultSettings()
			c.Settings.KeepLog = events.Duration(40 * time.Second)
		}
		dir := t.TempDir()
		one := w.node(dir, keep)
		w.apply(one, mixed)
		w.hire(failing)
		begin := int64(0)
		for i := 0; begin == 0; i++ {
			require.Less(t, i, 100, "the log is never cut")
			w.park(fmt.Sprint(i), 5)
			<-time.After(15 * time.Second)
			begin, _ = w.begins(w.topics.Events())
		}
		require.NoError(t, one.stop())
		left := func() map[string]seen {
			begin, _ := w.begins(w.topics.Events())
			facts := w.said("parked")
			maps.DeleteFunc(facts, func(_ string, s seen) bool { return s.offset < begin })
			return facts
		}
		one = w.node(dir, keep, r.hooked("parked"))
		w.park("more", 5)
		r.await(len(left()), time.Minute)
		for id := range left() {
			require.Contains(t, r.taken, id)
		}
		require.NotContains(t, strings.Join(w.logs.find("the webhook"), "\n"), "are not delivered")

		r.set(func() { r.status = func(string, string) int { return http.StatusServiceUnavailable } })
		w.park("lost", 300) // more than are read, so the position stays
		was, _ := w.begins(w.topics.Events())
		for i := range 8 {
			w.park(fmt.Sprint("later", i), 1)
			<-time.After(15 * time.Second)
		}
		now, _ := w.begins(w.topics.Events())
		require.Greater(t, now, was)
		r.set(func() { r.status = nil })
		w.park("last", 5)
		<-time.After(10 * time.Minute)
		for id := range left() {
			require.Contains(t, r.taken, id)
		}
		require.NotEmpty(t, w.logs.find("the log was cut beyond the position of the webhook"))
		require.NoError(t, one.stop())
	})
}
