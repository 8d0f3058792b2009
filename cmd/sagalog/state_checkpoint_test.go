package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// A checkpoint of a running node becomes the state of another node while the first runs on. Both come to the same hashes.
func TestACheckpointOfARunningNodeIsRestored(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector cannot observe other processes")
	}
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_NAMESPACE=shop"}}
	one, two := filepath.Join(at.dir, "n1"), filepath.Join(at.dir, "n2")
	serve := func(name, data string) *program {
		p := at.start(t, "serve", "--brokers", broker.Addr(), "--data", data, "--http", "127.0.0.1:0", "--node", name, "--partitions", "2")
		p.eventually("ready", func() bool { return get(t, p.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })
		return p
	}
	refused := func(says string, args ...string) {
		t.Helper()
		p := at.run(t, append([]string{"state"}, args...)...)
		require.NotEqual(t, 0, p.code())
		require.Contains(t, p.err.String(), says)
	}
	n := serve("n1", one)
	api := n.endpoints(one).HTTP
	made := at.run(t, "state", "checkpoint", "--api", api, "--to", "a")
	require.Equal(t, 0, made.code(), made.err.String())
	require.Contains(t, made.out.String(), "checkpoint of node n1: "+filepath.Join(one, "checkpoints", "a"))
	refused("There is a checkpoint of that name", "checkpoint", "--api", api, "--to", "a")
	refused("directly in its directory of checkpoints", "checkpoint", "--api", api, "--to", filepath.Join(at.dir, "elsewhere"))
	refused("in use by process", "checkpoint", "--data", one, "--to", filepath.Join(at.dir, "elsewhere"))

	refused("is in the state itself", "checkpoint", "--data", one, "--to", filepath.Join(one, "state", "cp"))

	copied := filepath.Join(at.dir, "copied")
	require.NoError(t, os.CopyFS(copied, os.DirFS(filepath.Join(one, "checkpoints", "a"))))
	restored := at.run(t, "state", "restore", "--from", copied, "--data", two, "--brokers", broker.Addr())
	require.Equal(t, 0, restored.code(), restored.err.String())
	refused("move it away first", "restore", "--from", copied, "--data", two, "--brokers", broker.Addr())
	m := serve("n2", two) // while n1 runs on
	require.Equal(t, 0, m.stop())
	require.Equal(t, 0, n.stop())
	for _, data := range []string{one, two} {
		for _, r := range hashes(t, at.run(t, "state", "hash", "--data", data, "--brokers", broker.Addr(), "--rebuild", "-o", "json")) {
			require.Equal(t, r.Hash, *r.Rebuilt)
		}
	}

	// What does not fit is refused, and leaves nothing.
	three := filepath.Join(at.dir, "n3")
	restore := func(from string) []string {
		return []string{"restore", "--from", from, "--data", three, "--brokers", broker.Addr()}
	}
	refused("it holds no checkpoint.json", restore(one)...)
	other := kafkatest.StartBroker(t, embedded.Config{})
	elsewhere := filepath.Join(at.dir, "o1")
	o := at.start(t, "serve", "--brokers", other.Addr(), "--data", elsewhere, "--http", "127.0.0.1:0", "--node", "o1", "--partitions", "2")
	o.eventually("ready", func() bool { return get(t, o.endpoints(elsewhere).HTTP+"/readyz", nil) == http.StatusOK })
	require.Equal(t, 0, o.stop())
	foreign := filepath.Join(at.dir, "foreign")
	stopped := at.run(t, "state", "checkpoint", "--data", elsewhere, "--to", foreign)
	require.Equal(t, 0, stopped.code(), stopped.err.String())
	refused("and the log is of namespace shop", restore(foreign)...)
	tables, err := filepath.Glob(filepath.Join(copied, "state", "MANIFEST-*"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(tables[0], []byte("damaged"), 0o600))
	refused("is damaged: it has 7 bytes", restore(copied)...)
	require.NoDirExists(t, filepath.Join(three, "state"))
}
