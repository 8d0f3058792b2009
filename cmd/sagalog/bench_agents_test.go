package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// Agents may start before the namespace exists, and stay for the next benchmark.
func TestBenchAgentsRunElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector cannot observe other processes")
	}
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := []string{"--brokers", broker.Addr(), "--namespace", "try"}
	agents := place{dir: t.TempDir()}.start(t, append([]string{"bench", "agents", "--latency", "1ms"}, at...)...)
	said := func(what string) func() bool {
		return func() bool { return strings.Contains(agents.err.String(), what) }
	}
	agents.eventually("waiting", said("no benchmark is in namespace try yet"))
	require.Contains(t, agents.err.String(), "sagalog bench tasks --agents running --brokers "+broker.Addr()+" --namespace try")
	p := place{dir: t.TempDir()}.run(t, append([]string{"bench", "tasks", "--agents", "running", "--tasks", "50", "--outstanding", "5",
		"--partitions", "4", "--warmup", "0s", "--duration", "2m", "-o", "json"}, at...)...)
	require.Equal(t, 0, p.code(), p.err.String())
	require.Contains(t, p.err.String(), "sagalog bench agents --brokers "+broker.Addr()+" --namespace try")
	var r bench.Result
	require.NoError(t, json.Unmarshal([]byte(p.out.String()), &r))
	require.EqualValues(t, 50, r.Checked)
	agents.eventually("attached", said("attached to "+broker.Addr()+", namespace try: the agents reserve, pay, pack, ship, notify, 512 calls of each at once, 1ms a call"))
	require.NoError(t, agents.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 0, agents.end())
	require.Contains(t, agents.err.String(), "ended; 250 calls were answered")
}

func TestBenchAgentsRefusesWrongCalls(t *testing.T) {
	startsMany(t)
	t.Parallel()
	for args, want := range map[string]string{
		"--namespace try":                                                 "--brokers is missing",
		"--brokers 127.0.0.1:1":                                           "--namespace is missing",
		"--brokers 127.0.0.1:1 --namespace /":                             "--namespace",
		"--brokers 127.0.0.1:1 --namespace a --concurrency 0":             "--concurrency",
		"--brokers 127.0.0.1:1 --namespace a --tail 1":                    "SHARE%:DURATION",
		"--brokers 127.0.0.1:1 --namespace a --latency -1s":               "--latency",
		"--brokers 127.0.0.1:1 --namespace a --drain 1s":                  "unknown flag",
		"--brokers 127.0.0.1:1 --namespace a --fsync":                     "unknown flag",
		"--brokers 127.0.0.1:1 --namespace a --partitions 4":              "unknown flag",
		"--brokers 127.0.0.1:1 --namespace a --data /tmp":                 "unknown flag",
		"--brokers 127.0.0.1:1 --namespace a --concurrency 1 --tail 1%:x": "SHARE%:DURATION",
	} {
		p := place{dir: t.TempDir()}.run(t, append([]string{"bench", "agents"}, strings.Fields(args)...)...)
		require.Equal(t, 2, p.code(), args)
		require.Contains(t, p.err.String(), want, args)
	}
	p := place{dir: t.TempDir()}.run(t, "bench", "agents", "--brokers", "127.0.0.1:1", "--namespace", "a")
	require.Equal(t, 1, p.code())
	require.Contains(t, p.err.String(), "nothing listens there")
	require.Contains(t, p.err.String(), "Remedy: ")
}
