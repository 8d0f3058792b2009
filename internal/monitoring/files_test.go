package monitoring_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/monitoring"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

var rewrite = flag.Bool("rewrite", false, "write the files")

// The files in the repository are what the program prints.
func TestTheCommittedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]byte{
		"deploy/prometheus/alerts.yaml":         monitoring.AlertRules(monitoring.Options{}),
		"deploy/helm/sagalog/files/alerts.yaml": monitoring.AlertRules(monitoring.Options{}), // what the chart's PrometheusRule holds
		"deploy/prometheus/prometheus.yaml":     monitoring.ScrapeConfig(),
		"deploy/grafana/sagalog.json":           monitoring.Dashboard(),
		"docs/alerts.md":                        monitoring.Runbook(),
	} {
		path := filepath.Join("..", "..", filepath.FromSlash(name))
		if *rewrite {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, want, 0o600))
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is not current: go test ./internal/monitoring -rewrite", name)
	}
}

func TestEachRuleSaysWhatToDo(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(monitoring.AlertRules(monitoring.Options{}), &file))
	require.Len(t, file.Groups, 1)
	require.Len(t, file.Groups[0].Rules, len(monitoring.Rules))
	book := string(monitoring.Runbook())
	for _, r := range file.Groups[0].Rules {
		require.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
		for _, a := range []string{"summary", "description", "command", "runbook_url"} {
			require.NotEmpty(t, r.Annotations[a], "%s %s", r.Alert, a)
		}
		require.Contains(t, book, "\n## "+r.Alert+"\n")
		require.True(t, strings.HasPrefix(r.Annotations["command"], "sagalog "), r.Alert)
	}
	shorter := string(monitoring.AlertRules(monitoring.Options{Divide: 60}))
	require.Contains(t, shorter, `max(sagalog_task_oldest_seconds{state="error"}) > 60'`)
	require.Contains(t, shorter, "increase(sagalog_deadlines_passed_total[15s])")
	require.Contains(t, shorter, "for: 5s\n")
	require.True(t, json.Valid(monitoring.Dashboard()))
}

// The table of the engine's alerts has every kind, and names rules that exist.
func TestTheOverviewHasEveryAlert(t *testing.T) {
	t.Parallel()
	var kinds, open []string
	for _, a := range monitoring.EngineAlerts {
		kinds = append(kinds, a.Kind)
		if a.Open {
			open = append(open, a.Kind)
		}
		for _, name := range a.Rules {
			require.True(t, slices.ContainsFunc(monitoring.Rules, func(r monitoring.Rule) bool { return r.Name == name }), name)
		}
	}
	require.ElementsMatch(t, api.AlertKinds, kinds)
	require.ElementsMatch(t, api.OpenKinds, open)
	_, table, _ := strings.Cut(string(monitoring.Runbook()), "## Which alert")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, r := range monitoring.Rules {
		require.Equal(t, 1, strings.Count(table, "["+r.Name+"]"), "one line names %s", r.Name)
	}
}
