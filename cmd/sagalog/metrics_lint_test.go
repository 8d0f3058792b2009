package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/sagalog/sagalog/internal/monitoring"
	"github.com/stretchr/testify/require"
)

// Names, types and help texts are as Prometheus expects them, of a node and agents that have worked and failed, and none has a label
// with as many values as there are tasks. dev has all parts of a node and agents in one process.
func TestMetricsFollowTheConventions(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(at.dir, "webhook.secret"), []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), 0o600))
	require.Equal(t, 0, at.run(t, "key", "create", "seal.key").code())
	p := at.start(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--partitions", "2", "--webhook", "http://127.0.0.1:1/", "--webhook-secret-file", "webhook.secret", "--seal-key-file", "seal.key")
	url := p.endpoints(filepath.Join(at.dir, "sagalog-data")).HTTP
	worked := []string{`sagalog_agent_calls_total{agent="\w+",outcome="completed"} [1-9]`, `sagalog_tasks_ended_total{state="processed",workflow="drone-delivery"} [1-9]`}
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	text := scraped(t, url, append(worked, usedByRulesAndPanels(t, string(page))...)...)
	require.Equal(t, 0, p.stop())
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	for _, x := range problems {
		if strings.HasPrefix(x.Metric, "sagalog_") {
			t.Errorf("%s: %s", x.Metric, x.Text)
		}
	}
	types := regexp.MustCompile(`(?m)^# TYPE (sagalog_\w+) (\w+)$`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, types)
	for _, m := range types {
		require.Contains(t, string(page), "| `"+m[1]+"` | "+m[2]+" |", "the reference says another type")
	}
	for _, label := range []string{"task=", "key=", "instance=", "item="} {
		require.NotContains(t, text, label, "too many values for a label")
	}
}

// rare are metrics without a value while the example works as it should.
var rare = regexp.MustCompile(`^sagalog_(schedule_.*|limit_.*|owner_oldest_effect_seconds|open_transaction_seconds|attempt_failures_total|agent_waiting_steps)$`)

// usedByRulesAndPanels returns a pattern for each metric that an alert rule or a panel of the dashboard uses. Of a rare one, only the reference
// must know the name.
func usedByRulesAndPanels(t *testing.T, reference string) []string {
	t.Helper()
	used := string(monitoring.AlertRules(monitoring.Options{})) + string(monitoring.Dashboard())
	var patterns []string
	for _, name := range regexp.MustCompile(`sagalog_[a-z_]+`).FindAllString(used, -1) {
		if rare.MatchString(name) {
			require.Contains(t, reference, "| `"+name+"` |")
			continue
		}
		patterns = append(patterns, `\n`+name)
	}
	return patterns
}

// scraped returns the metrics once they match all the patterns.
func scraped(t *testing.T, url string, holds ...string) string {
	t.Helper()
	var text, missing string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		r, err := http.Get(url + "/metrics")
		require.NoError(t, err)
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		text, missing = string(b), ""
		for _, x := range holds {
			if !regexp.MustCompile(x).Match(b) {
				missing = x
			}
		}
		if missing == "" {
			return text
		}
	}
	t.Fatalf("nothing matches %s in the metrics of two minutes", missing)
	return ""
}
