package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sagalog/sagalog/internal/whatif"
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
