package main

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

// Names, types and help texts are as Prometheus expects them, of a node and agents that have worked and failed, and none has a label
// with as many values as there are tasks. dev has all parts of a node and agents in one process.
func TestMetricsFollowTheConventions(t *testing.T) {
	t.Parallel()
	at := place{dir: t.TempDir()}
	p := at.start(t, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--partitions", "2")
	url := p.endpoints(filepath.Join(at.dir, "sagalog-data"))["http"]
	text := scraped(t, url, "sagalog_agent_calls_total{", `sagalog_tasks_ended_total{state="processed",workflow="drone-delivery"}`)
	require.Equal(t, 0, p.stop())
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	for _, x := range problems {
		if strings.HasPrefix(x.Metric, "sagalog_") {
			t.Errorf("%s: %s", x.Metric, x.Text)
		}
	}
	for _, label := range []string{"task=", "key=", "instance=", "item="} {
		require.NotContains(t, text, label, "too many values for a label")
	}
}

// scraped returns the metrics once they hold the texts.
func scraped(t *testing.T, url string, holds ...string) string {
	t.Helper()
	var text string
	require.Eventually(t, func() bool {
		r, err := http.Get(url + "/metrics")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		text = string(b)
		for _, x := range holds {
			if !bytes.Contains(b, []byte(x)) {
				return false
			}
		}
		return err == nil
	}, 2*time.Minute, 200*time.Millisecond)
	return text
}
