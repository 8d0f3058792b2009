package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// A broker that refuses stops nothing, and the log says it once.
func TestARefusalToTrimIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	n := &Node{cfg: Config{Logger: slog.New(slog.NewTextHandler(&said, nil)), Now: time.Now, Alone: true}, owners: &owners{}}
	n.ns = &namespace{topics: kafka.Topics{Namespace: "x"}}
	m := newTrimmer(n)
	for range 3 {
		m.note(t.Context(), errors.New("delete records of x.reports/0 below 9: not authorized"))
	}
	require.Equal(t, 1, strings.Count(said.String(), "below 9: not authorized"), said.String())
	m.note(t.Context(), errors.New("delete records of x.reports/0 below 12: not authorized")) // by then, more could be deleted
	require.Equal(t, 1, strings.Count(said.String(), "not authorized"), said.String())
	m.note(t.Context(), nil)
	m.note(t.Context(), errors.New("delete records of x.reports/1 below 3: not authorized"))
	require.Equal(t, 2, strings.Count(said.String(), "not authorized"), "it is a new refusal after a look without one")
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	all, err := r.Gather()
	require.NoError(t, err)
	require.Equal(t, "sagalog_trim_refusals_total", all[0].GetName())
	require.InDelta(t, 5, all[0].GetMetric()[0].GetCounter().GetValue(), 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	m.note(ended, errors.New("the node stops"))
	require.NotContains(t, said.String(), "the node stops")
}

func TestAPartitionIsTrimmedForManyRecordsOrAfterALongTime(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	m := &trimmer{pace: trimPace{records: 100, after: time.Hour}, now: func() time.Time { return now }, since: map[place]time.Time{}}
	at := place{"x.reports", 1}
	require.False(t, m.due(at, 0))
	require.True(t, m.due(at, 100))
	delete(m.since, at) // it was trimmed
	require.False(t, m.due(at, 99))
	now = now.Add(59 * time.Minute)
	require.False(t, m.due(at, 99))
	now = now.Add(time.Minute)
	require.True(t, m.due(at, 99))
	require.False(t, m.due(at, -5), "somebody else has trimmed it")
	require.Empty(t, m.since)
}

// A process that ends after less than a minute, again and again, trims too.
func TestANodeTrimsSoonAfterItsStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		began := time.Now()
		var looks []time.Duration
		require.NoError(t, oftenAtFirst(ctx, trimSoonest, time.Minute, func() { looks = append(looks, time.Since(began)/time.Second) }))
		require.Equal(t, []time.Duration{5, 15, 35, 75, 135, 195, 255}, looks)
	})
}
