package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/projector"
	"github.com/stretchr/testify/require"
)

// The hashes of a stopped node equal those of the log on the brokers. A partition that the node never had is left out.
func TestStateHashOfAServeDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector cannot observe other processes")
	}
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_NAMESPACE=shop"}}
	data := filepath.Join(at.dir, "n1")
	n := at.start(t, "serve", "--brokers", broker.Addr(), "--data", data, "--http", "127.0.0.1:0", "--node", "n1", "--partitions", "3")
	n.eventually("ready", func() bool { return get(t, n.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })

	running := at.run(t, "state", "hash", "--data", data, "--brokers", broker.Addr())
	require.Equal(t, 1, running.code())
	require.Contains(t, running.err.String(), "the data directory is in use by process")
	require.Equal(t, 0, n.stop())

	for args, want := range map[string]struct {
		code int
		says string
	}{
		"":                      {2, "--brokers is missing: " + data + " is a data directory of `sagalog serve`, and its log is on a Kafka cluster"},
		"--brokers=127.0.0.1:1": {1, "nothing listens there (connection refused)"},
		"--data=nowhere":        {1, "nowhere is not a data directory (--data): it holds no state"},
		"--namespace=other":     {2, "--brokers is missing"},
	} {
		call := []string{"state", "hash", "--data", data}
		if args != "" {
			call = append(call, args)
		}
		p := at.run(t, call...)
		require.Equal(t, want.code, p.code(), args)
		require.Contains(t, p.err.String(), want.says, args)
	}

	rows := hashes(t, at.run(t, "state", "hash", "--data", data, "--brokers", broker.Addr(), "--rebuild", "-o", "json"))
	require.Len(t, rows, 3)
	for _, r := range rows {
		require.Positive(t, r.Offset)
		require.Equal(t, r.Hash, *r.Rebuilt)
	}

	// This is a store with one partition, like that of a node that owned no other.
	fewer := filepath.Join(at.dir, "fewer")
	require.NoError(t, os.CopyFS(fewer, os.DirFS(data)))
	forget(t, fewer, broker, 1, 2)
	rows = hashes(t, at.run(t, "state", "hash", "--data", fewer, "--brokers", broker.Addr(), "--rebuild", "-o", "json"))
	require.Len(t, rows, 1)
	require.EqualValues(t, 0, rows[0].Partition)

	forget(t, fewer, broker, 0)
	none := at.run(t, "state", "hash", "--data", fewer, "--brokers", broker.Addr())
	require.Equal(t, 1, none.code())
	require.Contains(t, none.err.String(), "holds no partition")
	require.Empty(t, none.out.String())
}

// A directory of dev contains its log.
func TestStateHashOfADevDirectory(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	data := filepath.Join(at.dir, "d")
	dev := at.start(t, "dev", "--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2")
	dev.eventually("ready", func() bool { return get(t, dev.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })
	require.Equal(t, 0, dev.stop())

	rows := hashes(t, at.run(t, "state", "hash", "--data", data, "--rebuild", "-o", "json"))
	require.Len(t, rows, 2)
	p := at.run(t, "state", "hash", "--data", data, "--brokers", "127.0.0.1:1")
	require.Equal(t, 2, p.code())
	require.Contains(t, p.err.String(), "--brokers is not for "+data)
	require.NoError(t, os.RemoveAll(filepath.Join(data, "state")))
	require.Contains(t, at.run(t, "state", "hash", "--data", data).err.String(), "holds no state at present")
}

func hashes(t *testing.T, p *program) (rows []hashRow) {
	t.Helper()
	require.Equal(t, 0, p.code(), p.err.String())
	require.NoError(t, json.Unmarshal([]byte(p.out.String()), &rows))
	return rows
}

// forget removes partitions from a store.
func forget(t *testing.T, data string, broker *embedded.Broker, partitions ...int32) {
	t.Helper()
	c := kafkatest.Connect(t, broker)
	r, err := c.ReadAt(t.Context(), "shop.definitions", 0, 0)
	require.NoError(t, err)
	var first struct {
		ID string `json:"id"`
	}
	require.NoError(t, json.Unmarshal(r.Value, &first))
	store, err := projector.Open(filepath.Join(data, "state"), projector.Options{Namespace: first.ID})
	require.NoError(t, err)
	for _, p := range partitions {
		require.NoError(t, store.Reset(p))
	}
	require.NoError(t, store.Close())
}
