package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

func TestANodeThatFailsIsPassedOver(t *testing.T) {
	t.Parallel()
	good := &engine{accepted: map[string]int{}, answer: accept}
	alive := httptest.NewServer(good)
	defer alive.Close()
	var asked atomic.Int64
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(503)
	}))
	defer broken.Close()
	stuck := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // the server notices that the caller has gone only after reading the body
		<-r.Context().Done()
	}))
	defer stuck.Close()
	gone := httptest.NewServer(nil)
	gone.Close()

	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"load", "--quiet", "--count", "3000", "--rate", "3000", "--request-timeout", "2s",
		"--api", broken.URL + "," + gone.URL + "," + stuck.URL + "," + alive.URL}, &out, &errs)
	require.Zero(t, code, errs.String())
	require.Len(t, good.accepted, 3000)
	for id, n := range good.accepted {
		require.Equal(t, 1, n, id)
	}
	require.Positive(t, asked.Load())
	require.Less(t, asked.Load(), int64(50), "failing nodes are asked only from time to time")
}

func TestLoadByKafka(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.StartTCP(t)
	topics := kafka.Topics{Namespace: "other"}
	kafkatest.Create(t, cluster, topics.Base(4)...)
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"load", "--quiet", "--count", "500", "--prefix", "k-", "--namespace", "other",
		"--brokers", cluster.Brokers()[0]}, &out, &errs)
	require.Zero(t, code, errs.String())
	var report map[string]float64
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.EqualValues(t, 500, report["acknowledged"])

	f := loadFlags{prefix: "k-", seed: 1}
	seen := map[string]bool{}
	for p := range int32(4) {
		require.NoError(t, cluster.ReadRange(t.Context(), topics.Submissions(), p, 0, -1, func(r events.Record) error {
			require.Equal(t, events.Home(string(r.Key), 4), p)
			require.False(t, seen[string(r.Key)])
			seen[string(r.Key)] = true
			i, err := strconv.Atoi(string(r.Key)[2:])
			require.NoError(t, err)
			want, err := json.Marshal(f.task(i))
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(r.Value), "the same content as by HTTP")
			return nil
		}))
	}
	require.Len(t, seen, 500)
}
