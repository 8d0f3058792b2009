//go:build synctests

package node_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// The topic of alerts takes nothing for minutes. Tasks go on, the log and the metrics name the topic, and it catches up by itself.
func TestFaultATopicThatTakesNothingIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w, brokers := setupFake(t, 1, 1)
		metrics := prometheus.NewRegistry()
		n := w.node(t.TempDir(), func(c *node.Config) { c.Registry = metrics })
		w.apply(n, order)
		w.hire(func(_ context.Context, a agent.Attempt) error {
			if strings.HasPrefix(a.Task, "bad") {
				return agent.Permanent(agent.NoEffect(errRefused))
			}
			return nil
		})
		fault := brokers.Fault(kafkatest.Fault{Request: "Produce", Topic: w.topics.Alerts(), Code: "NOT_ENOUGH_REPLICAS"})
		w.submit("bad-1")
		w.watch.ended("bad-1")
		for _, id := range ids("t", 10) {
			w.submit(id)
			w.watch.ended(id)
			<-time.After(10 * time.Second)
		}
		status, err := n.Status(0)
		require.NoError(t, err)
		require.Equal(t, "alerts", status.Oldest.Topic)
		require.Greater(t, oldestEffect(t, metrics), 90.0)
		require.Len(t, status.Delayed, 1)
		require.Len(t, w.logs.find("do not take what this partition sends"), 1)

		fault.Remove()
		<-time.After(time.Minute)
		status, err = n.Status(0)
		require.NoError(t, err)
		require.Zero(t, status.Oldest)
		require.NotEmpty(t, w.read(w.topics.Alerts(), 0))
		require.Len(t, w.logs.find("kind=undone task=bad-1 workflow=order"), 1)
		require.Empty(t, w.logs.find("taken the partition over"), "a start is no take-over")
		require.Zero(t, oldestEffect(t, metrics))
		require.NoError(t, n.stop())
		w.watch.verify()
	})
}

// oldestEffect returns the metric's value in seconds, or 0 without it.
func oldestEffect(t *testing.T, from prometheus.Gatherer) float64 {
	t.Helper()
	list, err := from.Gather()
	require.NoError(t, err)
	for _, f := range list {
		if f.GetName() == "sagalog_owner_oldest_effect_seconds" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}
