package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/stretchr/testify/require"
)

// checkup is what doctor found, by check and status.
type checkup map[string]map[doctor.Status][]doctor.Finding

func examined(t *testing.T, p *program) checkup {
	t.Helper()
	out := checkup{}
	for line := range strings.Lines(p.out.String()) {
		var f doctor.Finding
		require.NoError(t, json.Unmarshal([]byte(line), &f))
		require.NotEmpty(t, f.What)
		require.Equal(t, f.Status != doctor.StatusOK, f.Remedy != "", "each problem has a remedy: %s", f.What)
		if out[f.Check] == nil {
			out[f.Check] = map[doctor.Status][]doctor.Finding{}
		}
		out[f.Check][f.Status] = append(out[f.Check][f.Status], f)
	}
	return out
}

// Doctor checks a cluster before there is a namespace, while a node runs and after it, and changes nothing.
func TestDoctorChecksBeforeDuringAndAfterANode(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	at := place{dir: t.TempDir(), env: []string{"SAGALOG_BROKERS=" + broker.Addr(), "SAGALOG_NODE=n1", "SAGALOG_HTTP=" + freePort(t)}}
	command := []string{"doctor", "-o", "jsonl"}

	before := at.run(t, command...)
	require.Equal(t, 0, before.code())
	found := examined(t, before)
	require.Contains(t, found[doctor.CheckBrokers][doctor.StatusOK][0].What, broker.Addr())
	require.Contains(t, found[doctor.CheckNamespace][doctor.StatusOK][0].What, "does not exist yet: the first node creates it, with 8 partitions")
	require.Contains(t, found[doctor.CheckTopics][doctor.StatusOK][0].What, "8 topics are missing and can be created")
	require.Contains(t, found[checkData][doctor.StatusOK][0].What, "does not exist yet")
	require.Contains(t, found[checkHTTP][doctor.StatusOK][0].What, "is free")
	entries, err := os.ReadDir(at.dir)
	require.NoError(t, err)
	require.Empty(t, entries, "an examination leaves nothing behind")

	n := at.start(t, "serve")
	data := filepath.Join(at.dir, "sagalog-data")
	n.eventually("ready", func() bool { return get(t, n.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })
	while := at.run(t, command...)
	require.Equal(t, 0, while.code())
	found = examined(t, while)
	require.Equal(t, "namespace sagalog has 8 partitions", found[doctor.CheckNamespace][doctor.StatusOK][0].What)
	require.Contains(t, found[checkData][doctor.StatusWarn][0].What, "node n1 runs in the data directory")
	require.Contains(t, found[checkHTTP][doctor.StatusOK][0].What, "is where that node serves its API")
	require.Equal(t, "alive: n1", found[checkNodes][doctor.StatusOK][0].What)
	listed := at.run(t, "nodes", "list", "--api", n.endpoints(data).HTTP)
	require.Equal(t, 0, listed.code(), listed.err.String())
	require.Regexp(t, `\nn1 +alive +8 .* MiB +[0-9]+ MiB\n`, listed.out.String())
	metrics, err := http.Get(n.endpoints(data).HTTP + "/metrics")
	require.NoError(t, err)
	text, err := io.ReadAll(metrics.Body)
	require.NoError(t, err)
	require.NoError(t, metrics.Body.Close())
	require.Regexp(t, `\nsagalog_node_info\{namespace_id="[^"]+",node="n1",owner="true"\} 1\n`, string(text), "what SagalogNodeMissing and SagalogOtherNamespace watch")
	elsewhere := place{dir: t.TempDir(), env: at.env}.run(t, command...)
	require.Equal(t, 0, elsewhere.code(), "from another directory, as the command of an alert runs")
	require.Contains(t, examined(t, elsewhere)[checkHTTP][doctor.StatusOK][0].What, "is where node n1 serves its API")

	require.Equal(t, 0, n.stop())
	after := at.run(t, command...)
	require.Equal(t, 0, after.code())
	found = examined(t, after)
	require.Contains(t, found[checkData][doctor.StatusOK][0].What, "can be written and is free")
	require.Contains(t, found[checkNodes][doctor.StatusWarn][0].What, "no node of namespace sagalog is alive: nothing is decided")
	require.Len(t, found[doctor.CheckReplicas][doctor.StatusWarn], 1, "one broker keeps one copy")
}

// Each thing that would stop a start fails a check, with exit code 1.
func TestDoctorFailsWhatServeWouldRefuse(t *testing.T) {
	t.Parallel()
	broker := kafkatest.StartBroker(t, embedded.Config{})
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = busy.Close() })
	dir := t.TempDir()
	write(t, filepath.Join(dir, "dev", "broker", "x"), "")
	write(t, filepath.Join(dir, "agents", "a.yaml"), "agent: a\nhttp: {base: \"${ env.NOT_SET }\"}\ndo: {method: PUT, path: /}\n")
	unlock, err := embedded.Lock(filepath.Join(dir, "locked", lockFile))
	require.NoError(t, err)
	t.Cleanup(func() { _ = unlock() })
	brokers := "--brokers " + broker.Addr()
	for name, c := range map[string]struct{ args, check, says string }{
		"traces":             {brokers, checkTraces, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json is not supported"},
		"nobody there":       {"--brokers 127.0.0.1:1", doctor.CheckBrokers, "connection refused"},
		"TLS":                {brokers + " --tls", doctor.CheckSecurity, "the listener speaks plain text, but we spoke TLS"},
		"a directory of dev": {brokers + " --data dev", checkData, "is a data directory of `sagalog dev`"},
		"in use":             {brokers + " --data locked", checkData, "the data directory is in use by process"},
		"not a directory":    {brokers + " --data agents/a.yaml", checkData, "is a file, not a directory"},
		"a busy port":        {brokers + " --http " + busy.Addr().String(), checkHTTP, "address already in use"},
		"bad agents":         {brokers + " --agents agents", checkAgents, "NOT_SET"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"doctor", "-o", "jsonl", "--http", "127.0.0.1:0"}, strings.Fields(c.args)...)
			at := place{dir: dir}
			if c.check == checkTraces {
				at.env = []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}
			}
			p := at.run(t, args...)
			require.Equal(t, 1, p.code())
			require.Len(t, examined(t, p)[c.check][doctor.StatusFail], 1)
			require.Contains(t, examined(t, p)[c.check][doctor.StatusFail][0].What, c.says)
			require.Contains(t, p.err.String(), "1 fail")
		})
	}
}

// A data directory that does not exist yet is on the disk of the directory in which it will be created. Doctor, serve
// and dev notice if that disk is too small.
func TestADirectoryToBeCreatedNeedsRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=200k"); err != nil {
		t.Skipf("SKIPPED: no small disk can be mounted (%s); run it as root: go test ./cmd/sagalog -run NeedsRoom", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	broker := kafkatest.StartBroker(t, embedded.Config{})
	for _, args := range []string{
		"doctor --brokers " + broker.Addr() + " --http 127.0.0.1:0 --data not/yet", "serve --brokers " + broker.Addr() + " --http 127.0.0.1:0 --data not/yet",
		"dev --http 127.0.0.1:0 --kafka 127.0.0.1:0 --data not/yet",
	} {
		p := place{dir: dir}.run(t, strings.Fields(args)...)
		require.Equal(t, 1, p.code(), args)
		said := p.out.String() + p.err.String()
		require.Contains(t, said, "the disk of the data directory not/yet has 0 MiB left, and it needs at least 128 MiB")
		require.Contains(t, strings.ToLower(said), "remedy: make room there")
		require.NoDirExists(t, filepath.Join(dir, "not"), args)
	}
}

// A person reads a table in which each remedy stands below its finding. A program reads an array.
func TestDoctorPrintsForPeopleAndPrograms(t *testing.T) {
	t.Parallel()
	at := place{dir: t.TempDir()}
	table := at.run(t, "doctor", "--brokers", "127.0.0.1:1", "--http", "127.0.0.1:0")
	require.Equal(t, 1, table.code())
	require.Contains(t, table.out.String(), "fail  brokers      broker 127.0.0.1:1: nothing listens there (connection refused)\n"+
		"                   remedy: start the broker, or correct host and port (--brokers)\n")
	require.Contains(t, table.err.String(), "sagalog: 3 checks: 2 ok, 0 warn, 1 fail")

	list := at.run(t, "doctor", "--brokers", "127.0.0.1:1", "--http", "127.0.0.1:0", "-o", "json")
	var findings []doctor.Finding
	require.NoError(t, json.Unmarshal([]byte(list.out.String()), &findings))
	require.Len(t, findings, 3)

	for args, says := range map[string]string{
		"-o yaml --brokers h:1": `-o "yaml" is not known`,
		"":                      "--brokers is missing",
		"--roles x --brokers h": `unknown role "x"`,
	} {
		p := at.run(t, append([]string{"doctor"}, strings.Fields(args)...)...)
		require.Equal(t, 2, p.code(), args)
		require.Contains(t, p.err.String(), says)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}
