package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sagalog/sagalog/internal/bench"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// benched runs a benchmark as a process and returns what it printed.
func benched(t *testing.T, args ...string) bench.Result {
	t.Helper()
	p := place{dir: t.TempDir()}.run(t, append([]string{"bench"}, append(args, "-o", "json", "--partitions", "4")...)...)
	require.Equal(t, 0, p.code(), p.err.String())
	var r bench.Result
	require.NoError(t, json.Unmarshal([]byte(p.out.String()), &r))
	require.Zero(t, r.Lost+r.Doubled+r.Unfinished)
	return r
}

func TestBenchTasksWithAgentsInAnotherProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector cannot observe other processes")
	}
	t.Parallel()
	r := benched(t, "tasks", "--agents", "outside", "--tasks", "200", "--duration", "30m", "--outstanding", "20", "--latency", "1ms", "--warmup", "0s",
		"--tail", "10%:5ms", "--slow-factor", "2", "--slow-after", "100ms")
	require.EqualValues(t, 200, r.Checked)
	require.EqualValues(t, 1000, r.Calls, "the other process counted them")
	require.NotNil(t, r.Origin)
	require.Contains(t, r.Flags, "--tail=10%:5ms")
	require.Contains(t, r.Flags, "--partitions=4")
	require.NotEmpty(t, r.Version)
	require.NotEmpty(t, r.GoVersion)
	require.Positive(t, r.Processors)
	require.False(t, r.Started.IsZero())
}

func TestBenchPagesReadsWhatAPageReads(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector cannot observe other processes")
	}
	t.Parallel()
	r := benched(t, "pages", "--pages", "2", "--rate", "20", "--latency", "1ms", "--warmup", "0s", "--duration", "2s")
	require.Equal(t, 2, r.Pages)
	require.Positive(t, r.PageReads)
	require.Positive(t, r.CoresWith)
	require.NotContains(t, strings.Join(r.Notes, "\n"), "failed")
}

func TestBenchTakeoverLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector cannot observe other processes")
	}
	t.Parallel()
	r := benched(t, "takeover", "--kills", "1", "--rate", "50", "--warmup", "500ms")
	require.Equal(t, 1, r.Kills)
	require.Positive(t, r.TakenOver)
	require.Positive(t, r.TakeoverMax)
	require.GreaterOrEqual(t, r.TakeoverMax, r.ClaimP50)
	require.Positive(t, r.Checked)
}

func TestCtrlCEndsABenchmarkWithItsFigures(t *testing.T) {
	t.Parallel()
	p := place{dir: t.TempDir()}.start(t, "bench", "tasks", "--outstanding", "5", "--warmup", "0s", "--duration", "1h")
	p.eventually("progress", func() bool { return strings.Contains(p.err.String(), "tasks/s") })
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 0, p.end())
	require.Contains(t, p.out.String(), "interrupted")
	require.Contains(t, p.out.String(), "0 lost, 0 doubled")
}

func TestBenchRefusesWrongCalls(t *testing.T) {
	startsMany(t)
	t.Parallel()
	for args, want := range map[string]string{
		"":                                              "Usage",
		"taks":                                          `did you mean "tasks"`,
		"tasks -o xml":                                  "table, json",
		"tasks --rat 5":                                 `did you mean "--rate"`,
		"tasks --rate -5":                               "--rate -5 is not",
		"tasks --rate NaN":                              "--rate NaN is not",
		"tasks --rate 1e12":                             "--rate times",
		"tasks --agents running":                        "needs --brokers",
		"tasks --slow-factor 0.5":                       "--slow-factor 0.5",
		"tasks --slow-factor 2 --duration 5s":           "--slow-after 10s",
		"submit --rate NaN":                             "--rate NaN is not",
		"takeover --rate NaN":                           "--rate NaN is not",
		"tasks --rate 5 --outstanding 5":                "one of them",
		"tasks --tail 1":                                "SHARE%:DURATION",
		"tasks --tail 101%:1s":                          "SHARE%:DURATION",
		"tasks --agents insid":                          `"inside"`,
		"tasks --concurrency 0":                         "--concurrency",
		"tasks --duration 0s":                           "--duration",
		"tasks --partitions 0":                          "--partitions",
		"tasks --by-port --brokers 127.0.0.1:1":         "--by-port",
		"tasks --fsync --brokers 127.0.0.1:1":           "--fsync",
		"tasks --brokers nonsense":                      "HOST:PORT",
		"tasks --namespace /":                           "--namespace",
		"tasks more":                                    "unknown command",
		"submit --via htp":                              `"http"`,
		"submit --burst 1s":                             "--burst",
		"submit --admission ajar":                       "open, closed",
		"submit --rate 9 --burst 1s --admission closed": "--admission",
		"backlog --tasks 0":                             "--tasks",
		"replay --facts 0":                              "--facts",
		"pages --pages 0":                               "--pages 0 is not",
		"pages --http :0":                               "--http",
		"takeover --kills 0":                            "--kills",
		"agents":                                        "--brokers",
		"agents --brokers 127.0.0.1:1":                  "--namespace is missing",
		"replay --copy":                                 "--data",
		"tasks --rate 0":                                "--rate 0 is not above zero",
		"tasks --outstanding 2000000":                   "from 1 to 1000000",
		"tasks --drain 0s":                              "--drain 0s",
		"tasks --slow-after 5s":                         "runs with --slow-factor",
		"tasks --agents running --tail 1%:2s --brokers 127.0.0.1:1": "agents that run already",
		"submit --via http --outstanding 5":                         "--outstanding would be ignored here; it belongs to --via kafka",
		"submit --rate 5 --outstanding 5":                           "with --rate, submissions are sent when they are due",
		"submit --connections 5":                                    "--via http and ndjson",
		"submit --rate 5 --burst 1s --duration 5s":                  "--duration would be ignored",
		"submit --rate 5 --burst 1s --slow-factor 5":                "it belongs to sagalog bench tasks",
		"submit --latency 5ms":                                      "--admission open",
		"takeover --slow-factor 5":                                  "it belongs to sagalog bench tasks",
		"takeover --cpuprofile x":                                   "engine is in this process",
		"agents --brokers h:1 --namespace x --slow-factor 2":        "only they know when",
		"agents --brokers h:1 --namespace x --fsync":                "unknown flag --fsync",
	} {
		p := place{dir: t.TempDir()}.run(t, append([]string{"bench"}, strings.Fields(args)...)...)
		require.Equal(t, 2, p.code(), args)
		require.Contains(t, p.err.String(), want, args)
		require.Empty(t, p.out.String(), args)
	}
}

func TestBenchRefusesTheDataOfAnEngine(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	p := place{dir: t.TempDir()}
	data := filepath.Join(p.dir, "theirs")
	require.NoError(t, os.MkdirAll(filepath.Join(data, "broker"), 0o700))
	for _, run := range []string{"tasks", "submit", "backlog", "replay", "takeover"} {
		q := p.run(t, "bench", run, "--data", data)
		require.Equal(t, 1, q.code(), run)
		require.Contains(t, q.err.String(), "--data "+data+" holds files, and no benchmark made it", run)
	}
	left, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing was written")
}

func TestBenchReportsWhereTemporaryDataIs(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	dir := t.TempDir()
	p := place{dir: dir, env: []string{"TMPDIR=" + filepath.Join(dir, "missing")}}.run(t, "bench", "tasks", "--tasks", "1")
	require.Equal(t, 1, p.code())
	require.Contains(t, p.err.String(), "TMPDIR")
	require.Contains(t, p.err.String(), "--data")
}

func TestReportsContainNoPassword(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.String(secret, "", "")
	f.StringSlice("brokers", nil, "")
	require.NoError(t, f.Parse([]string{"--" + secret, "hidden", "--brokers", "a:1,b:1"}))
	require.Equal(t, []string{"--brokers=a:1,b:1", "--" + secret + "=..."}, originOf(f).Flags)
}

// A profile that cannot be written ends the run before anything is measured.
func TestBenchMakesItsProfilesFirst(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	for _, flag := range []string{"--cpuprofile", "--memprofile"} {
		p := place{dir: t.TempDir()}.run(t, "bench", "tasks", "--duration", "1h", flag, filepath.Join(t.TempDir(), "missing", "x.pb"))
		require.Equal(t, 1, p.code())
		require.Contains(t, p.err.String(), flag+": open ")
	}
}

func TestBenchSaysWhyBrokersCannotBeReached(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	p := place{dir: t.TempDir()}.run(t, "bench", "tasks", "--brokers", "127.0.0.1:1")
	require.Equal(t, 1, p.code())
	require.Contains(t, p.err.String(), "127.0.0.1:1")
}

func TestATailIsAShareAndADuration(t *testing.T) {
	t.Parallel()
	share, d, err := parseTail("0.5%:1500ms")
	require.NoError(t, err)
	require.InDelta(t, 0.005, share, 1e-12)
	require.Equal(t, "1.5s", d.String())
}
