package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/sagalog/sagalog/internal/whatif"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// failsFirst is a service that fails the first call of each fourth payment.
type failsFirst struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (s *failsFirst) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.seen[r.URL.Path]
	if s.seen[r.URL.Path] = true; first && strings.HasSuffix(r.URL.Path, "0") {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// whatIfEndsWithoutAnEstimate makes calls that fail: 1 only means that history is not reproduced, and there is no file of tasks unless there is an estimate.
func whatIfEndsWithoutAnEstimate(t *testing.T, at place, data, policy string) {
	t.Helper()
	lines := filepath.Join(at.dir, "none.jsonl")
	none := at.run(t, "whatif", policy, "--data", data, "--tasks", lines, "--until", "1d")
	require.Equal(t, 2, none.code())
	require.NoFileExists(t, lines)

	half := filepath.Join(at.dir, "half")
	require.NoError(t, os.CopyFS(half, os.DirFS(data)))
	require.NoError(t, os.WriteFile(filepath.Join(half, "past.partial"), nil, 0o600))
	copied := at.run(t, "whatif", policy, "--data", half)
	require.Equal(t, 2, copied.code())
	require.Contains(t, copied.err.String(), "half a copy")

	call := func(out io.Writer, format string, replay func(context.Context, whatif.Config) (*whatif.Report, error)) (bool, string, error) {
		cmd, said := &cobra.Command{}, &strings.Builder{}
		cmd.SetContext(t.Context())
		cmd.SetOut(out)
		cmd.SetErr(said)
		c := whatifConfig{logPlace: logPlace{data: data, namespace: "sagalog"}, since: "7d", tasks: lines, format: format, draws: 1}
		estimated, err := c.run(cmd, policy, replay)
		return estimated, said.String(), err
	}
	refused := func(_ context.Context, cfg whatif.Config) (*whatif.Report, error) {
		require.FileExists(t, lines)
		return &whatif.Report{}, nil
	}
	estimated, _, err := call(io.Discard, "table", refused)
	require.NoError(t, err)
	require.False(t, estimated)
	require.NoFileExists(t, lines)

	broken, err := os.Create(filepath.Join(at.dir, "out"))
	require.NoError(t, err)
	require.NoError(t, broken.Close())
	for _, format := range []string{"table", "json"} {
		_, _, err = call(broken, format, whatif.Run)
		require.ErrorContains(t, err, "already closed")
		require.NoFileExists(t, lines)
	}

	calls := 0
	estimated, said, err := call(io.Discard, "table", func(ctx context.Context, cfg whatif.Config) (*whatif.Report, error) {
		if calls++; calls == 1 {
			return nil, &kafkalog.CutError{Topic: cfg.Topic, Partition: 1, Start: 5}
		}
		return whatif.Run(ctx, cfg)
	})
	require.NoError(t, err)
	require.True(t, estimated)
	require.Equal(t, 2, calls)
	require.Equal(t, "sagalog: sagalog.events partition 1 was cut while it was read; reading again\n", said)
	require.FileExists(t, lines)
}

// What a real engine did is reproduced, while it runs and when it has stopped, and one attempt less undoes the tasks whose first attempt failed.
func TestWhatIfOfARunningAndAStoppedEngine(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	service := httptest.NewServer(&failsFirst{seen: map[string]bool{}})
	defer service.Close()
	data, agents := filepath.Join(at.dir, "d"), filepath.Join(at.dir, "agents")
	write := func(name, text string) string {
		name = filepath.Join(at.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	write("agents/bank.yaml", "agent: bank\nhttp: {base: "+service.URL+", breaker: {failures: 1, window: 1h}}\ndo: {method: PUT, path: \"/pay/${ task.id }\"}\n")
	const definition = "workflow: pay\nsteps:\n  pay:\n    agent: bank\n    retry: {attempts: %d, backoff: 10ms, then: %s}\n"
	applied := write("pay.yaml", fmt.Sprintf(definition, 3, "undo"))
	dev := at.start(t, "dev", "--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--agents", agents)
	dev.eventually("ready", func() bool { return get(t, dev.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })
	api := dev.endpoints(data).HTTP
	require.Equal(t, 0, at.run(t, "workflow", "apply", applied, "--api", api).code())
	const tasks = 40
	for i := range tasks { // of which 0, 4, 8 and so on end in 0
		id := fmt.Sprintf("t-%d-%d", i, i%4)
		p := at.run(t, "task", "submit", "-w", "pay", "--id", id, "--wait", "--timeout", "2m", "--api", api)
		require.Equal(t, 0, p.code(), p.err.String())
	}

	less, parks := write("less.yaml", fmt.Sprintf(definition, 1, "undo")), write("parks.yaml", fmt.Sprintf(definition, 1, "park"))
	running := at.run(t, "whatif", less, "--brokers", dev.endpoints(data).Kafka)
	require.Equal(t, 0, running.code(), running.err.String())
	require.Contains(t, running.out.String(), "calibration   40 tasks, own policy: same end 100.0 %   attempts +0.0 %   duration p95 +0.0 %\n")
	require.Regexp(t, `(?m)^processed +40 +30 +-25.0 %$`, running.out.String())
	require.Regexp(t, `(?m)^undone +0 +10$`, running.out.String())
	require.Contains(t, running.out.String(), "changed tasks: 10 processed -> undone (t-0-0, t-12-0, t-16-0, ...);  --tasks FILE writes all;")
	require.Equal(t, 0, dev.stop())

	stopped := at.run(t, "whatif", less, "--data", data)
	require.Equal(t, 0, stopped.code(), stopped.err.String())
	require.Equal(t, running.out.String(), stopped.out.String())

	lines := filepath.Join(at.dir, "tasks.jsonl")
	parked := at.run(t, "whatif", parks, "--data", data, "--tasks", lines, "-o", "json", "--draws", "3")
	require.Equal(t, 0, parked.code(), parked.err.String())
	var rep whatif.Report
	require.NoError(t, json.Unmarshal([]byte(parked.out.String()), &rep))
	require.Equal(t, whatif.Interval{Low: 10, High: 10}, rep.Estimate.Ends["error"])
	text, err := os.ReadFile(lines)
	require.NoError(t, err)
	require.Equal(t, tasks, bytes.Count(text, []byte("\n")))

	whatIfEndsWithoutAnEstimate(t, at, data, less)
	other := write("other.yaml", "workflow: pay\nsteps:\n  pay:\n    agent: bank\n    with: {id: 1}\n")
	for _, c := range []struct {
		says string
		args []string
	}{
		{other + `:5:5: steps.pay.with is not as in version 1 of workflow "pay"`, []string{other, "--data", data}},
		{"no task of workflow", []string{less, "--data", data, "--until", "1d"}},
		{"--data or --brokers", []string{less}},
		{"--draws 0 is not from 1", []string{less, "--data", data, "--draws", "0"}},
		{`--workflow is "order"`, []string{less, "--data", data, "--workflow", "order"}},
		{"not later than --since", []string{less, "--data", data, "--until", "8d"}},
		{"exists already (--tasks)", []string{less, "--data", data, "--tasks", lines}},
		{"no such file", []string{"nowhere.yaml", "--data", data}},
		{"is not known", []string{less, "--data", data, "-o", "xml"}},
	} {
		p := at.run(t, append([]string{"whatif"}, c.args...)...)
		require.Equal(t, 2, p.code(), "%v: %s", c.args, p.err.String())
		require.Contains(t, p.err.String(), c.says)
	}
}
