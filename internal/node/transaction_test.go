package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

func TestAnOpenTransactionHoldsBackLaterRecords(t *testing.T) {
	for name, commits := range map[string]bool{"committed": true, "aborted": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := setup(t, 1)
				dir := t.TempDir()
				n := w.node(dir)
				w.apply(n, order)
				w.hire(nil)
				w.submit("t-before")
				w.watch.ended("t-before")

				x := kafkatest.BeginTransaction(t, w.broker)
				inside := submission("t-inside", nil)
				inside.Topic = w.topics.Submissions()
				x.Produce(inside)
				at := w.produce(w.topics.Submissions(), 0, submission("t-behind", nil))
				short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				require.ErrorIs(t, n.Inputs().WaitPassed(short, events.Submissions, 0, at[0]), context.DeadlineExceeded)
				require.Nil(t, w.found("t-inside"))
				require.Nil(t, w.found("t-behind"))

				if commits {
					x.Commit()
				} else {
					x.Abort()
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				require.NoError(t, n.Inputs().WaitPassed(ctx, events.Submissions, 0, at[0]), "the record after the marker is passed")
				require.NoError(t, n.Inputs().WaitPassed(ctx, events.Submissions, 0, at[0]+1), "and the marker itself")
				w.watch.ended("t-behind")
				if commits {
					w.watch.ended("t-inside")
				}
				require.Equal(t, commits, w.found("t-inside") != nil)
				require.Empty(t, w.read(w.topics.DeadSubmissions(), 0), "a marker is not an input")

				n.kill() // the next owner resumes after a marker
				n = w.node(dir)
				w.submit("t-after")
				w.watch.ended("t-after")
				require.NoError(t, n.stop())
				w.watch.verify()
				w.proveHashes(dir)
			})
		})
	}
}

// found returns a task as the observer knows it, or nil.
func (w *world) found(id string) *events.Task {
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	return w.watch.task(id)
}

// Reports behind an open transaction came in time. That they cannot be read yet is no reason to time out their attempts.
func TestReportsBehindAnOpenTransactionAreInTime(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		n := w.node(t.TempDir())
		w.apply(n, order)
		w.hire(nil)
		w.submit("t-before")
		w.watch.ended("t-before")

		x := kafkatest.BeginTransaction(t, w.broker)
		x.Produce(events.Record{Topic: w.topics.Reports(), Value: []byte("never committed")})
		w.submit("t-1")
		<-time.After(30 * time.Second) // the step's complete-by time is after 5 s
		require.Equal(t, []string{"Submitted", "StepStarted reserve 1"}, w.watch.story("t-1"))
		status, err := n.Status(0)
		require.NoError(t, err)
		require.Equal(t, events.Reports, status.Blocked.Input)
		<-time.After(2 * time.Minute)
		require.Len(t, w.logs.find("this input has records that cannot be read"), 2, "once a minute")
		x.Abort()
		w.watch.ended("t-1")
		<-time.After(time.Second)
		status, err = n.Status(0)
		require.NoError(t, err)
		require.Zero(t, status.Blocked)
		require.NoError(t, n.stop())
		w.watch.verify()
		require.NotContains(t, fmt.Sprint(w.watch.story("t-1")), "Timeout")
	})
}

// A transaction that is left open is noticed although no task waits for what is behind it.
func TestAnOpenTransactionIsNoticedWithoutTasks(t *testing.T) {
	minutes(t)
	bubble(t, func(t *testing.T) {
		w := setup(t, 1)
		r := prometheus.NewRegistry()
		n := w.node(t.TempDir(), func(c *node.Config) { c.Registry = r })
		w.apply(n, order)
		x := kafkatest.BeginTransaction(t, w.broker)
		inside := submission("t-inside", nil)
		inside.Topic = w.topics.Submissions()
		x.Produce(inside)
		<-time.After(2 * time.Minute)
		shown := func() map[string]float64 {
			families, err := r.Gather()
			require.NoError(t, err)
			found := map[string]float64{}
			for _, f := range families {
				if f.GetName() == "sagalog_open_transaction_seconds" {
					for _, m := range f.GetMetric() {
						found[m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
					}
				}
			}
			return found
		}
		require.InDelta(t, 120, shown()["submissions"], 15)
		require.Len(t, shown(), 1)
		lines := w.logs.find("a producer has left a transaction open")
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "abort --topic "+w.topics.Submissions()+" --partition 0 --start-offset 0")
		x.Abort()
		<-time.After(15 * time.Second)
		require.Empty(t, shown())
		require.NoError(t, n.stop())
	})
}
