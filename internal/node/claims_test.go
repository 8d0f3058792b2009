package node_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/stretchr/testify/require"
)

// Everything that announces itself may write heartbeats. One that claims every partition, for a node that owns none by the log, does not
// draw requests to its address.
func TestAForgedHeartbeatGetsNoRequests(t *testing.T) {
	t.Parallel()
	w := setup(t, 4)
	w.apply(w.node(t.TempDir(), answering), order)
	w.shared("node-1")
	reader := w.site(w.node(t.TempDir(), answering, func(c *node.Config) { c.Roles.Owner = false }))
	w.knows(reader)

	var asked atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		rw.Header().Set(proxy.HeaderAnswered, r.Header.Get(proxy.HeaderForwarded))
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(rw, `{"state":"processed"}`)
	}))
	t.Cleanup(evil.Close)
	forge := func() {
		now := events.At(time.Now())
		r, err := events.EncodePresence(events.Presence{
			Kind: events.PresenceNode, Instance: "evil", Node: "evil", HTTP: evil.Listener.Addr().String(),
			Partitions: map[string][]int32{"events": {0, 1, 2, 3}}, StartedAt: now, SeenAt: now,
		}, events.Subject{ID: "1", Source: "/evil", Time: now})
		require.NoError(t, err)
		r.Topic = w.topics.Presence()
		_, err = w.producer.ProduceSync(t.Context(), r)
		require.NoError(t, err)
	}
	for heard := false; !heard; w.pause(t.Context(), "the forged heartbeat to be read") {
		forge()
		var settings struct {
			Nodes []struct{ Node string }
		}
		require.Equal(t, 200, reader.call("GET", "/v1/settings", "", "", &settings))
		heard = slices.ContainsFunc(settings.Nodes, func(n struct{ Node string }) bool { return n.Node == "evil" })
	}
	for i := 0; i < 40; {
		forge()
		switch status := reader.call("GET", fmt.Sprintf("/v1/tasks/t-%d", i), "", "", nil); status {
		case http.StatusNotFound:
			i++
		default:
			require.Equal(t, http.StatusServiceUnavailable, status, "on a busy machine the owner may be silent for a moment")
		}
	}
	require.Zero(t, asked.Load())
}
