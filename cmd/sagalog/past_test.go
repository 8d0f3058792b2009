package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// body returns a document; "" unless the answer is 200.
func body(t *testing.T, url string, token ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for _, x := range token {
		req.Header.Set("Authorization", "Bearer "+x)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(b)
}

// A copy of the past can be read in every way and changed in none, and nothing else runs on it.
func TestACopyOfThePastIsServed(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	data, to := filepath.Join(at.dir, "d"), filepath.Join(at.dir, "past")
	dev := at.start(t, "dev", "--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2")
	api := dev.endpoints(data).HTTP
	dev.eventually("ready", func() bool { return get(t, api+"/readyz", nil) == http.StatusOK })
	definition := filepath.Join(at.dir, "w.yaml")
	require.NoError(t, os.WriteFile(definition, []byte("workflow: w\nsteps:\n  first: {wait: {signal: go}}\n  then: {needs: [first], sleep: 1ms}\n"), 0o600))
	require.Equal(t, 0, at.run(t, "workflow", "apply", definition, "--api", api).code())
	require.Equal(t, 0, at.run(t, "task", "submit", "-w", "w", "--id", "t-1", "--api", api).code())
	var waiting struct{ State string }
	dev.eventually("it waits", func() bool {
		return get(t, api+"/v1/tasks/t-1", &waiting) == http.StatusOK && waiting.State == "processing"
	})
	var history struct {
		Events []struct {
			Partition int32
			Offset    int64
			Type      string
		}
	}
	require.Equal(t, http.StatusOK, get(t, api+"/v1/tasks/t-1/history", &history))
	last := history.Events[len(history.Events)-1]
	require.Equal(t, 0, at.run(t, "task", "signal", "t-1", "go", "--api", api).code())
	require.Equal(t, 0, at.run(t, "task", "get", "t-1", "--wait", "--api", api).code())

	brokers := dev.endpoints(data).Kafka
	moment := fmt.Sprintf("%d@%d", last.Partition, last.Offset)
	made := at.run(t, "replay", "--brokers", brokers, "--at", moment, "--to", to, "-o", "json")
	require.Equal(t, 0, made.code(), made.err.String())
	require.Contains(t, made.out.String(), `"namespace":"sagalog"`)
	listed := at.run(t, "task", "list", "--at", moment, "--brokers", brokers, "-o", "jsonl")
	require.Equal(t, 0, listed.code(), listed.err.String())
	require.Contains(t, listed.out.String(), `"state":"processing"`)
	one := at.run(t, "task", "get", "t-1", "--at", moment, "--from-log", "--brokers", brokers, "-o", "json")
	require.Equal(t, 0, one.code(), one.err.String())
	require.Contains(t, one.out.String(), `"state": "processing"`)
	require.Equal(t, 3, at.run(t, "task", "get", "t-2", "--at", moment, "--from-log", "--brokers", brokers).code())
	differ := at.run(t, "diff", "--brokers", brokers, "--from", moment, "--only", "state")
	require.Equal(t, 1, differ.code(), differ.err.String())
	require.Regexp(t, `t-1 +state +processing +processed +\d@\d+ TaskProcessed`, differ.out.String())
	require.Empty(t, differ.err.String())
	require.Equal(t, 0, at.run(t, "diff", "--brokers", brokers, "--from", moment, "--to", moment).code())

	served := at.start(t, "api", "--read-only", "--data", to, "--http", "127.0.0.1:0")
	var past string
	served.eventually("the address", func() bool {
		_, after, ok := strings.Cut(served.out.String(), "--api ")
		past = strings.TrimSpace(after)
		return ok && strings.HasSuffix(after, "\n")
	})
	var info struct{ Past events.Instant }
	require.Equal(t, http.StatusOK, get(t, past+"/v1/info", &info))
	require.NotZero(t, info.Past)
	require.Equal(t, http.StatusOK, get(t, past+"/readyz", nil))
	require.Contains(t, body(t, past+"/v1/tasks/t-1"), `"state":"processing"`)
	require.Contains(t, body(t, past+"/v1/whoami"), `"role":"viewer"`)
	signal := at.run(t, "task", "signal", "t-1", "go", "--api", past)
	require.NotEqual(t, 0, signal.code())
	require.Contains(t, signal.err.String(), "copy of the past")
	require.Equal(t, 0, served.stop())

	wrongPasts(t, pasts{at, data, to, api, brokers, moment})
	require.Equal(t, 0, dev.stop())
	whole := at.run(t, "state", "hash", "--data", to, "--rebuild")
	require.Equal(t, 0, whole.code(), whole.err.String())
}

// pasts is an engine, a copy of its past, and the moment of that.
type pasts struct {
	at                             place
	data, to, api, brokers, moment string
}

// wrongPasts makes calls that are refused, and some that look as if they should be.
func wrongPasts(t *testing.T, p pasts) {
	t.Helper()
	at, data, to, api, brokers, moment := p.at, p.data, p.to, p.api, p.brokers, p.moment
	// What is no copy of the past as a whole is not read as if it were.
	half := filepath.Join(at.dir, "half")
	require.NoError(t, os.CopyFS(half, os.DirFS(to)))
	require.NoError(t, os.WriteFile(filepath.Join(half, "past.partial"), nil, 0o600))
	for _, args := range [][]string{{"task", "list", "--at", moment}, {"diff", "--from", moment}, {"export", "facts", "--to", "y"}, {"replay", "--at", moment, "--to", "y"}} {
		read := at.run(t, append(args, "--data", half)...)
		require.NotEqual(t, 0, read.code(), args)
		require.Contains(t, read.err.String(), "half a copy", args)
	}
	// Variables of a session on call are for the commands that need them.
	called := place{dir: at.dir, env: []string{"SAGALOG_API=" + api, "SAGALOG_BROKERS=" + brokers}}
	require.Equal(t, 0, called.run(t, "task", "list").code())
	then := called.run(t, "task", "list", "--at", moment)
	require.Equal(t, 0, then.code(), then.err.String())
	require.Contains(t, then.err.String(), "as of ")
	elsewhere := called.run(t, "diff", "--from", moment, "--data", "nowhere")
	require.Contains(t, elsewhere.err.String(), "nowhere does not exist (--data)", "the flag counts, and not the variable of the other place")
	nobody := called.run(t, "diff", "--from", moment, "--workflow", "nope")
	require.Equal(t, 0, nobody.code())
	require.Contains(t, nobody.err.String(), `no workflow "nope"`)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "in which nothing goes on", []string{"dev", "--data", to, "--demo", "none"}},
		{1, "in which nothing goes on", []string{"verify", "--data", to}},
		{1, "in which nothing goes on", []string{"serve", "--data", to, "--brokers", brokers}},
		{1, "in which nothing goes on", []string{"namespace", "copy", "--data", to, "--to-brokers", brokers}},
		{1, "in which nothing goes on", []string{"namespace", "reopen", "--data", to, "--copy-discarded"}},
		{1, "in which nothing goes on", []string{"verify", "--brokers", brokers, "--store", to}},
		{2, "read from the log: give --at too", []string{"task", "list", "--data", to, "--api", api}},
		{2, "give --at and --from-log too", []string{"task", "get", "t-1", "--brokers", brokers, "--api", api}},
		{2, "does not exist (--checkpoints)", []string{"task", "list", "--at", moment, "--brokers", brokers, "--checkpoints", "nowhere"}},
		{2, "does not exist (--checkpoints)", []string{"diff", "--from", moment, "--brokers", brokers, "--checkpoints", "nowhere"}},
		{2, "does not exist (--checkpoints)", []string{"replay", "--at", moment, "--brokers", brokers, "--to", "y", "--checkpoints", "nowhere"}},
		{2, "--checkpoints is only for a past", []string{"task", "list", "--checkpoints", data, "--api", api}},
		{2, "leave out --wait", []string{"task", "get", "t-1", "--at", moment, "--from-log", "--brokers", brokers, "--wait"}},
		{2, "in the future", []string{"task", "list", "--at", "2999-01-01T00:00:00Z", "--brokers", brokers}},
		{2, "holds no copy of the past", []string{"api", "--read-only", "--data", data}},
		{2, "--read-only is missing", []string{"api", "--data", to}},
		{2, "other machines can reach", []string{"api", "--read-only", "--data", to, "--http", "0.0.0.0:0"}},
		{2, "is not empty", []string{"replay", "--brokers", brokers, "--at", "0s", "--to", to}},
		{2, "--at is missing", []string{"replay", "--brokers", brokers, "--to", "x"}},
		{2, "not both", []string{"replay", "--brokers", brokers, "--at", "1m", "--before", "0@1", "--to", "x"}},
		{2, "not the place of a fact", []string{"replay", "--brokers", brokers, "--before", "1m", "--to", "x"}},
		{2, "in the future", []string{"replay", "--brokers", brokers, "--at", "2999-01-01T00:00:00Z", "--to", "x"}},
		{1, "did not exist", []string{"replay", "--brokers", brokers, "--at", "2020-01-01T00:00:00Z", "--to", "x"}},
		{2, "neither an instant", []string{"task", "list", "--at", "noon", "--brokers", brokers}},
		{2, "--data or --brokers", []string{"task", "list", "--at", "1m"}},
		{2, "--from is missing", []string{"diff", "--brokers", brokers}},
		{2, "leave one out", []string{"diff", "--brokers", brokers, "--from", moment, "--only", "state", "--summary"}},
		{2, "exchange them", []string{"diff", "--brokers", brokers, "--from", "0s", "--to", moment}},
		{2, "in the future", []string{"task", "list", "--at", "2026-12-31T00:00:00Z", "--data", to}},
	} {
		wrong := at.run(t, c.args...)
		require.Equal(t, c.code, wrong.code(), "%v: %s", c.args, wrong.err.String())
		require.Contains(t, wrong.err.String(), c.says, "%v", c.args)
	}
}
