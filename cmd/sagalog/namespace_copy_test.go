package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/namespacecopy"
	"github.com/stretchr/testify/require"
)

func TestAWrongCallOfNamespaceCopyIsNamed(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	dir := t.TempDir()
	at := place{dir: dir}
	for says, args := range map[string][]string{
		"give the place of the log: --data or --brokers":              {"copy", "--to-brokers", "127.0.0.1:1"},
		"the copy would be the same namespace":                        {"copy", "--brokers", "127.0.0.1:1"},
		"--partitions -1 is not from 1 to":                            {"copy", "--brokers", "127.0.0.1:1", "--to-namespace", "b", "--partitions", "-1"},
		"is not empty":                                                {"copy", "--brokers", "127.0.0.1:1", "--to-namespace", "b", "--scratch", filepath.Dir(dir)},
		"--from-checkpoint takes the place of the log":                {"copy", "--from-checkpoint", dir, "--brokers", "127.0.0.1:1", "--to-brokers", "127.0.0.1:1"},
		"--to-brokers: \"nowhere\" is not HOST:PORT":                  {"copy", "--from-checkpoint", dir, "--to-brokers", "nowhere"},
		"--to-sasl is missing":                                        {"copy", "--from-checkpoint", dir, "--to-brokers", "127.0.0.1:1", "--to-sasl-user", "u"},
		"--copy-discarded is missing: both namespaces must never run": {"reopen", "--brokers", "127.0.0.1:1"},
	} {
		p := at.run(t, append([]string{"namespace"}, args...)...)
		require.Equal(t, 2, p.code(), says)
		require.Contains(t, p.err.String(), says)
	}
}

// A namespace is copied by the program, from one broker to another: its nodes are refused until it is reopened, and a task that waits goes on in the copy.
func TestANamespaceIsCopiedByTheProgram(t *testing.T) {
	startsMany(t)
	t.Parallel()
	old, new := kafkatest.StartBroker(t, embedded.Config{}), kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir()}
	serve := func(broker *embedded.Broker, data string) *program {
		p := at.start(t, "serve", "--brokers", broker.Addr(), "--data", filepath.Join(at.dir, data), "--http", "127.0.0.1:0", "--node", data, "--partitions", "2")
		p.eventually("ready", func() bool {
			return get(t, p.endpoints(filepath.Join(at.dir, data)).HTTP+"/readyz", nil) == http.StatusOK
		})
		return p
	}
	ok := func(args ...string) string {
		t.Helper()
		p := at.run(t, args...)
		require.Equal(t, 0, p.code(), "%v: %s", args, p.err.String())
		return p.out.String()
	}
	refused := func(says string, args ...string) string {
		t.Helper()
		p := at.run(t, args...)
		require.NotEqual(t, 0, p.code())
		require.Contains(t, p.err.String(), says)
		return p.err.String()
	}
	n := serve(old, "n1")
	api := n.endpoints(filepath.Join(at.dir, "n1")).HTTP
	write(t, filepath.Join(at.dir, "waits.yaml"), "workflow: waits\nsteps:\n  ask: {wait: {signal: go}}\n")
	ok("workflow", "apply", "--api", api, filepath.Join(at.dir, "waits.yaml"))
	ok("task", "submit", "--api", api, "-w", "waits", "--id", "over", "--input", "{}")
	ok("task", "signal", "--api", api, "over", "go")
	ok("task", "submit", "--api", api, "-w", "waits", "--id", "over", "--input", "{}", "--wait")
	ok("task", "submit", "--api", api, "-w", "waits", "--id", "waiting", "--input", "{}")
	copying := []string{"namespace", "copy", "--brokers", old.Addr(), "--to-brokers", new.Addr(), "--partitions", "6", "-o", "json"}
	refused("node n1 of namespace sagalog on", copying...)
	require.Equal(t, 0, n.stop())
	var made []namespacecopy.Result
	require.NoError(t, json.Unmarshal([]byte(ok(copying...)), &made))
	require.Equal(t, [3]int64{2, 1, 6}, [3]int64{made[0].Tasks, made[0].Live, int64(made[0].Partitions)})
	require.NotContains(t, refused("sagalog on "+new.Addr()+" is in use", copying...), "--delete")
	refused("Choose another --to-namespace, such as sagalog-2", copying...)
	refused("was closed, because it was copied to sagalog on "+new.Addr(), "serve", "--brokers", old.Addr(), "--data", filepath.Join(at.dir, "n1"), "--http", "127.0.0.1:0", "--node", "n1")

	m := at.start(t, "serve", "--brokers", new.Addr(), "--data", filepath.Join(at.dir, "n2"), "--http", "127.0.0.1:0", "--node", "n2")
	m.eventually("ready", func() bool {
		return get(t, m.endpoints(filepath.Join(at.dir, "n2")).HTTP+"/readyz", nil) == http.StatusOK
	})
	api = m.endpoints(filepath.Join(at.dir, "n2")).HTTP
	refused("", "task", "submit", "--api", api, "-w", "waits", "--id", "over", "--input", `{"other":1}`)
	ok("task", "signal", "--api", api, "waiting", "go")
	ok("task", "submit", "--api", api, "-w", "waits", "--id", "waiting", "--input", "{}", "--wait")
	require.Equal(t, 0, m.stop())
	ok("state", "hash", "--data", filepath.Join(at.dir, "n2"), "--brokers", new.Addr(), "--rebuild")
	ok("verify", "--brokers", new.Addr(), "--at-rest")

	ok("namespace", "reopen", "--brokers", old.Addr(), "--copy-discarded")
	refused("is not closed: there is nothing to reopen", "namespace", "reopen", "--brokers", old.Addr(), "--copy-discarded")
	require.Equal(t, 0, serve(old, "n1").stop())
	ok("verify", "--brokers", old.Addr(), "--at-rest")
}
